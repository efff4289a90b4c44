// Rewrites a DWARF line program for moved code. Only what advances the address changes: every other opcode,
// vendor ones included (inlined-call contexts count rows, so no row may vanish), is copied as it is. Each
// further copy of the code gets a sequence of its own.
#include "instrument/cubin/code_map.h"
#include "instrument/cubin/dwarf_cursor.h"
#include "instrument/cubin/line_table.h"

namespace xtrace::cubin {
namespace {

// Opcodes of one sequence, in the order they stand in.
struct Step {
  enum class Kind { verbatim, row, end } kind = Kind::verbatim;
  uint64_t begin = 0, end = 0;  // verbatim: bytes of the old section
  int64_t line_advance = 0;     // row of a special opcode
  uint64_t address = 0;         // row, end: old position in the text
};

struct Sequence {
  uint64_t set_address_at = 0;  // of the 8 bytes; 0: none, nothing to move
  uint64_t bytes_begin = 0, bytes_end = 0;
  size_t relocation = 0;
  uint64_t base = 0;  // old position in the text
  bool ours = false;
  std::vector<Step> steps;  // after DW_LNE_set_address
};

class Editor {
 public:
  Editor(const Image& image, const CodeMap& map, uint32_t section)
      : image_(image),
        map_(map),
        section_(section),
        old_(image.sections()[section].data),
        name_(image.sections()[section].name),
        relocations_(image.relocations()) {
    for (size_t i = 0; i < relocations_.size(); ++i)
      if (relocations_[i].target_section == section) at_offset_[relocations_[i].offset] = i;
  }

  Status run() {
    DwarfCursor c(old_, 0, old_.size(), name_);
    while (!c.done()) {
      XT_TRY(const LineHeader header, read_line_header(c, name_));
      if (header.min_instruction != 1)
        return unsupported("{}: addresses in units of {} bytes", name_, header.min_instruction);
      const uint64_t new_length_at = out_.size();
      copy(header.unit.length_at, header.program);
      DwarfCursor program(old_, header.program, header.unit.end, name_);
      while (!program.done()) {
        XT_TRY(const Sequence s, read_sequence(program, header));
        XT_TRY_STATUS(write_sequence(s));
      }
      patch_length(header, new_length_at);
      c.seek(header.unit.end);
    }
    for (const auto& [offset, index] : at_offset_)
      if (!new_offsets_.contains(index))
        return unsupported("{}: the relocation at {:#x} is not the address of a sequence", name_, offset);
    return {};
  }

  void commit(Image& image) {
    for (const auto& [index, offset] : new_offsets_)
      image.set_relocation(index, offset, relocations_[index].addend);
    for (const Relocation& r : added_) image.add_relocation(r);
    image.set_section_data(section_, std::move(out_));
  }

 private:
  void copy(uint64_t begin, uint64_t end) {
    out_.insert(out_.end(), old_.begin() + begin, old_.begin() + end);
  }

  Result<Sequence> read_sequence(DwarfCursor& c, const LineHeader& h) {
    Sequence s;
    s.bytes_begin = c.at();
    uint64_t address = 0;
    while (!c.done()) {
      XT_TRY(const LineOp op, read_line_op(c, h));
      switch (op.kind) {
        case LineOp::Kind::set_address: {
          if (s.set_address_at != 0) return unsupported("{}: two addresses in one sequence", name_);
          s.set_address_at = op.operand_at;
          const auto found = at_offset_.find(op.operand_at);
          if (found == at_offset_.end()) break;
          s.relocation = found->second;
          const Relocation& r = relocations_[s.relocation];
          if (!map_.in_text(r.symbol)) break;
          s.ours = true;
          s.base = address = map_.old_values.at(r.symbol) + (r.has_addend ? r.addend : op.value);
          break;
        }
        case LineOp::Kind::advance_address:
          address += op.address_advance;
          break;
        case LineOp::Kind::special:
          address += op.address_advance;
          s.steps.push_back({Step::Kind::row, 0, 0, op.value, address});
          break;
        case LineOp::Kind::copy:
          s.steps.push_back({Step::Kind::row, 0, 0, 0, address});
          break;
        case LineOp::Kind::end_sequence:
          s.steps.push_back({Step::Kind::end, 0, 0, 0, address});
          s.bytes_end = c.at();
          return s;
        default:
          if (s.set_address_at == 0 && s.bytes_begin != op.begin)
            return unsupported("{}: a sequence does not start with its address", name_);
          s.steps.push_back({Step::Kind::verbatim, op.begin, op.end, 0, 0});
      }
    }
    s.bytes_end = c.at();
    if (s.ours) return bad_input("{}: the last sequence does not end", name_);
    return s;
  }

  Status write_sequence(const Sequence& s) {
    if (!s.ours) {
      if (s.set_address_at != 0 && at_offset_.contains(s.set_address_at))
        new_offsets_[at_offset_[s.set_address_at]] = out_.size() + (s.set_address_at - s.bytes_begin);
      copy(s.bytes_begin, s.bytes_end);
      return {};
    }
    size_t copies = 1;
    std::vector<std::vector<uint32_t>> places;
    for (const Step& step : s.steps) {
      if (step.kind != Step::Kind::row) continue;
      if (step.address >= map_.old_bytes || step.address % CodeMap::kInstructionBytes != 0)
        return bad_input("{} names position {:#x} of {}, which is no instruction", name_, step.address,
                         map_.text_name);
      places.push_back(map_.moved.instruction(static_cast<uint32_t>(step.address)));
      copies = std::max(copies, places.back().size());
    }
    for (size_t k = 0; k < copies; ++k) XT_TRY_STATUS(write_copy(s, places, k));
    return {};
  }

  Status write_copy(const Sequence& s, const std::vector<std::vector<uint32_t>>& places, size_t k) {
    const Relocation& r = relocations_[s.relocation];
    uint64_t at = image_.symbols()[r.symbol].value + (s.base - map_.old_values.at(r.symbol));
    append(out_, std::byte{0});
    append_uleb(out_, 1 + sizeof(uint64_t));
    append(out_, static_cast<uint8_t>(kLneSetAddress));
    if (k == 0) {
      new_offsets_[s.relocation] = out_.size();
    } else {
      Relocation added = r;
      added.offset = out_.size();
      if (!added.has_addend) added.addend = 0;
      added_.push_back(added);
    }
    copy(s.set_address_at, s.set_address_at + sizeof(uint64_t));

    size_t row = 0;
    for (const Step& step : s.steps) {
      if (step.kind == Step::Kind::verbatim) {
        copy(step.begin, step.end);
        continue;
      }
      uint64_t to = at;  // a row without a place keeps its number and covers nothing
      if (step.kind == Step::Kind::row) {
        const auto& all = places[row++];
        if (k < all.size()) to = all[k];
      } else {
        to = end_of_copy(step.address, places, k, at);
      }
      if (to < at)
        return unsupported("{}: the row for {:#x} of {} does not move forward", name_, step.address,
                           map_.text_name);
      if (step.line_advance != 0) {
        append(out_, static_cast<uint8_t>(kLnsAdvanceLine));
        append_sleb(out_, step.line_advance);
      }
      if (to != at) {
        append(out_, static_cast<uint8_t>(kLnsAdvancePc));
        append_uleb(out_, to - at);
        at = to;
      }
      if (step.kind == Step::Kind::row) {
        append(out_, static_cast<uint8_t>(kLnsCopy));
      } else {
        append(out_, std::byte{0});
        append_uleb(out_, 1);
        append(out_, static_cast<uint8_t>(kLneEndSequence));
      }
    }
    return {};
  }

  // The primary copy ends where the boundary says, any other with its last instruction; none runs into the
  // next.
  uint64_t end_of_copy(uint64_t old_end, const std::vector<std::vector<uint32_t>>& places, size_t k,
                       uint64_t at) const {
    uint64_t end = at + CodeMap::kInstructionBytes;
    if (k == 0) {
      end = map_.moved.boundary(static_cast<uint32_t>(old_end));
    } else if (old_end >= CodeMap::kInstructionBytes && old_end <= map_.old_bytes) {
      const auto last = map_.moved.instruction(static_cast<uint32_t>(old_end - CodeMap::kInstructionBytes));
      if (k < last.size()) end = last[k] + CodeMap::kInstructionBytes;
    }
    for (const auto& row : places)
      for (size_t other = 0; other < row.size(); ++other)
        if (other != k && row[other] > at) end = std::min<uint64_t>(end, row[other]);
    return std::max(end, at);
  }

  void patch_length(const LineHeader& h, uint64_t length_at) {
    const uint64_t first = length_at + (h.unit.wide ? 12 : 4);
    const uint64_t length = out_.size() - first;
    if (h.unit.wide) {
      write_at(std::span(out_), length_at + 4, length);
    } else {
      write_at(std::span(out_), length_at, static_cast<uint32_t>(length));
    }
  }

  const Image& image_;
  const CodeMap& map_;
  uint32_t section_;
  const Bytes& old_;
  std::string name_;
  std::vector<Relocation> relocations_;
  std::map<uint64_t, size_t> at_offset_;
  std::map<size_t, uint64_t> new_offsets_;
  std::vector<Relocation> added_;
  Bytes out_;
};

}  // namespace

Status move_line_table(Image& image, const CodeMap& map, uint32_t section) {
  Editor editor(image, map, section);
  XT_TRY_STATUS(editor.run());
  editor.commit(image);
  return {};
}

}  // namespace xtrace::cubin
