// Which registers are base + lane * stride in every warp, as far as the code alone proves it: `base` is one word for the lanes of
// a warp, `stride` is known here. An address register like that needs one word in a record instead of one a lane. Where a warp
// spans several rows of its CTA the value may take another step from row to row.
//
// A value counts when it follows, by moves, sums, products with known numbers (parameters of the launch among them) and shifts, from
// what never changes in a warp (CTA number, constant banks) and from the thread's number, and when exactly one definition reaches the instruction that asks:
// then each lane has it from there, whenever it came past. Loaded values and whatever went through another lane do not count.
//
// Where paths join, a loop counter for instance, values count only if a counting replay has shown that lanes never part there: in
// a whole block all lanes of the warp execute every instruction together. When the block of a join and all blocks in front of it
// are whole, the lanes come from one and the same execution of one of these blocks, so that their values are as alike as they were
// there. Such a value is another one each time; what is computed of it counts in whole blocks only, where no lane can have missed
// the last time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
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

// What the code does not say by itself.
struct LaunchFacts {
  Dim3 block;                  // threads of a CTA
  std::vector<bool> whole{};   // by instruction, whether its block is (empty: nothing is known)
  Bytes params{};              // of the launch, from byte `params_at` of constant bank 0 on
  uint32_t params_at = 0;
  // The word there, where it is a parameter.
  std::optional<uint32_t> constant(uint32_t byte) const;
};

class LaneStrides {
 public:
  LaneStrides() = default;
  // Looks at the address registers (their low words) of memory accesses alone.
  LaneStrides(const Code& code, const LaunchFacts& launch);
  // Of `reg` in front of i, for the lanes that execute i and hold its guard.
  std::optional<LaneStride> before(InstIndex i, uint8_t reg) const {
    const auto found = at_.find({i, reg});
    return found == at_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::map<std::pair<InstIndex, uint8_t>, LaneStride> at_;
};

}  // namespace xtrace::instrument
