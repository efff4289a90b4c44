// The frame around one instruction: a kernel that loads the state of its warp (one warp a CTA), executes the instruction with
// every wait it could need on both sides, and stores the state. One cubin for each class; the word is patched in.
#pragma once

#include "replay/backend.h"
#include "tests/values/words.h"

namespace xtrace::values {

class Frame {
 public:
  static Result<Frame> make(Class c);
  // The cubin with the word in it.
  const Bytes& cubin(const Word& w);
  // A launch of `warps` warps over input_states(); regions: input, output, memory.
  replay::LaunchImage launch(const std::vector<WarpState>& inputs) const;
  static constexpr size_t output_region = 1;

 private:
  Class cls_ = Class::plain;
  Bytes cubin_;
  size_t at_ = 0;  // of the word in the cubin
};

}  // namespace xtrace::values
