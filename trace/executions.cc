#include "trace/executions.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "trace/implied_clocks.h"

namespace xtrace::trace {

void Executions::emit(const Execution& e) {
  last_clock_ = e.last;
  const uint32_t n = map_.blocks[e.block].clocks;
  if (n == 0) {
    put({{wire::word0(wire::RecordKind::block, e.block), e.mask, static_cast<uint32_t>(e.clock),
          static_cast<uint32_t>(e.clock >> 32)}});
    return;
  }
  wire::Chunk c{{wire::word0(wire::RecordKind::inst, e.block), e.mask, 0, 0}};
  uint32_t filled = 2;
  for (uint32_t i = 0; i < n; ++i) {
    c.word[filled++] = static_cast<uint32_t>(clocks_[e.clocks + i]);
    if (filled < 4) continue;
    put(c);
    c = {};
    filled = 0;
  }
  if (filled != 0) put(c);
}

bool Executions::leave_loops(uint32_t block, uint32_t mask, const std::array<uint32_t, 32>& rounds, uint64_t clock) {
  std::map<Origin, Leaving> leavings;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) == 0 || rounds[lane] == 0) continue;
    const size_t from = latest_[lane];
    if (from == nowhere) return false;
    const Execution& before = executions_[from];
    const uint32_t loop = implied_.loop_on_the_way(before.block, block);
    // A warp issues one instruction a cycle at most.
    if (loop == ImpliedBlocks::none || clock < before.clock || uint64_t{rounds[lane]} * map_.blocks[loop].instructions > clock - before.clock)
      return false;
    const Origin origin{from, loop};
    Leaving& l = leavings.try_emplace(origin, Leaving{executions_.size(), origin, 0, rounds, most_rounds_[origin], 0}).first->second;
    l.mask |= 1u << lane;
    l.most = std::max(l.most, rounds[lane]);
  }
  for (const auto& [origin, l] : leavings) {
    most_rounds_[origin] = std::max(l.first, l.most);
    leavings_.push_back(l);
  }
  return true;
}

// The way ends behind the lane's last execution so far.
bool Executions::leads(uint32_t lane, ImpliedBlocks::End to) const {
  if (latest_[lane] == nowhere) return false;
  const uint32_t block = executions_[latest_[lane]].block;
  return !map_.blocks[block].returns && implied_.behind(block).last_to.contains(to);
}

bool Executions::come_by_ways(uint32_t block, uint32_t mask, const std::array<uint32_t, 32>& numbers) {
  for (uint32_t lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1) != 0 && !leads(lane, {block, numbers[lane]})) return false;
  comings_.push_back({executions_.size(), numbers});
  return true;
}

bool Executions::end_on_ways(const std::array<uint32_t, 32>& numbers) {
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (numbers[lane] != 0 && !leads(lane, {ImpliedBlocks::none, numbers[lane]})) return false;
  ended_ = numbers;
  return true;
}

// From back to front, what each lane does next.
void Executions::finish() {
  std::vector<Execution> all;   // last first
  NextEnds next;
  for (size_t lane = 0; lane < next.size(); ++lane) next[lane] = {ImpliedBlocks::none, ended_[lane]};
  std::vector<LaneCalls::Targets> targets;   // of executions that return, in order
  if (implied_.returning()) {
    LaneCalls calls(map_, implied_);
    size_t leaving = 0;
    for (size_t k = 0; k < executions_.size(); ++k) {
      const Execution& e = executions_[k];
      uint32_t by_loop = 0;
      for (; leaving < leavings_.size() && leavings_[leaving].execution == k; ++leaving) by_loop |= leavings_[leaving].mask;
      const LaneCalls::Targets& of_lanes = calls.next(e.block, e.mask, by_loop);
      if (map_.blocks[e.block].returns) targets.push_back(of_lanes);
    }
  }
  std::map<Origin, std::vector<Leaving>> later;   // leavings of those who came to a loop together
  for (; !executions_.empty(); executions_.pop_back()) {
    const Execution& e = executions_.back();
    if (map_.blocks[e.block].returns && !targets.empty()) {
      behind_return(e, targets.back(), next, all);
      targets.pop_back();
    } else {
      behind(e, implied_.behind(e.block), next, all);
    }
    all.push_back(e);
    for (uint32_t lane = 0; lane < 32; ++lane)
      if (e.mask >> lane & 1) next[lane] = ImpliedBlocks::end_at(e.block, false);
    if (!comings_.empty() && comings_.back().execution == executions_.size() - 1) {
      for (uint32_t lane = 0; lane < 32; ++lane)
        if (e.mask >> lane & 1) next[lane].number = comings_.back().numbers[lane];
      comings_.pop_back();
    }
    const auto leaves = [&](size_t back) { return leavings_.size() > back && leavings_[leavings_.size() - 1 - back].execution == executions_.size() - 1; };
    for (size_t k = 0; leaves(k); ++k)
      for (uint32_t left = leavings_[leavings_.size() - 1 - k].mask; left != 0; left &= left - 1)
        next[static_cast<size_t>(std::countr_zero(left))] = ImpliedBlocks::end_at(e.block, true);
    for (; leaves(0); leavings_.pop_back()) {
      std::vector<Leaving>& together = later[leavings_.back().origin];
      together.push_back(leavings_.back());
      put_rounds(together, next, all);
    }
  }
  for (; !all.empty(); all.pop_back()) emit(all.back());
}

void Executions::behind(const Execution& e, const ImpliedBlocks::Ways& ways, NextEnds& next, std::vector<Execution>& all) {
  gather(e, ways, next, all);
  if (!ways.steps.empty()) through(e, ways, next, all);
}

// Lanes that return to different places, that with the lowest block number first.
void Executions::behind_return(const Execution& e, const LaneCalls::Targets& targets, NextEnds& next, std::vector<Execution>& all) {
  std::map<uint32_t, uint32_t, std::greater<>> lanes;
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (e.mask >> lane & 1) lanes[targets[lane]] |= 1u << lane;
  for (const auto& [target, mask] : lanes) {
    Execution part = e;
    part.mask = mask;
    behind(part, implied_.behind(e.block, target), next, all);
  }
}

// The rounds in front of the leaving that is the last of `leavings` and the first of them in time, last first. They are spread evenly
// over the time since the execution before, and the blocks behind that one, could end.
void Executions::put_rounds(const std::vector<Leaving>& leavings, const NextEnds& next, std::vector<Execution>& all) {
  const Leaving& leaving = leavings.back();
  if (leaving.most <= leaving.first) return;
  const Execution& before = executions_[leaving.execution - 1];
  const uint64_t end = all.back().clock, begin = std::min(end, end_of(before) + lanes_behind(before, implied_.behind(before.block), next).cycles), n = leaving.most - leaving.first;
  std::array<uint32_t, 32> rounds{};   // by lane, of those that are still there
  for (const Leaving& l : leavings)
    for (uint32_t left = l.mask; left != 0; left &= left - 1) {
      const auto lane = static_cast<size_t>(std::countr_zero(left));
      rounds[lane] = l.rounds[lane];
    }
  for (uint64_t k = n; k-- > 0;) {
    uint32_t mask = 0;
    for (uint32_t lane = 0; lane < 32; ++lane) mask |= static_cast<uint32_t>(rounds[lane] > leaving.first + k) << lane;
    const uint64_t clock = begin + (end - begin) * k / n;
    all.push_back({leaving.origin.second, mask, clock, clock});
  }
}

// Where lanes of `e` came to their next record through a gathered block, that block's execution, and what lies behind it: by all lanes,
// as none of them has had a record since.
void Executions::gather(const Execution& e, const ImpliedBlocks::Ways& ways, NextEnds& next, std::vector<Execution>& all) {
  for (uint32_t g : ways.gathered) {
    bool through_it = false;
    for (uint32_t lane = 0; lane < 32; ++lane)
      through_it |= (e.mask >> lane & 1) != 0 && !ways.last_to.contains(next[lane]) && implied_.leads(g, next[lane]);
    if (!through_it) continue;
    const ImpliedBlocks::Ways& behind = implied_.behind(g);
    const wire::Block& block = map_.blocks[g];
    uint64_t earliest = e.last;
    if (all.empty()) {
      earliest = end_of(e);
      for (uint32_t s = ways.to(ImpliedBlocks::end_at(g, false)); s != ImpliedBlocks::none; s = ways.steps[s].before) earliest += map_.blocks[ways.steps[s].block].least_cycles;
    }
    Execution together{g, all_lanes_, earliest, earliest, clocks_.size()};
    clocks_.resize(clocks_.size() + block.clocks);
    gather(together, behind, next, all);
    through(together, behind, next, all);
    const uint64_t clock = all.empty() ? earliest + block.least_cycles : all.back().clock;
    together.clock = together.last = std::max(earliest, clock - std::min<uint64_t>(clock, block.least_cycles));
    if (block.clocks != 0) {
      place_clocks(block, earliest, clock, clocks_of(together));
      together.clock = clocks_of(together).front();
      together.last = clocks_of(together).back();
    }
    all.push_back(together);
    next.fill(ImpliedBlocks::end_at(g, false));
  }
}

Executions::Behind Executions::lanes_behind(const Execution& e, const ImpliedBlocks::Ways& ways, const NextEnds& next) const {
  std::vector<uint32_t> lanes(ways.steps.size(), 0);
  uint64_t cycles = 0;
  for (uint32_t left = e.mask; left != 0;) {
    const ImpliedBlocks::End to = next[static_cast<size_t>(std::countr_zero(left))];
    uint32_t together = 0;
    for (uint32_t lane = 0; lane < 32; ++lane)
      if (left >> lane & 1 && next[lane] == to) together |= 1u << lane;
    left &= ~together;
    for (uint32_t s = ways.to(to); s != ImpliedBlocks::none; s = ways.steps[s].before)
      if (!map_.blocks[ways.steps[s].block].loop) lanes[s] |= together;
  }
  for (size_t s = 0; s < lanes.size(); ++s)
    if (lanes[s] != 0) cycles += map_.blocks[ways.steps[s].block].least_cycles;
  return {std::move(lanes), cycles};
}

// The executions behind `e`, last first. They begin as late as the warp's next clock allows by the stall counts; where there is
// none, as early as the clock before allows. Where lanes have numbered their ways they may be many: then all are stretched alike to fill the time.
void Executions::through(const Execution& e, const ImpliedBlocks::Ways& ways, const NextEnds& next, std::vector<Execution>& all) {
  const auto [lanes, cycles] = lanes_behind(e, ways, next);
  uint64_t clock = all.empty() ? end_of(e) + cycles : all.back().clock;
  bool numbered = false;
  for (size_t s = 0; s < lanes.size(); ++s) numbered |= lanes[s] != 0 && map_.blocks[ways.steps[s].block].numbered;
  const uint64_t end = clock, begin = std::max(e.last, std::min(end_of(e), end)), time = end > begin ? end - begin : 0;
  const auto stretched = [&](uint64_t left) { return begin + time - (cycles == 0 ? 0 : time * left / cycles); };
  uint64_t rest = 0;   // stall cycles of what lies in front of `end`
  for (size_t s = lanes.size(); s-- > 0;) {
    if (lanes[s] == 0) continue;
    const uint32_t block = ways.steps[s].block;
    const uint64_t behind = clock;
    rest += map_.blocks[block].least_cycles;
    clock = std::max(e.last, numbered ? stretched(rest) : clock - std::min<uint64_t>(clock, map_.blocks[block].least_cycles));
    all.push_back({block, lanes[s], clock, clock, clocks_.size()});
    if (map_.blocks[block].clocks == 0) continue;
    clocks_.resize(clocks_.size() + map_.blocks[block].clocks);
    place_clocks(map_.blocks[block], e.last, behind, clocks_of(all.back()));
    all.back().last = clocks_.back();
  }
}

// When what follows issues, at the earliest.
uint64_t Executions::end_of(const Execution& e) const {
  const wire::Block& block = map_.blocks[e.block];
  if (block.clocks == 0) return e.clock + block.least_cycles;
  return e.last + (block.clock_at.empty() ? 1 : block.clock_at.back().stall);
}

}  // namespace xtrace::trace
