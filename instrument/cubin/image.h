// A cubin as an ELF file: read, look at, edit, write back. Lossless: an Image that was not edited writes the identical
// bytes, and an edited one keeps every byte it was not asked to change.
//
// An Image does not know the instruction set: a .text section is bytes. What holds instruction offsets (EIATTR lists,
// symbols, relocations, line tables) is listed by offset_fields.h, so that whoever moves code can map them.
#pragma once

#include <cstdint>
#include <functional>
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
  uint64_t size = 0;        // of NOBITS sections too
  Bytes data;               // empty for NOBITS
  bool nobits() const { return type == 8; }
};

struct Symbol {
  std::string name;
  uint8_t info = 0, other = 0;
  uint16_t section = 0;     // index, or SHN_UNDEF / SHN_ABS / SHN_COMMON
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
  int64_t addend = 0;               // RELA only
  bool has_addend = false;
};

// One EIATTR record of a .nv.info section (sass.md 4.3).
struct InfoRecord {
  uint8_t format = 0;       // 1 flag, 2 u8 value, 3 u16 value, 4 payload
  uint8_t attribute = 0;
  uint16_t value = 0;       // formats 1..3: bytes 2..3 as they are
  Bytes payload;            // format 4
};

class Image {
 public:
  // bad_input for anything that is not a well-formed 64-bit little-endian EM_CUDA file (truncated, overlapping or lying
  // headers included), naming the field, what was expected and what was found.
  static Result<Image> parse(ByteView bytes);
  // Lays the file out again when a section changed size (order and alignments kept, program headers follow), else
  // byte-identical to the input but for edited contents.
  Result<Bytes> write() const;

  unsigned sm() const;                      // 90
  const std::vector<Section>& sections() const { return sections_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }
  std::vector<Relocation> relocations() const;
  std::optional<uint32_t> find_section(std::string_view name) const;
  std::optional<uint32_t> find_symbol(std::string_view name) const;  // first FUNC or OBJECT of that name

  // Names of entry functions (kernels), in symbol order.
  std::vector<std::string> kernels() const;
  // Index of .text.<kernel>; bad_input listing what there is when absent.
  Result<uint32_t> text_section(std::string_view kernel) const;

  // --- edits. Indices stay valid: sections, symbols and relocations are never removed or reordered.
  void set_section_data(uint32_t section, Bytes data);          // may change size
  void set_symbol(uint32_t symbol, uint64_t value, uint64_t size);
  void set_relocation(size_t index_in_relocations, uint64_t offset, int64_t addend);
  // Appends a relocation to the same .rel/.rela section (for a second copy of code).
  void add_relocation(const Relocation& r);

  // --- .nv.info
  Result<std::vector<InfoRecord>> info_records(uint32_t section) const;
  void set_info_records(uint32_t section, const std::vector<InfoRecord>& records);

 private:
  // (layout bookkeeping; see image.cc)
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
  Bytes original_;
  struct Layout;
  std::vector<std::byte> header_;
};

}  // namespace xtrace::cubin
