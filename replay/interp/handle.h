// Constants through a handle, cx[UR][..]: global memory behind a pair of uniform registers that holds address / 64 and, from
// bit 51, the size / 16. [Mesa's NVK; measured H200]
#pragma once

#include "replay/interp/step.h"

namespace xtrace::replay::interp {

// How an instruction that has one among its sources executes: the words come into rows of the warp's own, and the operation
// reads those.
struct HandleConstant {
  Exec operation = nullptr;
  int32_t ur[2] = {};  // rows of the pair
  uint32_t offset = 0;
  uint32_t words = 1;
};
constexpr uint32_t most_handle_words = 2;

// The bytes at `offset` of what the pair describes; on a bad one the step fails and nullptr comes back.
const std::byte* handle_bytes(Step& s, const Operand (&pair)[2], int64_t offset, unsigned bytes, unsigned lane);

void execute_through_handle(Step& s, const Inst& i);

}  // namespace xtrace::replay::interp
