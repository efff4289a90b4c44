// A cubin as an ELF file: read, look at, edit, write back. Lossless: an Image that was not edited writes the
// identical bytes, and an edited one keeps every byte it was not asked to change.
//
// An Image does not know the instruction set: a .text section is bytes. What holds instruction offsets
// (EIATTR lists, symbols, relocations, line tables) is mapped by map_code_offsets (kernel_info.h) for whoever
// moves code.
//
// Two generations are read [vendor code, CUDA 12 and 13]: OSABI 0x33 ABI version 7 (SM in the low byte of
// e_flags) and OSABI 0x41 ABI version 8 (SM in bits 15:8). Sections of types that are not known here (mercury
// capsules among them) are kept verbatim.
//
// Sections that share one file range (.nv.merc.nv.constant.user is .nv.constant3 [measured, sm_100]) are one
// piece of data: setting the bytes of one sets the bytes of all. Any other overlap is malformed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace xtrace::cubin {

struct Section {
  std::string name;
  uint32_t type = 0;
  uint64_t flags = 0, addralign = 1, entsize = 0;
  uint32_t link = 0, info = 0;
  uint64_t size = 0;  // of NOBITS sections too
  Bytes data;         // empty for NOBITS and for the null section
  // No bytes in the file. Beside SHT_NOBITS the vendor's own types for global, local, shared and reserved shared memory
  // [measured: relocatable cubins, sm_100 capsules].
  bool nobits() const {
    return type == 8 || type == 0x70000007 || type == 0x70000009 || type == 0x7000000a || type == 0x70000015;
  }
};

struct Symbol {
  std::string name;
  uint8_t info = 0, other = 0;
  uint16_t section = 0;  // index, or SHN_UNDEF / SHN_ABS / SHN_COMMON
  uint64_t value = 0, size = 0;
  bool is_function() const { return (info & 0xf) == 2; }
  bool is_object() const { return (info & 0xf) == 1; }
  bool is_entry() const { return is_function() && (other & 0x10) != 0; }
};

struct Relocation {
  uint32_t relocation_section = 0;  // the .rel/.rela section it stands in
  uint32_t target_section = 0;      // the section it patches
  uint64_t offset = 0;
  uint32_t type = 0, symbol = 0;
  int64_t addend = 0;  // RELA only
  bool has_addend = false;
};

// One EIATTR record of a .nv.info section (sass.md 4.3).
struct InfoRecord {
  uint8_t format = 0;  // 1 flag, 2 u8 value, 3 u16 value, 4 payload
  uint8_t attribute = 0;
  uint16_t value = 0;  // formats 1..3: bytes 2..3 as they are
  Bytes payload;       // format 4
};

class Image {
 public:
  // bad_input for anything that is not a well-formed 64-bit little-endian EM_CUDA file (truncated,
  // overlapping or lying headers included), naming the field, what was expected and what was found.
  static Result<Image> parse(ByteView bytes);
  // Lays the file out again when a section changed size (order and alignments kept, program headers follow),
  // else byte-identical to the input but for edited contents.
  Result<Bytes> write() const;

  unsigned sm() const;  // 90
  const std::vector<Section>& sections() const { return sections_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }
  std::vector<Relocation> relocations() const;
  std::optional<uint32_t> find_section(std::string_view name) const;
  std::optional<uint32_t> find_symbol(std::string_view name) const;  // first FUNC or OBJECT of that name

  // Names of entry functions (kernels), in symbol order.
  std::vector<std::string> kernels() const;
  // Index of .text.<kernel>; bad_input listing what there is when absent.
  Result<uint32_t> text_section(std::string_view kernel) const;

  // What the file held before any edit. A section's original bytes tell how long the code was before it was
  // moved.
  ByteView original_data(uint32_t section) const;
  uint32_t symbol_table_section() const { return symtab_; }

  // --- edits. Indices stay valid: sections and symbols are never removed or reordered, relocations by drop_relocations() alone, and what
  // add_relocation appends comes last in relocations(). Indices out of range are faults of the caller
  // (XT_CHECK), and so is setting the bytes of the symbol table or of a relocation section (use the calls
  // below).
  void set_section_data(uint32_t section, Bytes data);     // may change size
  void set_section_info(uint32_t section, uint32_t info);  // sh_info
  void set_symbol(uint32_t symbol, uint64_t value, uint64_t size);
  // Makes it another one under its name: kind (low half of st_info; the binding stays), section and place.
  void move_symbol(uint32_t symbol, uint8_t kind, uint16_t section, uint64_t value, uint64_t size);
  // For REL sections the addend stands in the patched section: `addend` must be 0 here.
  void set_relocation(size_t index_in_relocations, uint64_t offset, int64_t addend);
  // Takes these out of their sections, which become shorter; those that follow have lower indices then. [measured H200, driver 580.159.04,
  // 2026-12-01: an entry of type 0, R_CUDA_NONE, makes the whole image invalid, a section without entries does not]
  void drop_relocations(const std::vector<size_t>& indices);
  // Appends a relocation to the .rel/.rela section r.relocation_section (for a second copy of code).
  void add_relocation(const Relocation& r);

  // --- .nv.info. Records in file order; bad_input naming section and offset when a record does not fit.
  Result<std::vector<InfoRecord>> info_records(uint32_t section) const;
  void set_info_records(uint32_t section, const std::vector<InfoRecord>& records);

 private:
  struct RelocationPlace {
    uint32_t section = 0;  // the .rel/.rela section
    uint32_t entry = 0;
  };
  bool is_structural(uint32_t section) const;  // symbol table or relocations
  struct Parser;                               // image_parse.cc
  struct Writer;                               // image_write.cc

  Bytes original_;
  std::vector<Section> sections_;
  std::vector<uint64_t> offsets_, original_sizes_;  // of each section in original_
  std::vector<uint32_t> shares_with_;  // first section with the same file range, else the section itself
  std::vector<Symbol> symbols_;
  std::vector<RelocationPlace> relocation_places_;  // in the order of relocations()
  uint32_t symtab_ = 0;                             // 0: none
  unsigned sm_ = 0;
};

}  // namespace xtrace::cubin
