// The interpreter's side: executes one word on the operand sets, without the frame.
#pragma once

#include <span>
#include <string>

#include "tests/values/words.h"

namespace xtrace::values {

struct DirectResult {
  std::string refused;            // why; empty: executed
  std::vector<WarpState> states;  // of the first `count` warps
};
// `inputs` as input_states(w.cls) gives them.
DirectResult run_direct(const Word& w, const std::vector<WarpState>& inputs, unsigned count = set_warps);

// What is recorded of the 10,240 results: 64 bits.
uint64_t digest(std::span<const WarpState> states);

}  // namespace xtrace::values
