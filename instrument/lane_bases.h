// Which address registers are a base, one for the lanes of a warp, plus a number that the thread's place in its CTA tells, as far as
// code and launch alone prove it (instrument/thread_terms.h). The base is one word in a record instead of one a lane; where it is
// known as well, none.
//
// A value counts when it follows, by what thread_terms.h computes, from what never changes in a warp (CTA number, constant banks,
// parameters of the launch) and from the thread's number, and when exactly one definition reaches the instruction that asks: then each
// lane has it from there, whenever it came past. Loaded values and whatever went through another lane do not count.
//
// Where paths join, a loop counter for instance, values count only if a counting replay has shown that lanes never part there: in
// a whole block all lanes of the warp execute every instruction together. When the block of a join and all blocks in front of it
// are whole, the lanes come from one and the same execution of one of these blocks, so that their values are as alike as they were
// there. Such a value is another one each time; what is computed of it counts where no lane can have missed the last time: in whole
// blocks, and in others until the block ends. What the thread's place alone tells is the same each time, and counts everywhere.
// A uniform register that lanes write without the others counts until a block ends, and on where no lane elsewhere can write it
// (apart_writes.h): it belongs to all of them.
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

// base + numbers[thread], modulo 2^32.
struct LaneBase {
  bool known = false;              // the base is 0; else the number of each warp's first lane is
  uint32_t numbers = 0;            // which of LaneBases::tables()
  uint8_t guard = guard_always;    // in lanes where it does not hold the value may be another
  bool operator==(const LaneBase&) const = default;
};

// A table whose numbers are lane * stride + (lane >> shift) * step in every warp.
struct Strided {
  uint32_t stride = 0, step = 0;
  uint8_t shift = 0;               // of rows of the CTA, where a warp spans several; else 0, and so is step
  bool operator==(const Strided&) const = default;
};

// What the code does not say by itself.
struct LaunchFacts {
  Dim3 grid, block;            // CTAs; threads of a CTA
  Dim3 cluster{0, 0, 0};       // CTAs of a cluster; 0, 0, 0: there are none
  std::vector<bool> whole{};   // by instruction, whether its block is (empty: nothing is known)
  std::vector<uint32_t> block_of{};   // by instruction, which lanes execute together from its first to its last (Blocks::block_of; empty: not known)
  Bytes params{};              // of the launch, from byte `params_at` of constant bank 0 on
  uint32_t params_at = 0;
};

class LaneBases {
 public:
  LaneBases() = default;
  // Looks at the address registers (their low words) of memory accesses alone, and at the uniform registers of those in 32 bits.
  LaneBases(const Code& code, const LaunchFacts& launch);
  // Of `reg` in front of i, for the lanes that execute i and hold its guard.
  std::optional<LaneBase> before(InstIndex i, uint8_t reg) const { return find(at_, i, reg); }
  // What a uniform register holds there in every warp.
  std::optional<uint32_t> uniform_before(InstIndex i, uint8_t reg) const { return find(uniform_at_, i, reg); }
  // By lane, where every warp has the same numbers; else by thread of the CTA, a whole warp at a time.
  const std::vector<std::vector<uint32_t>>& tables() const { return tables_; }
  std::optional<Strided> strided(const LaneBase& base) const { return strided_.at(base.numbers); }
  bool is_uniform(const LaneBase& base) const { return strided(base) == Strided{}; }

 private:
  template <typename T>
  using At = std::map<std::pair<InstIndex, uint8_t>, T>;
  template <typename T>
  static std::optional<T> find(const At<T>& all, InstIndex i, uint8_t reg) {
    const auto found = all.find({i, reg});
    return found == all.end() ? std::nullopt : std::optional(found->second);
  }
  At<LaneBase> at_;
  At<uint32_t> uniform_at_;
  std::vector<std::vector<uint32_t>> tables_;
  std::vector<std::optional<Strided>> strided_;
};

}  // namespace xtrace::instrument
