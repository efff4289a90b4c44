// What the interpreter sees of a kernel as it was recorded: how often each warp executes each instruction, and by how many lanes.
#pragma once

#include <array>
#include <bit>
#include <map>
#include <vector>

#include "replay/interp/witness.h"
#include "trace/wire/address_map.h"

namespace xtrace::soak {

struct Tally {
  uint64_t executions = 0, lanes = 0;
  void add(uint32_t mask) {
    ++executions;
    lanes += static_cast<uint64_t>(std::popcount(mask));
  }
  bool operator==(const Tally&) const = default;
};

// The lanes are these; executions are from `least` to `most`: one number on the interpreter, and on hardware where lanes can not
// part. Where they can, hardware may take them through in other groups: at least as often as the busiest lane went there, and at
// most once for each.
struct Expected {
  uint64_t least = 0, most = 0, lanes = 0;
  bool all = true;   // false: some of these executions, so as many lanes at most
  void add(const Expected& e) {
    least += e.least;
    most += e.most;
    lanes += e.lanes;
  }
  // The first of them, and every nth after it.
  Expected every(uint64_t nth) const {
    if (nth == 1) return *this;
    return {(least + nth - 1) / nth, (most + nth - 1) / nth, lanes, false};
  }
  bool holds(const Tally& t) const {
    return (all ? t.lanes == lanes : t.lanes <= lanes && t.lanes >= t.executions) && t.executions >= least && t.executions <= most;
  }
};

class Witness final : public replay::interp::WitnessSink {
 public:
  Witness(uint32_t warps, const std::vector<wire::Block>& blocks) : warps_(warps) {
    for (uint32_t b = 0; b < blocks.size(); ++b) {
      instructions_ = std::max(instructions_, blocks[b].first_pc / 16 + blocks[b].instructions);
      block_of_.resize(instructions_, none);
      for (uint32_t i = 0; i < blocks[b].instructions; ++i) block_of_[blocks[b].first_pc / 16 + i] = b;
    }
    for (PerWarp& w : warps_) {
      w.before.resize(instructions_);
      w.behind.resize(instructions_);
      w.by_lane.resize(blocks.size());
    }
  }

  void executed(uint32_t warp, uint32_t pc, uint32_t active, uint32_t) override {
    PerWarp& w = warps_[warp];
    const uint32_t i = pc / 16;
    w.before[i].add(active);
    w.parted |= (active & ~w.mask) != 0;
    w.mask = active;
    uint32_t fell = 0;   // lanes that come from the instruction in front
    const bool head = block_of_[i] != none && (i == 0 || block_of_[i - 1] != block_of_[i]);
    for (uint32_t m = active; m != 0; m &= m - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(m));
      if (i > 0 && w.last[lane] == i - 1) fell |= 1u << lane;
      w.last[lane] = i;
      if (head) ++w.by_lane[block_of_[i]][lane];
    }
    if (fell != 0) w.behind[i - 1].add(fell);
  }

  // In front of the instruction at `pc`, or behind it where lanes fall through. `groups_differ`: lanes may have come in others.
  Expected at(uint32_t warp, uint32_t pc, bool behind, bool groups_differ) const {
    const PerWarp& w = warps_[warp];
    const Tally& t = (behind ? w.behind : w.before)[pc / 16];
    if (!groups_differ) return {t.executions, t.executions, t.lanes};
    uint64_t least = (t.lanes + 31) / 32;
    if (!behind)
      for (uint32_t n : w.by_lane[block_of_[pc / 16]]) least = std::max<uint64_t>(least, n);
    return {least, t.lanes, t.lanes};
  }
  // Some lanes went another way than others. They have not when every instruction was executed by all lanes that executed the
  // one before it, but for those that ended there: then no branch divided them, and nothing else does.
  bool parted(uint32_t warp) const { return warps_[warp].parted; }
  bool started(uint32_t warp) const { return warps_[warp].before[0].executions != 0; }

 private:
  static constexpr uint32_t none = ~0u;
  struct PerWarp {
    std::vector<Tally> before, behind;                    // by instruction
    std::vector<std::array<uint32_t, 32>> by_lane;        // by block: executions of each lane
    std::array<uint32_t, 32> last{};                      // instruction of each lane
    uint32_t mask = ~0u;
    bool parted = false;
  };
  std::vector<PerWarp> warps_;
  std::vector<uint32_t> block_of_;                        // by instruction
  uint32_t instructions_ = 0;
};

}  // namespace xtrace::soak
