#include "instrument/cubin/line_table.h"

#include "instrument/cubin/kernel_info.h"

namespace xtrace::cubin {
namespace {

enum : uint8_t { kLnsSetFile = 4, kLnsConstAddPc = 8, kLnsFixedAdvancePc = 9 };
constexpr uint64_t kInstructionBytes = 16;

Status read_file_table(DwarfCursor& c, LineHeader& h) {
  std::vector<std::string> directories{""};
  for (;;) {
    XT_TRY(const std::string_view directory, c.string());
    if (directory.empty()) break;
    directories.emplace_back(directory);
  }
  for (;;) {
    XT_TRY(const std::string_view name, c.string());
    if (name.empty()) break;
    XT_TRY(const uint64_t directory, c.uleb());
    XT_TRY_STATUS(c.uleb());  // time
    XT_TRY_STATUS(c.uleb());  // length
    if (directory >= directories.size())
      return bad_input("line table: file {} is in directory {}, the table has {}", name, directory,
                       directories.size() - 1);
    const std::string& prefix = directories[directory];
    h.files.push_back(
        {prefix.empty() || name.starts_with('/') ? std::string(name) : fmt::format("{}/{}", prefix, name)});
  }
  return {};
}

}  // namespace

Result<LineHeader> read_line_header(DwarfCursor& c, std::string_view what) {
  LineHeader h;
  XT_TRY(h.unit, c.unit());
  XT_TRY(h.version, c.fixed<uint16_t>());
  if (h.version < 2 || h.version > 4)
    return unsupported("{}: line table of DWARF version {}, versions 2 to 4 are read", what, h.version);
  XT_TRY(const uint64_t header_length, c.offset(h.unit.wide));
  if (c.at() > h.unit.end || header_length > h.unit.end - c.at())
    return bad_input("{}: the header at {:#x} claims {:#x} bytes, the unit ends at {:#x}", what,
                     h.unit.length_at, header_length, h.unit.end);
  h.program = c.at() + header_length;
  XT_TRY(h.min_instruction, c.fixed<uint8_t>());
  if (h.version >= 4) XT_TRY_STATUS(c.fixed<uint8_t>());  // operations per instruction
  XT_TRY_STATUS(c.fixed<uint8_t>());                      // default is_stmt
  XT_TRY(h.line_base, c.fixed<int8_t>());
  XT_TRY(h.line_range, c.fixed<uint8_t>());
  XT_TRY(h.opcode_base, c.fixed<uint8_t>());
  if (h.line_range == 0 || h.opcode_base == 0)
    return bad_input("{}: line range {} and opcode base {} must not be 0", what, h.line_range, h.opcode_base);
  for (unsigned i = 1; i < h.opcode_base; ++i) {
    XT_TRY(const uint8_t operands, c.fixed<uint8_t>());
    h.operands.push_back(operands);
  }
  if (c.at() < h.program) XT_TRY_STATUS(read_file_table(c, h));
  return h;
}

Result<LineOp> read_line_op(DwarfCursor& c, const LineHeader& h) {
  LineOp op;
  op.begin = c.at();
  XT_TRY(const uint8_t code, c.fixed<uint8_t>());
  const auto special_advance = [&](uint8_t opcode) {
    return uint64_t{static_cast<uint8_t>(opcode - h.opcode_base)} / h.line_range * h.min_instruction;
  };
  if (code >= h.opcode_base) {
    op.kind = LineOp::Kind::special;
    op.address_advance = special_advance(code);
    op.value = h.line_base + (code - h.opcode_base) % h.line_range;
  } else if (code == 0) {
    XT_TRY(const uint64_t length, c.uleb());
    const uint64_t body = c.at();
    if (length == 0) return bad_input("line table: empty extended opcode at {:#x}", op.begin);
    XT_TRY_STATUS(c.skip(length));
    const uint64_t next = c.at();
    c.seek(body);
    XT_TRY(const uint8_t extended, c.fixed<uint8_t>());
    if (extended == kLneEndSequence) {
      op.kind = LineOp::Kind::end_sequence;
    } else if (extended == kLneSetAddress) {
      if (length != 1 + sizeof(uint64_t))
        return bad_input("line table: an address of {} bytes at {:#x}, expected 8", length - 1, op.begin);
      op.kind = LineOp::Kind::set_address;
      op.operand_at = c.at();
      XT_TRY(op.value, c.fixed<int64_t>());
    }
    c.seek(next);
  } else if (code == kLnsCopy) {
    op.kind = LineOp::Kind::copy;
  } else if (code == kLnsAdvancePc) {
    op.kind = LineOp::Kind::advance_address;
    XT_TRY(const uint64_t advance, c.uleb());
    op.address_advance = advance * h.min_instruction;
  } else if (code == kLnsAdvanceLine) {
    op.kind = LineOp::Kind::advance_line;
    XT_TRY(op.value, c.sleb());
  } else if (code == kLnsSetFile) {
    op.kind = LineOp::Kind::set_file;
    XT_TRY(const uint64_t file, c.uleb());
    op.value = static_cast<int64_t>(file);
  } else if (code == kLnsConstAddPc) {
    op.kind = LineOp::Kind::advance_address;
    op.address_advance = special_advance(255);
  } else if (code == kLnsFixedAdvancePc) {
    op.kind = LineOp::Kind::advance_address;
    XT_TRY(op.address_advance, c.fixed<uint16_t>());
  } else {
    for (unsigned i = 0; i < h.operands[code - 1]; ++i) XT_TRY_STATUS(c.uleb());
  }
  op.end = c.at();
  return op;
}

Result<std::map<uint32_t, SourceLine>> source_lines(const Image& image, const KernelInfo& kernel) {
  std::map<uint32_t, SourceLine> lines;
  const auto section = image.find_section(".debug_line");
  if (!section) return lines;
  const Bytes& data = image.sections()[*section].data;
  const uint64_t text_bytes = image.sections()[kernel.text_section].size;
  std::map<uint64_t, Relocation> at_offset;
  for (const Relocation& r : image.relocations())
    if (r.target_section == *section) at_offset[r.offset] = r;

  // Sequences of one text hardly overlap; a lying table must not take for ever.
  uint64_t budget = 16 * (text_bytes / kInstructionBytes + 1);
  DwarfCursor c(data, 0, data.size(), ".debug_line");
  while (!c.done()) {
    XT_TRY(const LineHeader h, read_line_header(c, ".debug_line"));
    DwarfCursor program(data, h.program, h.unit.end, ".debug_line");
    uint64_t address = 0, last_address = 0, file = 1, last_file = 0;
    uint64_t line = 1, last_line = 0;
    bool ours = false, have_last = false;
    // A row covers the instructions up to the next row.
    const auto close_row = [&] {
      if (!have_last || !ours || last_file == 0 || last_file > h.files.size() || last_address >= text_bytes)
        return;
      for (uint64_t pc = align_up(last_address, kInstructionBytes);
           pc < std::min(address, text_bytes) && budget != 0; pc += kInstructionBytes, --budget)
        lines[static_cast<uint32_t>(pc)] = {h.files[last_file - 1].name, static_cast<uint32_t>(last_line)};
    };
    const auto row = [&] {
      close_row();
      have_last = true;
      last_address = address, last_file = file, last_line = line;
    };
    while (!program.done()) {
      if (budget == 0) return bad_input(".debug_line covers {} many times over", kernel.name);
      XT_TRY(const LineOp op, read_line_op(program, h));
      switch (op.kind) {
        case LineOp::Kind::special:
          address += op.address_advance;
          line += op.value;
          row();
          break;
        case LineOp::Kind::copy:
          row();
          break;
        case LineOp::Kind::advance_address:
          address += op.address_advance;
          break;
        case LineOp::Kind::advance_line:
          line += op.value;
          break;
        case LineOp::Kind::set_file:
          file = static_cast<uint64_t>(op.value);
          break;
        case LineOp::Kind::set_address: {
          const auto r = at_offset.find(op.operand_at);
          ours = r != at_offset.end() && image.symbols()[r->second.symbol].section == kernel.text_section;
          address = op.value;
          if (ours)
            address = image.symbols()[r->second.symbol].value +
                      (r->second.has_addend ? r->second.addend : op.value);
          break;
        }
        case LineOp::Kind::end_sequence:
          close_row();
          ours = have_last = false;
          address = 0, file = 1, line = 1;
          break;
        case LineOp::Kind::other:
          break;
      }
    }
    c.seek(h.unit.end);
  }
  return lines;
}

}  // namespace xtrace::cubin
