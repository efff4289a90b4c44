#include "instrument/scratch.h"

#include <algorithm>
#include <array>

#include "instrument/occupancy.h"

namespace xtrace::instrument {
namespace {

// Uniform registers from the top down: compilers hand them out from the bottom.
Result<UniformPlan> plan_uniform(const Code& code, const Liveness& liveness) {
  const sass::RegSet free = liveness.untouched_uniform();
  std::vector<uint8_t> singles;
  std::vector<uint8_t> pairs;
  for (int r = 61; r >= 1 && (pairs.size() < 2 || singles.size() < 4); r -= 2) {
    const bool high = free.test(r), low = free.test(r - 1);
    if (high && low && pairs.size() < 2) {
      pairs.push_back(static_cast<uint8_t>(r - 1));
      continue;
    }
    if (high) singles.push_back(static_cast<uint8_t>(r));
    if (low) singles.push_back(static_cast<uint8_t>(r - 1));
  }
  if (pairs.size() < 2 || singles.size() < 4)
    return unsupported("kernel {} leaves {} uniform registers untouched: probes need two aligned pairs and four more",
                       code.kernel, free.count());
  return UniformPlan{{pairs[0]}, {pairs[1]}, {singles[0]}, {singles[1]}, {singles[2]}, {singles[3]}};
}

// The two scoreboards on which waiting costs the kernel least: outstanding at few, cold block entries. Scoreboards that
// DEPBAR counts in groups can not be shared (sass.md 5.4).
Result<std::array<uint8_t, 2>> plan_scoreboards(const Code& code, const Blocks& blocks, const Liveness& liveness) {
  uint8_t counted = 0;
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    const sass::Effects& fx = code.insts[i].fx;
    if (code.reachable[i] && fx.uses_scoreboard_count && fx.depbar_scoreboard < 6)
      counted |= static_cast<uint8_t>(1u << fx.depbar_scoreboard);
  }
  std::vector<std::pair<uint64_t, uint8_t>> cost;
  for (uint8_t sb = 0; sb < 6; ++sb) {
    if (counted >> sb & 1) continue;
    uint64_t c = 0;
    for (uint32_t b = 0; b < blocks.blocks.size(); ++b)
      if (liveness.outstanding_before(blocks.blocks[b].first) >> sb & 1) c += blocks.loop_weight[b];
    cost.push_back({c, sb});
  }
  if (cost.empty()) return unsupported("kernel {} counts groups on all six scoreboards", code.kernel);
  std::stable_sort(cost.begin(), cost.end(), [](auto& a, auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  return std::array<uint8_t, 2>{cost[0].second, cost.size() > 1 ? cost[1].second : cost[0].second};
}

}  // namespace

Result<Scratch> Scratch::plan(const Code& code, const cubin::KernelInfo& info, const Blocks& blocks,
                              const Liveness& liveness, const LaunchShape& shape) {
  Scratch s;
  s.code_ = &code;
  s.liveness_ = &liveness;
  XT_TRY(s.uniform_, plan_uniform(code, liveness));
  XT_TRY(const auto scoreboards, plan_scoreboards(code, blocks, liveness));
  s.scoreboard_[0] = scoreboards[0];
  s.scoreboard_[1] = scoreboards[1];
  for (InstIndex i = 0; i < code.insts.size(); ++i)
    if (code.reachable[i] && code.insts[i].fx.changes_register_limit)
      return unsupported("kernel changes its register limit while it runs (setmaxnreg) at {}", where(code, i));
  s.own_count_ = s.count_ = info.register_count;
  const uint32_t cap = std::min<uint32_t>(info.max_register_count, 255);
  s.launch_count_ = std::min(cap, launchable_register_count(code.arch->sm, shape));
  s.free_count_ = std::min(cap, free_register_count(code.arch->sm, shape, info.register_count, info.shared_bytes));
  constexpr uint32_t prologue = 8 + reserved_registers;   // R0..R7
  if (s.count_ < prologue) {
    if (s.launch_count_ < prologue)
      return unsupported("kernel {} can not hold the {} registers of the prologue", code.kernel, prologue);
    s.count_ = prologue;
    s.free_count_ = std::max(s.free_count_, s.count_);
  }
  return s;
}

Result<Quad> Scratch::quad(InstIndex from, InstIndex to, std::optional<Quad> previous) {
  const auto scoreboard_for = [&](uint8_t reg) {
    if (previous && previous->reg == reg) return previous->scoreboard;
    return previous && previous->scoreboard == scoreboard_[0] ? scoreboard_[1] : scoreboard_[0];
  };
  const auto take_above = [&](uint32_t limit) -> std::optional<Quad> {
    // Quads that lie between the kernel's own registers and `limit`; alternate between the first two.
    std::vector<uint32_t> found;
    const uint32_t own = own_count_ > reserved_registers ? own_count_ - reserved_registers : 0;
    for (uint32_t r = static_cast<uint32_t>(align_up(own, 4)); r + 4 + reserved_registers <= limit && found.size() < 2;
         r += 4)
      found.push_back(r);
    if (found.empty()) return std::nullopt;
    uint32_t reg = found[0];
    if (previous && previous->reg == reg && found.size() > 1) reg = found[1];
    count_ = std::max(count_, reg + 4 + reserved_registers);
    fresh_used_ = std::max(fresh_used_, reg + 4 - own);
    // A fresh quad keeps its own scoreboard, so that "written again" always waits on the same one.
    return Quad{static_cast<uint8_t>(reg), scoreboard_[reg == found[0] ? 0 : 1], true};
  };
  if (auto q = take_above(free_count_)) return *q;

  const uint32_t own = own_count_ > reserved_registers ? own_count_ - reserved_registers : 0;
  sass::RegSet writable = liveness_->writable_before(from, own);
  for (InstIndex i = from + 1; i <= to; ++i) writable &= liveness_->writable_before(i, own);
  std::optional<uint8_t> best;
  for (uint32_t r = 0; r + 4 <= own; r += 4) {
    if (!(writable.test(r) && writable.test(r + 1) && writable.test(r + 2) && writable.test(r + 3))) continue;
    if (best && previous && previous->reg != *best) break;
    best = static_cast<uint8_t>(r);
    if (!previous || previous->reg != r) break;
  }
  if (best) {
    borrowed_ = true;
    return Quad{*best, scoreboard_for(*best), false};
  }
  if (auto q = take_above(launch_count_)) return *q;
  return unsupported("no four aligned registers are free at {}, and the launch can not hold more than {} a thread",
                     where(*code_, from), launch_count_);
}

Result<sass::enc::Pred> Scratch::predicate(InstIndex i) const {
  const sass::PredSet free = liveness_->writable_predicates_before(i);
  for (uint8_t p = 7; p-- > 0;)
    if (free >> p & 1) return sass::enc::Pred{p};
  return unsupported("no predicate register is free at {}", where(*code_, i));
}

uint8_t Scratch::scoreboards() const { return static_cast<uint8_t>(1u << scoreboard_[0] | 1u << scoreboard_[1]); }

}  // namespace xtrace::instrument
