// Which registers are base + lane * stride in every warp, as far as the code alone proves it: `base` is one word for the lanes of
// a warp, `stride` is known here. An address register like that needs one word in a record instead of one a lane. Where a warp
// spans several rows of its CTA the value may take another step from row to row.
//
// A value counts when it follows, by moves, sums, products with known numbers and shifts, from what never changes in a warp
// (CTA number, constant banks) and from the thread's number, and when exactly one definition reaches the instruction that asks:
// then each lane has it from there, whenever it came past. Loop counters, joins of paths, loaded values and whatever went through
// another lane do not count.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/types.h"

namespace xtrace::instrument {

struct Code;
using InstIndex = uint32_t;

// A guard as it stands in bits [15:12] of a word: predicate and, in bit 3, its negation.
constexpr uint8_t guard_always = 7;

// base + lane * stride + (lane >> row_shift(block)) * step, modulo 2^32.
struct LaneStride {
  uint32_t stride = 0, step = 0;
  uint8_t guard = guard_always;    // in lanes where it does not hold the value may be another
  bool operator==(const LaneStride&) const = default;
};

// Lanes of one row of the CTA, as a power of two, where a warp spans several whole rows; then lane >> this is the row. Else 0, and
// every step is 0.
uint8_t row_shift(const Dim3& block);

class LaneStrides {
 public:
  LaneStrides() = default;
  // `block`: threads of a CTA. Looks at the address registers (their low words) of memory accesses alone.
  LaneStrides(const Code& code, const Dim3& block);
  // Of `reg` in front of i, for the lanes that execute i and hold its guard.
  std::optional<LaneStride> before(InstIndex i, uint8_t reg) const {
    const auto found = at_.find({i, reg});
    return found == at_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::map<std::pair<InstIndex, uint8_t>, LaneStride> at_;
};

}  // namespace xtrace::instrument
