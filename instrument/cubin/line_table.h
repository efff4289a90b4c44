// Private to this room: DWARF line programs, versions 2 to 4 (nvcc writes 2 [nvcc 13]).
#pragma once

#include <string>
#include <vector>

#include "instrument/cubin/dwarf_cursor.h"

namespace xtrace::cubin {

// Opcodes that are written too.
enum LineOpcode : uint8_t { kLnsCopy = 1, kLnsAdvancePc = 2, kLnsAdvanceLine = 3 };
enum LineExtendedOpcode : uint8_t { kLneEndSequence = 1, kLneSetAddress = 2 };

struct LineFile {
  std::string name;  // with its directory in front, unless absolute
};

struct LineHeader {
  DwarfCursor::Unit unit;
  uint64_t program = 0;  // first opcode
  uint16_t version = 0;
  uint8_t min_instruction = 1, opcode_base = 10, line_range = 1;
  int8_t line_base = 0;
  std::vector<uint8_t> operands;  // of the standard opcodes, from opcode 1
  std::vector<LineFile> files;    // index 1 of the table first
};

// Reads the header at the cursor; the cursor is then somewhere inside the unit.
Result<LineHeader> read_line_header(DwarfCursor& cursor, std::string_view what);

// One opcode of a line program.
struct LineOp {
  enum class Kind {
    special,  // address_advance, value: line advance
    copy,
    advance_address,  // address_advance
    advance_line,     // value
    set_file,         // value
    set_address,      // operand_at, value: what stands there before relocation
    end_sequence,
    other,  // does not touch address, line or file
  } kind = Kind::other;
  uint64_t begin = 0, end = 0;  // bytes of the opcode
  uint64_t operand_at = 0;
  uint64_t address_advance = 0;
  int64_t value = 0;
};
Result<LineOp> read_line_op(DwarfCursor& cursor, const LineHeader& header);

}  // namespace xtrace::cubin
