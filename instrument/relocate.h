// Lays the code of a kernel out again, with probe sequences between the original instructions, and makes every place
// that names a position name the right one. With no insertions and base 0 the result is the original code, bit for bit;
// with another base it is the untouched copy for warps that are not sampled.
#pragma once

#include <vector>

#include "instrument/code.h"
#include "instrument/sequence.h"

namespace xtrace::instrument {

// Where sequences stand relative to instruction i:
//
//        after[i-1]        only those that fall through from i-1 pass here
//   L:   before[i]         L is where jumps to i arrive
//        instruction i
//        after[i]
struct Insertions {
  explicit Insertions(size_t instructions) : before(instructions), after(instructions), wait(instructions, 0) {}
  std::vector<Sequence> before, after;
  std::vector<uint8_t> wait;        // scoreboards that the original instruction must wait for in addition
};

struct Body {
  uint32_t base = 0;                // offset of the first word in the new section
  std::vector<sass::RawInst> words;
  std::vector<uint32_t> label;      // by old instruction: offset where jumps to it arrive; [n] is the end
  std::vector<uint32_t> inst;       // by old instruction: offset of the instruction itself
  std::vector<uint32_t> original;   // by new word: old offset, or wire::AddressMap::inserted
  uint32_t bytes() const { return static_cast<uint32_t>(words.size()) * sass::inst_bytes; }
};

// `jump_tables`: byte offset in constant bank 2 of this body's own copy of each of code.jump_tables.
Result<Body> lay_out(const Code& code, const Insertions& insertions, uint32_t base,
                     const std::vector<uint32_t>& jump_tables);

}  // namespace xtrace::instrument
