// Private to this room: how the text section of one kernel moved, for everything that maps offsets in it.
#pragma once

#include <map>

#include "instrument/cubin/kernel_info.h"

namespace xtrace::cubin {

struct CodeMap {
  const MovedCode& moved;
  uint32_t text_section = 0;
  uint64_t old_bytes = 0;
  std::string text_name;
  std::map<uint32_t, uint64_t>
      old_values;  // st_value, before the move, of every symbol that stands in the section

  bool in_text(uint32_t symbol) const { return old_values.contains(symbol); }

  // Where the instruction at `old_offset` went, all copies. `what` names the list it stands in.
  Result<std::vector<uint32_t>> copies(uint64_t old_offset, std::string_view what) const {
    if (old_offset >= old_bytes || old_offset % kInstructionBytes != 0)
      return bad_input("{} names offset {:#x} of {}, which is no instruction of its {:#x} bytes", what,
                       old_offset, text_name, old_bytes);
    std::vector<uint32_t> all = moved.instruction(static_cast<uint32_t>(old_offset));
    if (all.empty())
      return internal("{} names the instruction at {:#x} of {}, which has no new place", what, old_offset,
                      text_name);
    return all;
  }
  // A position that may also be the end of the code.
  Result<uint32_t> position(uint64_t old_offset, std::string_view what) const {
    if (old_offset == old_bytes) return moved.boundary(static_cast<uint32_t>(old_offset));
    XT_TRY(const std::vector<uint32_t> all, copies(old_offset, what));
    return all.front();
  }

  static constexpr uint64_t kInstructionBytes = 16;
};

// Each rewrites one debug section in place. An error means: nothing was changed, the section still describes
// the old code, and the error says why.
Status move_line_table(Image& image, const CodeMap& map, uint32_t section);
Status move_debug_frame(Image& image, const CodeMap& map, uint32_t section);

}  // namespace xtrace::cubin
