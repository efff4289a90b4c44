// The frame around an instruction: a kernel that loads the state of its warp (one warp a CTA, four for a warpgroup), executes
// one of its slots with every wait that the instruction there could need on both sides, and stores the state. One cubin for
// each class; words and their companions (own_words.h) are patched into the slots, and a word in memory says which one is
// executed.
#pragma once

#include <span>

#include "replay/backend.h"
#include "tests/values/words.h"

namespace xtrace::values {

class Frame {
 public:
  static Result<Frame> make(Class c);
  // The cubin with these words in its slots.
  const Bytes& cubin(std::span<const Word> words);
  // A launch of `warps` warps over input_states(); regions: input, output, memory, and the number of the
  // slot.
  replay::LaunchImage launch(const std::vector<WarpState>& inputs) const;
  uint32_t code_offset(size_t slot) const { return code_at_[slot]; }
  static constexpr size_t output_region = 1;
  static constexpr size_t slots = 8;

 private:
  Class cls_ = Class::plain;
  Bytes cubin_;
  std::array<size_t, slots> at_{};        // of the words in the cubin
  std::array<uint32_t, slots> code_at_{};  // in the code
};

}  // namespace xtrace::values
