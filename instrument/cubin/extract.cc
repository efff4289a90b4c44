#include "instrument/cubin/extract.h"

#include <elf.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "instrument/cubin/eiattr.h"
#include "instrument/cubin/image.h"

namespace xtrace::cubin {
namespace {

constexpr uint32_t type_info = 0x70000000, type_callgraph = 0x70000001, type_prototype = 0x70000002;
constexpr uint64_t flag_info_is_section = SHF_INFO_LINK;
constexpr std::string_view text_prefix = ".text.";
constexpr uint32_t symbol_in_text_info = 0xffffff;  // sm_75..89 keep the register count above it

bool is_debug(std::string_view name) {
  for (std::string_view prefix :
       {".debug", ".nv_debug", ".rel.debug", ".rela.debug", ".rel.nv_debug", ".rela.nv_debug"})
    if (name.starts_with(prefix)) return true;
  return false;
}
bool is_mercury(std::string_view name) {
  return name.starts_with(".nv.merc.") || name.starts_with(".nv.capmerc");
}
bool names_text_of_its_function(std::string_view name, std::string_view text) {
  if (!text.starts_with(text_prefix)) return false;
  const std::string_view function = text.substr(text_prefix.size() - 1);   // with the dot
  return name.size() > function.size() && name.ends_with(function);
}

bool is_relocation(const Section& s) { return s.type == SHT_REL || s.type == SHT_RELA; }

// EIATTR records whose payload begins with a symbol, and the one that is a list of symbols. [sass.md 4.3]
bool begins_with_symbol(uint8_t attribute) {
  switch (attribute) {
    case eiattr::kParamCbank:
    case eiattr::kFrameSize:
    case eiattr::kMinStackSize:
    case eiattr::kRegcount:
    case 0x23:  // MAX_STACK_SIZE
    case 0x49:  // SHADER_TYPE
      return true;
    default:
      return false;
  }
}
constexpr uint8_t externs_attribute = 0x0f;

class Extractor {
 public:
  Extractor(ByteView bytes, Image image, Variables variables)
      : bytes_(bytes), image_(std::move(image)), variables_(variables), relocations_(image_.relocations()) {}

  Result<Extracted> run(std::string_view function) {
    XT_TRY(const uint32_t text, image_.text_section(function));
    find_owners();
    keep_module();
    keep(text);
    XT_TRY_STATUS(reach());
    number();
    XT_TRY_STATUS(fill());
    Extracted out;
    out.functions.emplace_back(function);
    for (uint32_t s : kept_)
      if (const std::string& name = section(s).name; name.starts_with(text_prefix) && s != text)
        out.functions.push_back(name.substr(text_prefix.size()));
    out.left_out.assign(left_out_.begin(), left_out_.end());
    out.cubin = write();
    return out;
  }

 private:
  const Section& section(uint32_t i) const { return image_.sections()[i]; }
  const Symbol& symbol(uint32_t i) const { return image_.symbols()[i]; }
  static bool is_regular(uint16_t section) { return section != SHN_UNDEF && section < SHN_LORESERVE; }

  // The function whose name ends the name of a section, the longest one; none for what belongs to the module.
  void find_owners() {
    std::map<std::string, uint32_t, std::less<>> texts;
    for (uint32_t i = 0; i < image_.sections().size(); ++i)
      if (section(i).name.starts_with(text_prefix)) texts[section(i).name.substr(text_prefix.size())] = i;
    owner_.assign(image_.sections().size(), std::nullopt);
    for (uint32_t i = 0; i < image_.sections().size(); ++i) {
      const std::string_view name = section(i).name;
      for (size_t dot = name.find('.', 1); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
        const auto t = texts.find(name.substr(dot + 1));
        if (t == texts.end()) continue;
        owner_[i] = t->second;
        break;  // the first dot leaves the longest name
      }
    }
  }

  void keep(uint32_t i) {
    if (i == 0 || is_kept_.contains(i)) return;
    is_kept_.insert(i);
    work_.push_back(i);
  }

  void keep_module() {
    for (uint32_t i = 1; i < image_.sections().size(); ++i) {
      const Section& s = section(i);
      const bool is_table = s.type == SHT_SYMTAB || s.type == SHT_STRTAB;
      const bool variables = variables_ == Variables::reached && (s.name == ".nv.global" || s.name == ".nv.global.init");
      if (is_debug(s.name) || is_mercury(s.name)) {
        left_out_.insert(is_debug(s.name) ? "debug sections" : "mercury capsules");
      } else if (!owner_[i] && !is_table && !is_relocation(s) && !variables) {
        keep(i);
      }
    }
  }

  // Everything that kept sections refer to.
  Status reach() {
    while (!work_.empty()) {
      const uint32_t i = work_.back();
      work_.pop_back();
      if (section(i).type == type_prototype && !section(i).data.empty())
        return unsupported("section {} refers to functions in a way that is not known", section(i).name);
      if (section(i).name.starts_with(text_prefix))
        for (uint32_t s = 1; s < image_.sections().size(); ++s)
          if (owner_[s] == i && !is_debug(section(s).name) && !is_mercury(section(s).name) &&
              !is_relocation(section(s)))
            keep(s);
      for (const Relocation& r : relocations_) {
        if (r.target_section != i) continue;
        XT_TRY(const uint32_t used, checked_symbol(r.symbol, section(r.relocation_section).name));
        used_symbols_.insert(used);
        if (is_regular(symbol(used).section)) keep(symbol(used).section);
        if (!is_debug(section(r.relocation_section).name) && !is_mercury(section(r.relocation_section).name))
          is_kept_.insert(r.relocation_section);
      }
      if (section(i).type == type_info && owner_[i]) {
        XT_TRY(const std::vector<InfoRecord> records, image_.info_records(i));
        for (const InfoRecord& r : records)
          if (r.attribute == externs_attribute)
            for (size_t at = 0; at + 4 <= r.payload.size(); at += 4) {
              XT_TRY(const uint32_t s, read_at<uint32_t>(r.payload, at, "list of extern functions"));
              XT_TRY(const uint32_t checked, checked_symbol(s, section(i).name));
              used_symbols_.insert(checked);
            }
      }
    }
    return {};
  }

  Result<uint32_t> checked_symbol(uint32_t s, std::string_view where) const {
    if (s < image_.symbols().size()) return s;
    return bad_input("{} names symbol {} of {}", where, s, image_.symbols().size());
  }

  // New numbers of sections and symbols, in the old order.
  void number() {
    const uint32_t symtab = image_.symbol_table_section();
    for (uint32_t i = 1; i < image_.sections().size(); ++i) {
      const bool string_table = section(i).type == SHT_STRTAB;
      if (i == symtab || string_table) is_kept_.insert(i);
    }
    kept_.assign(is_kept_.begin(), is_kept_.end());
    for (uint32_t n = 0; n < kept_.size(); ++n) new_section_[kept_[n]] = n + 1;
    for (uint32_t i = 0; i < image_.symbols().size(); ++i) {
      const uint16_t s = symbol(i).section;
      if (i != 0 && !(is_regular(s) ? is_kept_.contains(s) : used_symbols_.contains(i))) continue;
      new_symbol_[i] = static_cast<uint32_t>(symbols_.size());
      symbols_.push_back(i);
    }
  }

  struct Strings {
    Bytes data{std::byte{0}};
    uint32_t add(std::string_view s) {
      if (s.empty()) return 0;
      const auto at = static_cast<uint32_t>(data.size());
      for (char c : s) data.push_back(static_cast<std::byte>(c));
      data.push_back(std::byte{0});
      return at;
    }
  };

  Result<uint32_t> mapped_section(uint32_t old, std::string_view where) const {
    if (old == 0) return 0;
    const auto n = new_section_.find(old);
    if (n == new_section_.end())
      return unsupported("{} refers to section {}, which is not part of the function", where, old);
    return n->second;
  }

  // Headers and contents of what is kept.
  Status fill() {
    Strings names, symbol_names;
    const uint32_t symtab = image_.symbol_table_section();
    XT_TRY(const Elf64_Ehdr old_header, read_at<Elf64_Ehdr>(bytes_, 0, "ELF header"));
    header_ = old_header;
    XT_TRY(const uint32_t names_at, mapped_section(old_header.e_shstrndx, "ELF header"));
    header_.e_shstrndx = static_cast<uint16_t>(names_at);
    const Bytes symbol_bytes = symbol_table(symbol_names);
    for (uint32_t i : kept_) {
      const Section& s = section(i);
      Elf64_Shdr h{};
      h.sh_name = names.add(s.name);
      h.sh_type = s.type;
      h.sh_flags = s.flags;
      h.sh_addralign = s.addralign;
      h.sh_entsize = s.entsize;
      XT_TRY_IN(h.sh_link, mapped_section(s.link, "sh_link"), "in {}", s.name);
      XT_TRY(h.sh_info, mapped_info(i));
      XT_TRY_IN(Bytes data, contents(i), "in {}", s.name);
      if (i == symtab) data = symbol_bytes;
      headers_.push_back(h);
      contents_.push_back(std::move(data));
    }
    for (size_t n = 0; n < kept_.size(); ++n) {
      if (section(kept_[n]).type != SHT_STRTAB) continue;
      if (kept_[n] == old_header.e_shstrndx) {
        contents_[n] = names.data;
      } else if (kept_[n] == section(symtab).link) {
        contents_[n] = symbol_names.data;
      } else {
        return unsupported("a second string table, {}", section(kept_[n]).name);
      }
    }
    return {};
  }

  Bytes symbol_table(Strings& names) const {
    Bytes out;
    for (uint32_t i : symbols_) {
      if (i == 0) {  // the null symbol, whatever the file had there
        append(out, Elf64_Sym{});
        continue;
      }
      const Symbol& s = symbol(i);
      Elf64_Sym e{};
      e.st_name = names.add(s.name);
      e.st_info = s.info;
      e.st_other = s.other;
      e.st_shndx = is_regular(s.section) ? static_cast<uint16_t>(new_section_.at(s.section)) : s.section;
      e.st_value = s.value;
      e.st_size = s.size;
      append(out, e);
    }
    return out;
  }

  Result<uint32_t> mapped_info(uint32_t i) const {
    const Section& s = section(i);
    if (s.info == 0) return 0;
    if (i == image_.symbol_table_section()) {
      if (s.info == image_.symbols().size()) return static_cast<uint32_t>(symbols_.size());
      uint32_t locals = 0;  // the first symbol that is not local
      while (locals < symbols_.size() && ELF64_ST_BIND(symbol(symbols_[locals]).info) == STB_LOCAL) ++locals;
      return locals;
    }
    if (is_relocation(s) || (s.flags & flag_info_is_section) != 0) return mapped_section(s.info, s.name);
    if (s.name.starts_with(text_prefix)) {
      const auto n = new_symbol_.find(s.info & symbol_in_text_info);
      if (n == new_symbol_.end())
        return unsupported("sh_info of {} names a symbol that is not part of it", s.name);
      return (s.info & ~symbol_in_text_info) | n->second;
    }
    // .nv.info.k, .nv.constant0.k and .nv.shared.k name .text.k, flagged or not [cuBLAS, cuDNN and cuFFT of CUDA 13.0, ELF headers of
    // version 118 to 124: not].
    if (s.info < image_.sections().size() && names_text_of_its_function(s.name, section(s.info).name)) return mapped_section(s.info, s.name);
    return unsupported("sh_info {:#x} of {}: its meaning is not known", s.info, s.name);
  }

  Result<Bytes> contents(uint32_t i) const {
    const Section& s = section(i);
    if (is_relocation(s)) return relocation_table(i);
    if (s.type == type_info) return info(i);
    if (s.type == type_callgraph) return call_graph(s);
    return s.data;
  }

  Result<Bytes> relocation_table(uint32_t i) const {
    Bytes out;
    for (const Relocation& r : relocations_) {
      if (r.relocation_section != i) continue;
      const auto n = new_symbol_.find(r.symbol);
      if (n == new_symbol_.end())
        return unsupported("a relocation at {:#x} against symbol {}, which is not part of it", r.offset,
                           r.symbol);
      const uint64_t info = ELF64_R_INFO(uint64_t{n->second}, r.type);
      append(out, r.offset);
      append(out, info);
      if (r.has_addend) append(out, r.addend);
    }
    return out;
  }

  // Records of functions that are left out go; in the rest symbols get their new numbers.
  Result<Bytes> info(uint32_t i) const {
    XT_TRY(std::vector<InfoRecord> records, image_.info_records(i));
    std::vector<InfoRecord> kept;
    for (InfoRecord& r : records) {
      const Eiattr* known = find_eiattr(r.attribute);
      if (r.format == 4 && (known == nullptr || known->payload == Eiattr::Payload::unknown))
        return unsupported("attribute {:#x}: whether it names symbols is not known", r.attribute);
      if (begins_with_symbol(r.attribute)) {
        XT_TRY(const uint32_t s, read_at<uint32_t>(r.payload, 0, "attribute of a symbol"));
        const auto n = new_symbol_.find(s);
        if (n == new_symbol_.end()) continue;
        write_at(r.payload, 0, n->second);
      } else if (r.attribute == externs_attribute) {
        for (size_t at = 0; at + 4 <= r.payload.size(); at += 4) {
          XT_TRY(const uint32_t s, read_at<uint32_t>(r.payload, at, "list of extern functions"));
          const auto n = new_symbol_.find(s);
          if (n == new_symbol_.end())
            return unsupported("attribute {:#x} names symbol {}, which is not part of it", r.attribute, s);
          write_at(r.payload, at, n->second);
        }
      }
      kept.push_back(std::move(r));
    }
    Image scratch = image_;
    scratch.set_info_records(i, kept);
    return scratch.sections()[i].data;
  }

  // {caller, callee} pairs; numbers from -4 on are marks, 0 is nobody.
  Result<Bytes> call_graph(const Section& s) const {
    Bytes out;
    for (size_t at = 0; at + 8 <= s.data.size(); at += 8) {
      uint32_t pair[2];
      bool inside = true;
      for (unsigned k = 0; k < 2; ++k) {
        XT_TRY(pair[k], read_at<uint32_t>(s.data, at + 4 * k, "call graph"));
        if (pair[k] == 0 || pair[k] >= 0xfffffffc) continue;
        const auto n = new_symbol_.find(pair[k]);
        inside = inside && n != new_symbol_.end();
        if (n != new_symbol_.end()) pair[k] = n->second;
      }
      if (!inside) continue;
      append(out, pair[0]);
      append(out, pair[1]);
    }
    return out;
  }

  Bytes write() {
    Bytes out(sizeof(Elf64_Ehdr));
    for (size_t n = 0; n < kept_.size(); ++n) {
      const Section& s = section(kept_[n]);
      const uint64_t align = std::max<uint64_t>(s.addralign, 1);
      out.resize(align_up(out.size(), align));
      headers_[n].sh_offset = out.size();
      headers_[n].sh_size = s.nobits() ? s.size : contents_[n].size();
      if (!s.nobits()) out.insert(out.end(), contents_[n].begin(), contents_[n].end());
    }
    out.resize(align_up(out.size(), 8));
    header_.e_phoff = 0;
    header_.e_phnum = 0;
    header_.e_shoff = out.size();
    header_.e_shnum = static_cast<uint16_t>(kept_.size() + 1);
    append(out, Elf64_Shdr{});
    for (const Elf64_Shdr& h : headers_) append(out, h);
    write_at(out, 0, header_);
    return out;
  }

  ByteView bytes_;
  Image image_;
  Variables variables_;
  std::vector<Relocation> relocations_;
  std::vector<std::optional<uint32_t>> owner_;
  std::set<uint32_t> is_kept_, used_symbols_;
  std::set<std::string> left_out_;
  std::vector<uint32_t> work_, kept_, symbols_;
  std::map<uint32_t, uint32_t> new_section_, new_symbol_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> headers_;
  std::vector<Bytes> contents_;
};

}  // namespace

Result<Extracted> extract_function(ByteView cubin, std::string_view function, Variables variables) {
  XT_TRY(Image image, Image::parse(cubin));
  XT_TRY(Extracted out, Extractor(cubin, std::move(image), variables).run(function));
  const auto again = Image::parse(out.cubin);
  if (!again) return internal("the extracted cubin does not parse: {}", again.error().to_string());
  return out;
}

}  // namespace xtrace::cubin
