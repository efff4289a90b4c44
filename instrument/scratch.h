// The only authority over what probes may use: vector registers, uniform registers, predicates, scoreboards.
//
// Vector registers come as a Holder for up to four words of a record. Where they come from, in this order:
//   1. fresh   above the kernel's own count, where the hardware's allocation has room for them at the same occupancy:
//              dead everywhere, and no original instruction can still be reading them
//   2. dead    registers of the kernel that Liveness allows at every point where the probe holds a value in them: four
//              aligned ones, else two aligned pairs, one pair, a single one (the fewer, the more stores a record takes)
//   3. spilled  one of the kernel's, which stands aside in local memory meanwhile (spill.h), for a single word in front of one
//              instruction, where allow_spills() was called: who asks for it puts it aside and back
//   4. grown   above the kernel's count at the price of occupancy, never past what the launch can hold
// Kernels that change their register limit while they run (setmaxnreg) keep their count: a pool that adds up to what the
// launch was given would not with another. Only what they hold at a point is borrowed there.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <vector>

#include "instrument/blocks.h"
#include "instrument/instrument.h"
#include "instrument/liveness.h"
#include "instrument/sass/encode.h"
#include "instrument/spill.h"

namespace xtrace::instrument {

// Uniform registers of the spliced code; all untouched by the original kernel.
struct UniformPlan {
  sass::enc::Ureg address;     // of a pair: where the next record goes; `count`: the counters
  sass::enc::Ureg header;      // of a pair: this warp's WarpHeader
  sass::enc::Ureg cursor;      // bytes produced, starting at lead_bytes (wrapping slots); `count`: block bytes
  sass::enc::Ureg mask;        // slot size - 1; `count`: inst bytes
  sass::enc::Ureg base;        // low word of the slot's address; `count`: mem bytes
  sass::enc::Ureg temp;
  // Two pairs and one are all that the kernel leaves (PyTorch's reductions, kernels of cuDNN): mask, base and temp are URZ. Enough
  // for records in plain slots; `count` then adds one of its sums up (Plan::sum), and no slot wraps.
  bool few = false;
};
constexpr sass::enc::Ureg high_half(sass::enc::Ureg pair) { return {static_cast<uint8_t>(pair.index + 1)}; }

// Predicates, untouched by the original kernel, that split a warp into four groups of eight lanes, so that one register can
// carry four words of a record: group g = lane / 8 stores word g. Set by the prologue, never written again.
struct LaneGroups {
  sass::enc::Pred bit0, bit1;   // bits of g; bit1 is the predicate behind bit0, so that one P2R gives g << bit0.index
  sass::enc::Pred both;         // g == 3; PT where nobody needs it
  static constexpr unsigned groups = 4;
};

// For records of two words under `block` that need not be aligned for a store of 64 bits: lane l stores word l / 4 % 2. A predicate untouched by
// the original kernel, set by the prologue and never written again.
struct LaneWords {
  sass::enc::Pred odd;          // l / 4 % 2
  std::optional<sass::enc::Gpr> place;   // 4 * (l / 4 % 2) for the whole kernel; without one it is made in front of each store
  bool used = false;
  static constexpr uint32_t odd_lanes = 4;     // bit of the lane's number
  static constexpr uint32_t least_lanes = 8;   // that a warp must have been launched with
};

// As LaneGroups, for kernels that leave no predicates, in three registers: all ones in the lanes whose group has that bit, or both.
struct LaneMasks {
  sass::enc::Gpr bit0, bit1, both;
};

// Registers for the words of a record, all in one of these shapes:
//   quad       r[0..3] = Rn..Rn+3, n % 4 == 0: one 128-bit store
//   two_pairs  r[0..1] and r[2..3], each an aligned pair: two 64-bit stores
//   pair       r[0..1]: two words at a time
//   single     r[0]: one word at a time
struct Holder {
  enum class Shape : uint8_t { quad, two_pairs, pair, single };
  Shape shape = Shape::quad;
  std::array<uint8_t, 4> reg{};
  uint8_t scoreboard = 0;      // that its stores signal
  uint8_t wait_mask = 0;       // scoreboards to wait for in front of the first word in it
  bool spilled = false;
  sass::enc::Gpr r(unsigned k) const { return {reg[k]}; }
  bool operator==(const Holder&) const = default;
};

constexpr uint32_t registers_of(Holder::Shape shape) {
  switch (shape) {
    case Holder::Shape::pair: return 2;
    case Holder::Shape::single: return 1;
    default: return 4;
  }
}

class Scratch {
 public:
  // Refuses (unsupported) when no uniform registers or no scoreboard are left. The prologue may not touch registers in `unsettled`.
  static Result<Scratch> plan(const Code& code, const cubin::KernelInfo& info, const Blocks& blocks,
                              const Liveness& liveness, const LaunchShape& shape, const sass::RegSet& unsettled = {});

  const UniformPlan& uniform() const { return uniform_; }
  // Uniform registers beside those, a few at most, which nobody holds anything in.
  const std::vector<sass::enc::Ureg>& spare_uniform() const { return spare_uniform_; }
  // Nothing when the kernel leaves too few predicates.
  const std::optional<LaneGroups>& lane_groups() const { return lane_groups_; }
  // Nothing when the kernel leaves no predicate, `beside_groups` beside those of the lane groups. Nobody else gets it from now on.
  std::optional<LaneWords> reserve_lane_words(bool beside_groups);
  // Scoreboards that stores of probes may signal (bit mask): those that the kernel does not count groups on.
  uint8_t shared_scoreboards() const { return shared_scoreboards_; }
  // The scoreboard on which waiting costs the kernel least; never one that it counts groups on.
  uint8_t scoreboard() const { return scoreboard_[0]; }
  // A holder whose registers may hold values at every point "immediately before i" for i in [from, to], of the first
  // shape in `shapes` for which there is one at no cost in occupancy. Prefers registers that `previous` does not have,
  // so that consecutive records do not wait for each other's stores.
  // Never one in `taken`.
  std::optional<Holder> try_holder(InstIndex from, InstIndex to, std::initializer_list<Holder::Shape> shapes,
                                   const std::optional<Holder>& previous, const sass::RegSet& taken = {});
  // Registers of the kernel that may hold a value immediately before i.
  sass::RegSet writable(InstIndex i) const;
  // One at one point that is free once a scoreboard has been waited for which the kernel waits for later: in place of occupancy.
  std::optional<Holder> after_wait(InstIndex at, Holder::Shape shape, const std::optional<Holder>& previous) const;
  // As try_holder; when there is none, of shapes[0] at the price of occupancy.
  Result<Holder> holder(InstIndex from, InstIndex to, std::initializer_list<Holder::Shape> shapes,
                        const std::optional<Holder>& previous, const sass::RegSet& taken = {});
  // From now on holder() spills, into this frame, rather than to take occupancy.
  void allow_spills(const SpillFrame& frame) { spill_frame_ = frame; }
  const std::optional<SpillFrame>& spill_frame() const { return spill_frame_; }
  uint32_t spills() const { return spills_; }             // handed out so far
  bool costs_occupancy() const { return count_ > free_count_; }
  // A pair above EIATTR_MAXREG_COUNT, as far as the launch can hold it: for replays of which nothing but counts is asked.
  std::optional<Holder> beyond_limit() { return above(launchable_count_, Holder::Shape::pair, std::nullopt, {}); }
  // A register above the kernel's own, at no cost in occupancy, that nobody else gets from now on, and none of those that somebody has
  // already; nothing when there is none.
  std::optional<sass::enc::Gpr> reserve(const sass::RegSet& taken = {});
  // The same for three that follow each other, with room for pairs and quads below them where there is any.
  std::optional<LaneMasks> reserve_masks();
  // A uniform register of its own; nothing when there is none.
  std::optional<sass::enc::Ureg> counter();
  // A predicate that may hold a value at every such point; nothing when there is none.
  // `yes`: or one of lane_groups(), where the probe has no use for those.
  enum class LaneGroupsToo : bool { no, yes };
  std::optional<sass::enc::Pred> predicate(InstIndex from, InstIndex to, LaneGroupsToo groups = LaneGroupsToo::no) const;

  // The first of eight registers in a row for the prologue.
  sass::enc::Gpr prologue() const { return {static_cast<uint8_t>(prologue_first_)}; }
  uint32_t register_count() const { return count_; }   // EIATTR_REGCOUNT for what was handed out so far
  uint32_t fresh_registers() const { return fresh_used_; }

 private:
  std::optional<Holder> spill(InstIndex at, const std::optional<Holder>& previous, const sass::RegSet& taken);
  std::optional<Holder> above(uint32_t limit, Holder::Shape shape, const std::optional<Holder>& previous,
                              const sass::RegSet& taken);
  std::optional<Holder> borrow(InstIndex from, InstIndex to, Holder::Shape shape, const std::optional<Holder>& previous,
                               const sass::RegSet& taken);

  const Code* code_ = nullptr;
  const Liveness* liveness_ = nullptr;
  UniformPlan uniform_;
  std::vector<sass::enc::Ureg> spare_uniform_;
  sass::RegSet uniform_taken_;
  std::optional<LaneGroups> lane_groups_;
  uint8_t scoreboard_[2] = {0, 0};
  uint8_t shared_scoreboards_ = 0;
  uint32_t prologue_first_ = 0;
  uint32_t own_count_ = 0, count_ = 0, free_count_ = 0, launch_count_ = 0, launchable_count_ = 0;
  uint32_t fresh_used_ = 0;
  sass::RegSet reserved_;
  sass::PredSet reserved_predicates_ = 0;
  std::optional<SpillFrame> spill_frame_;
  uint32_t spills_ = 0;
};

}  // namespace xtrace::instrument
