// Words that tests/oracle does not give, or that need others around them: control flow with a place to land, barriers,
// asynchronous copies. Each is written as SASS.
#pragma once

#include "tests/values/words.h"

namespace xtrace::values {

// Of the frame (frame.cc): as many instructions before a word and behind it can be set; then the word's class control has
// "BRA join" and the pad, where lanes land that branch.
inline constexpr size_t max_companions = 4;
inline constexpr uint32_t pad_distance = 0x60;  // from the word to the pad
inline constexpr uint32_t gone_mark = 2;  // what class control adds to word 0 of memory of lanes that end in the slot

struct Companions {
  std::vector<sass::RawInst> before, after;
};
Companions companions(const Word& w);

const std::vector<Word>& own_words();
// True for those at which the GPU may stop.
bool may_stop(const Word& w);

}  // namespace xtrace::values
