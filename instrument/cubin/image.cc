#include "instrument/cubin/image.h"

#include <elf.h>

#include <algorithm>
#include <map>

namespace xtrace::cubin {

bool Image::is_structural(uint32_t section) const {
  const uint32_t type = sections_[section].type;
  return type == SHT_SYMTAB || type == SHT_REL || type == SHT_RELA;
}

unsigned Image::sm() const { return sm_; }

std::vector<Relocation> Image::relocations() const {
  std::vector<Relocation> all;
  all.reserve(relocation_places_.size());
  for (const RelocationPlace& place : relocation_places_) {
    const Section& s = sections_[place.section];
    Relocation r;
    r.relocation_section = place.section;
    r.target_section = s.info;
    r.has_addend = s.type == SHT_RELA;
    const uint64_t at = place.entry * s.entsize;
    Elf64_Rela raw{};
    std::memcpy(&raw, s.data.data() + at, s.entsize);
    r.offset = raw.r_offset;
    r.type = static_cast<uint32_t>(raw.r_info);
    r.symbol = static_cast<uint32_t>(raw.r_info >> 32);
    r.addend = raw.r_addend;
    all.push_back(r);
  }
  return all;
}

std::optional<uint32_t> Image::find_section(std::string_view name) const {
  for (uint32_t i = 1; i < sections_.size(); ++i)
    if (sections_[i].name == name) return i;
  return std::nullopt;
}

std::optional<uint32_t> Image::find_symbol(std::string_view name) const {
  for (uint32_t i = 1; i < symbols_.size(); ++i)
    if ((symbols_[i].is_function() || symbols_[i].is_object()) && symbols_[i].name == name) return i;
  return std::nullopt;
}

std::vector<std::string> Image::kernels() const {
  std::vector<std::string> names;
  for (const Symbol& s : symbols_)
    if (s.is_entry() && s.section != SHN_UNDEF) names.push_back(s.name);
  return names;
}

Result<uint32_t> Image::text_section(std::string_view kernel) const {
  const std::string name = fmt::format(".text.{}", kernel);
  if (const auto section = find_section(name); section) {
    if (sections_[*section].type != SHT_PROGBITS)
      return bad_input("section {}: expected type {} (PROGBITS), found {:#x}", name, SHT_PROGBITS,
                       sections_[*section].type);
    return *section;
  }
  constexpr size_t kListed = 8;
  const std::vector<std::string> known = kernels();
  std::string list;
  for (size_t i = 0; i < known.size() && i < kListed; ++i) list += (i == 0 ? "" : ", ") + known[i];
  if (known.size() > kListed) list += fmt::format(" and {} more", known.size() - kListed);
  return bad_input("no kernel named {} in this cubin; it has {}", kernel, known.empty() ? "none" : list);
}

ByteView Image::original_data(uint32_t section) const {
  XT_CHECK(section < sections_.size(), "section index out of range");
  const Section& s = sections_[section];
  if (s.nobits() || s.type == SHT_NULL) return {};
  return ByteView(original_).subspan(offsets_[section], original_sizes_[section]);
}

void Image::set_section_data(uint32_t section, Bytes data) {
  XT_CHECK(section < sections_.size(), "section index out of range");
  XT_CHECK(!sections_[section].nobits() && sections_[section].type != SHT_NULL, "this section has no bytes");
  XT_CHECK(!is_structural(section), "symbol tables and relocations have their own edits");
  for (uint32_t i = 0; i < sections_.size(); ++i) {
    if (i == section || shares_with_[i] != shares_with_[section]) continue;
    sections_[i].data = data;
    sections_[i].size = data.size();
  }
  sections_[section].size = data.size();
  sections_[section].data = std::move(data);
}

void Image::set_section_info(uint32_t section, uint32_t info) {
  XT_CHECK(section < sections_.size(), "section index out of range");
  sections_[section].info = info;
}

void Image::set_symbol(uint32_t symbol, uint64_t value, uint64_t size) {
  XT_CHECK(symbol < symbols_.size(), "symbol index out of range");
  symbols_[symbol].value = value;
  symbols_[symbol].size = size;
  Bytes& table = sections_[symtab_].data;
  write_at(table, symbol * sizeof(Elf64_Sym) + offsetof(Elf64_Sym, st_value), value);
  write_at(table, symbol * sizeof(Elf64_Sym) + offsetof(Elf64_Sym, st_size), size);
}

void Image::move_symbol(uint32_t symbol, uint8_t kind, uint16_t section, uint64_t value, uint64_t size) {
  XT_CHECK(symbol < symbols_.size() && section < sections_.size(), "symbol or section index out of range");
  Symbol& s = symbols_[symbol];
  s.info = static_cast<uint8_t>((s.info & 0xf0) | (kind & 0xf));
  s.section = section;
  Bytes& table = sections_[symtab_].data;
  write_at(table, symbol * sizeof(Elf64_Sym) + offsetof(Elf64_Sym, st_info), s.info);
  write_at(table, symbol * sizeof(Elf64_Sym) + offsetof(Elf64_Sym, st_shndx), section);
  set_symbol(symbol, value, size);
}

void Image::set_relocation(size_t index, uint64_t offset, int64_t addend) {
  XT_CHECK(index < relocation_places_.size(), "relocation index out of range");
  const RelocationPlace& place = relocation_places_[index];
  Section& s = sections_[place.section];
  const uint64_t at = place.entry * s.entsize;
  write_at(s.data, at + offsetof(Elf64_Rela, r_offset), offset);
  if (s.type == SHT_RELA) {
    write_at(s.data, at + offsetof(Elf64_Rela, r_addend), addend);
  } else {
    XT_CHECK(addend == 0, "a REL relocation has its addend in the patched section");
  }
}

void Image::drop_relocations(const std::vector<size_t>& indices) {
  std::vector<bool> dropped(relocation_places_.size(), false);
  for (size_t index : indices) {
    XT_CHECK(index < dropped.size(), "relocation index out of range");
    dropped[index] = true;
  }
  std::vector<RelocationPlace> places;
  std::map<uint32_t, Bytes> kept;   // by section
  for (size_t k = 0; k < dropped.size(); ++k) {
    RelocationPlace place = relocation_places_[k];
    const Section& s = sections_[place.section];
    Bytes& data = kept[place.section];
    if (dropped[k]) continue;
    const ByteView entry = ByteView(s.data).subspan(place.entry * s.entsize, s.entsize);
    place.entry = static_cast<uint32_t>(data.size() / s.entsize);
    data.insert(data.end(), entry.begin(), entry.end());
    places.push_back(place);
  }
  relocation_places_ = std::move(places);
  for (auto& [section, data] : kept) {
    sections_[section].size = data.size();
    sections_[section].data = std::move(data);
  }
}

void Image::add_relocation(const Relocation& r) {
  XT_CHECK(r.relocation_section < sections_.size() && r.symbol < symbols_.size(),
           "relocation index out of range");
  Section& s = sections_[r.relocation_section];
  XT_CHECK(s.type == SHT_REL || s.type == SHT_RELA, "not a relocation section");
  const uint32_t entry = static_cast<uint32_t>(s.size / s.entsize);
  append(s.data, r.offset);
  append(s.data, uint64_t{r.symbol} << 32 | r.type);
  if (s.type == SHT_RELA) {
    append(s.data, r.addend);
  } else {
    XT_CHECK(r.addend == 0, "a REL relocation has its addend in the patched section");
  }
  s.size = s.data.size();
  relocation_places_.push_back({r.relocation_section, entry});
}

Result<std::vector<InfoRecord>> Image::info_records(uint32_t section) const {
  XT_CHECK(section < sections_.size(), "section index out of range");
  const Section& s = sections_[section];
  std::vector<InfoRecord> records;
  const ByteView data = s.data;
  for (uint64_t at = 0; at < data.size();) {
    XT_TRY_IN(const uint32_t head, read_at<uint32_t>(data, at, "info record"), "section {}", s.name);
    InfoRecord r;
    r.format = head & 0xff;
    r.attribute = head >> 8 & 0xff;
    r.value = head >> 16;
    if (r.format < 1 || r.format > 4)
      return bad_input("info record of {} at {:#x}: expected format 1..4, found {}", s.name, at, r.format);
    at += sizeof head;
    if (r.format == 4) {
      XT_TRY_IN(const ByteView payload, slice(data, at, r.value, "payload of an info record"),
                "attribute {:#x} in section {}", r.attribute, s.name);
      r.payload.assign(payload.begin(), payload.end());
      at += r.value;
      r.value = 0;
    }
    records.push_back(std::move(r));
  }
  return records;
}

void Image::set_info_records(uint32_t section, const std::vector<InfoRecord>& records) {
  Bytes data;
  for (const InfoRecord& r : records) {
    XT_CHECK(r.format >= 1 && r.format <= 4, "info record of an unknown format");
    XT_CHECK(r.format == 4 || r.payload.empty(), "only format 4 has a payload");
    XT_CHECK(r.payload.size() <= 0xffff, "the payload of an info record has at most 65535 bytes");
    append(data, r.format);
    append(data, r.attribute);
    append(data, r.format == 4 ? static_cast<uint16_t>(r.payload.size()) : r.value);
    data.insert(data.end(), r.payload.begin(), r.payload.end());
  }
  set_section_data(section, std::move(data));
}

}  // namespace xtrace::cubin
