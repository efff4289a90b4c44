#include <elf.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "instrument/cubin/image.h"

namespace xtrace::cubin {
namespace {

constexpr uint16_t kMachineCuda = 190;
constexpr uint8_t kAbiOld = 0x33, kAbiNew = 0x41;
// Larger alignments than a page are unseen; the bound keeps a lying header from inflating the written file.
constexpr uint64_t kMaxAlignment = 1 << 16;
// How often bytes may be shared: names that are tails of other names, sections over one file range.
constexpr uint64_t kMaxSharing = 8;

// A string table with a budget, so that a small file cannot ask for gigabytes of names.
class Names {
 public:
  Names(ByteView table, std::string what) : table_(table), what_(std::move(what)) {
    budget_ = table.size() * kMaxSharing + 4096;
  }
  Result<std::string> at(uint64_t offset, std::string_view whose) {
    if (offset >= table_.size())
      return bad_input("name of {} lies outside {}: offset {:#x}, the table has {:#x} bytes", whose, what_,
                       offset, table_.size());
    const char* begin = reinterpret_cast<const char*>(table_.data()) + offset;
    const void* end = std::memchr(begin, 0, table_.size() - offset);
    if (end == nullptr) return bad_input("name of {} in {} at {:#x} is not terminated", whose, what_, offset);
    const uint64_t length = static_cast<const char*>(end) - begin;
    if (length > budget_)
      return bad_input("names in {} overlap too much: more than {}x its size", what_, kMaxSharing);
    budget_ -= length;
    return std::string(begin, length);
  }

 private:
  ByteView table_;
  std::string what_;
  uint64_t budget_;
};

}  // namespace

struct Image::Parser {
  ByteView bytes;
  Image image;
  Elf64_Ehdr header{};
  std::vector<Elf64_Shdr> headers;

  Status read_header() {
    XT_TRY(header, read_at<Elf64_Ehdr>(bytes, 0, "ELF header"));
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
      return bad_input("not an ELF file: expected magic 7f 45 4c 46, found {:02x} {:02x} {:02x} {:02x}",
                       header.e_ident[0], header.e_ident[1], header.e_ident[2], header.e_ident[3]);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
      return bad_input("expected a 64-bit little-endian ELF file (class 2, data 1), found class {}, data {}",
                       header.e_ident[EI_CLASS], header.e_ident[EI_DATA]);
    if (header.e_machine != kMachineCuda)
      return bad_input("not a cubin: expected e_machine {} (EM_CUDA), found {}", kMachineCuda,
                       header.e_machine);
    const uint8_t abi = header.e_ident[EI_OSABI];
    if (abi == kAbiNew) {
      image.sm_ = header.e_flags >> 8 & 0xff;
    } else if (abi == kAbiOld) {
      image.sm_ = header.e_flags & 0xff;
    } else {
      return bad_input("unknown kind of cubin: expected EI_OSABI {:#x} or {:#x}, found {:#x}", kAbiOld,
                       kAbiNew, abi);
    }
    if (image.sm_ == 0) return bad_input("e_flags {:#x} name no SM version", header.e_flags);
    if (header.e_ehsize != sizeof(Elf64_Ehdr))
      return bad_input("e_ehsize: expected {}, found {}", sizeof(Elf64_Ehdr), header.e_ehsize);
    if (header.e_shoff == 0 || header.e_shnum == 0 || header.e_shstrndx == SHN_XINDEX)
      return bad_input(
          "section header table: expected an offset and 1..{} entries, found offset {:#x}, {} entries, "
          "e_shstrndx {}",
          SHN_LORESERVE - 1, header.e_shoff, header.e_shnum, header.e_shstrndx);
    if (header.e_shentsize != sizeof(Elf64_Shdr))
      return bad_input("e_shentsize: expected {}, found {}", sizeof(Elf64_Shdr), header.e_shentsize);
    if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr))
      return bad_input("e_phentsize: expected {}, found {}", sizeof(Elf64_Phdr), header.e_phentsize);
    return {};
  }

  Status read_section_headers() {
    XT_TRY(const ByteView table, slice(bytes, header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr),
                                       "section header table (e_shoff, e_shnum)"));
    headers.resize(header.e_shnum);
    std::memcpy(headers.data(), table.data(), table.size());
    for (size_t i = 0; i < headers.size(); ++i) {
      const Elf64_Shdr& h = headers[i];
      if (h.sh_addralign > kMaxAlignment || (h.sh_addralign != 0 && !std::has_single_bit(h.sh_addralign)))
        return bad_input("sh_addralign of section {}: expected 0 or a power of two up to {}, found {}", i,
                         kMaxAlignment, h.sh_addralign);
    }
    return {};
  }

  Status read_sections() {
    if (header.e_shstrndx >= headers.size() || headers[header.e_shstrndx].sh_type != SHT_STRTAB)
      return bad_input("e_shstrndx: expected the index of a string table below {}, found {}", headers.size(),
                       header.e_shstrndx);
    const Elf64_Shdr& table = headers[header.e_shstrndx];
    XT_TRY(const ByteView names_data, slice(bytes, table.sh_offset, table.sh_size, "section name table"));
    Names names(names_data, "the section name table");
    uint64_t total = 0;
    for (size_t i = 0; i < headers.size(); ++i) {
      const Elf64_Shdr& h = headers[i];
      Section s;
      XT_TRY(s.name, names.at(h.sh_name, fmt::format("section {}", i)));
      s.type = h.sh_type;
      s.flags = h.sh_flags;
      s.addralign = h.sh_addralign;
      s.entsize = h.sh_entsize;
      s.link = h.sh_link;
      s.info = h.sh_info;
      s.size = h.sh_size;
      if (h.sh_type != SHT_NULL && !s.nobits()) {
        XT_TRY_IN(const ByteView data, slice(bytes, h.sh_offset, h.sh_size, "section (sh_offset, sh_size)"),
                  "section {} ({})", i, s.name);
        total += h.sh_size;
        if (total / kMaxSharing > bytes.size())
          return bad_input("sections share file ranges too often: more than {}x the size of the file",
                           kMaxSharing);
        s.data.assign(data.begin(), data.end());
      }
      image.offsets_.push_back(h.sh_offset);
      image.original_sizes_.push_back(h.sh_size);
      image.sections_.push_back(std::move(s));
    }
    return {};
  }

  // What may lie in the file beside each other, in file order. Also finds the sections that share a range.
  Status check_layout() {
    struct Range {
      uint64_t begin, size;
      int64_t section;  // below 0: a table
    };
    std::vector<Range> ranges{{0, sizeof(Elf64_Ehdr), -1},
                              {header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), -2}};
    if (header.e_phnum != 0) {
      const uint64_t size = uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
      XT_TRY_STATUS(slice(bytes, header.e_phoff, size, "program header table (e_phoff, e_phnum)"));
      ranges.push_back({header.e_phoff, size, -3});
    }
    const auto name = [&](const Range& r) {
      if (r.section == -1) return std::string("the ELF header");
      if (r.section == -2) return std::string("the section header table");
      if (r.section == -3) return std::string("the program header table");
      return fmt::format("section {} ({})", r.section, image.sections_[r.section].name);
    };
    for (size_t i = 0; i < headers.size(); ++i) {
      if (headers[i].sh_type == SHT_NULL || image.sections_[i].nobits()) continue;
      ranges.push_back({headers[i].sh_offset, headers[i].sh_size, static_cast<int64_t>(i)});
    }
    std::stable_sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.size < b.size;
    });
    image.shares_with_.resize(headers.size());
    std::iota(image.shares_with_.begin(), image.shares_with_.end(), 0u);
    const Range* last = nullptr;  // the last range that is not empty
    for (const Range& r : ranges) {
      if (last != nullptr && r.begin < last->begin + last->size) {
        const bool same =
            r.begin == last->begin && r.size == last->size && r.section >= 0 && last->section >= 0;
        if (!same)
          return bad_input("{} at {:#x} size {:#x} overlaps {} at {:#x} size {:#x}", name(r), r.begin, r.size,
                           name(*last), last->begin, last->size);
        if (image.is_structural(r.section) || image.is_structural(last->section))
          return bad_input("{} shares its file range with {}: symbol tables and relocations must stand alone",
                           name(r), name(*last));
        image.shares_with_[r.section] = image.shares_with_[last->section];
        continue;
      }
      if (r.size != 0) last = &r;
    }
    return {};
  }

  Status check_segments() {
    for (uint32_t i = 0; i < header.e_phnum; ++i) {
      XT_TRY(const Elf64_Phdr p,
             read_at<Elf64_Phdr>(bytes, header.e_phoff + i * sizeof(Elf64_Phdr), "program header"));
      XT_TRY_STATUS(slice(bytes, p.p_offset, p.p_filesz, fmt::format("segment {} (p_offset, p_filesz)", i)));
    }
    return {};
  }

  Status read_symbols() {
    for (uint32_t i = 0; i < headers.size(); ++i) {
      if (headers[i].sh_type != SHT_SYMTAB) continue;
      if (image.symtab_ != 0) return bad_input("two symbol tables: sections {} and {}", image.symtab_, i);
      image.symtab_ = i;
    }
    if (image.symtab_ == 0) return {};
    const Section& table = image.sections_[image.symtab_];
    if (table.entsize != sizeof(Elf64_Sym) || table.size % sizeof(Elf64_Sym) != 0)
      return bad_input("symbol table {}: expected entries of {} bytes, found sh_entsize {}, size {:#x}",
                       table.name, sizeof(Elf64_Sym), table.entsize, table.size);
    if (table.link >= headers.size() || headers[table.link].sh_type != SHT_STRTAB)
      return bad_input("sh_link of symbol table {}: expected the index of a string table, found {}",
                       table.name, table.link);
    const Section& strings = image.sections_[table.link];
    Names names(strings.data, fmt::format("string table {}", strings.name));
    const uint64_t count = table.size / sizeof(Elf64_Sym);
    image.symbols_.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      XT_TRY(const Elf64_Sym raw, read_at<Elf64_Sym>(table.data, i * sizeof(Elf64_Sym), "symbol"));
      Symbol s;
      // An empty string table is legal for nameless symbols.
      if (raw.st_name != 0) {
        XT_TRY(s.name, names.at(raw.st_name, fmt::format("symbol {}", i)));
      }
      s.info = raw.st_info;
      s.other = raw.st_other;
      s.section = raw.st_shndx;
      s.value = raw.st_value;
      s.size = raw.st_size;
      if (s.section >= headers.size() && s.section < SHN_LORESERVE)
        return bad_input("symbol {} ({}) lies in section {}, the file has {}", i, s.name, s.section,
                         headers.size());
      if (s.section == SHN_XINDEX)
        return unsupported("symbol {} ({}) uses extended section numbering (SHN_XINDEX)", i, s.name);
      image.symbols_.push_back(std::move(s));
    }
    return {};
  }

  Status read_relocations() {
    for (uint32_t i = 0; i < image.sections_.size(); ++i) {
      const Section& s = image.sections_[i];
      if (s.type != SHT_REL && s.type != SHT_RELA) continue;
      const uint64_t entry = s.type == SHT_REL ? sizeof(Elf64_Rel) : sizeof(Elf64_Rela);
      if (s.entsize != entry || s.size % entry != 0)
        return bad_input(
            "relocation section {}: expected entries of {} bytes, found sh_entsize {}, size {:#x}", s.name,
            entry, s.entsize, s.size);
      if (s.info >= image.sections_.size())
        return bad_input("relocation section {} patches section {}, the file has {}", s.name, s.info,
                         image.sections_.size());
      for (uint64_t k = 0; k < s.size / entry; ++k) {
        XT_TRY(const Elf64_Rel r, read_at<Elf64_Rel>(s.data, k * entry, "relocation"));
        if (r.r_info >> 32 >= image.symbols_.size())
          return bad_input("relocation {} of {} names symbol {}, the symbol table has {}", k, s.name,
                           r.r_info >> 32, image.symbols_.size());
        image.relocation_places_.push_back({i, static_cast<uint32_t>(k)});
      }
    }
    return {};
  }
};

Result<Image> Image::parse(ByteView bytes) {
  Parser p;
  p.bytes = bytes;
  XT_TRY_STATUS(p.read_header());
  XT_TRY_STATUS(p.read_section_headers());
  XT_TRY_STATUS(p.read_sections());
  XT_TRY_STATUS(p.check_layout());
  XT_TRY_STATUS(p.check_segments());
  XT_TRY_STATUS(p.read_symbols());
  XT_TRY_STATUS(p.read_relocations());
  p.image.original_.assign(bytes.begin(), bytes.end());
  return std::move(p.image);
}

}  // namespace xtrace::cubin
