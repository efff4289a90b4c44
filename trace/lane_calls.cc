#include "trace/lane_calls.h"

#include <bit>

namespace xtrace::trace {

LaneCalls::LaneCalls(const wire::AddressMap& map, const ImpliedBlocks& implied) : map_(map), implied_(implied) {
  at_.fill(ImpliedBlocks::none);
  target_.fill(ImpliedBlocks::none);
}

const LaneCalls::Targets& LaneCalls::next(uint32_t block, uint32_t mask, uint32_t by_loop) {
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    if (at_[lane] != ImpliedBlocks::none) go(at_[lane], target_[lane], ImpliedBlocks::end_at(block, (by_loop >> lane & 1) != 0), pending_[lane]);
    at_[lane] = block;
    target_[lane] = through(block, pending_[lane]);
  }
  return target_;
}

uint32_t LaneCalls::through(uint32_t block, Pending& pending) const {
  uint32_t target = ImpliedBlocks::none;
  const wire::Block& b = map_.blocks[block];
  if (b.returns && !pending.empty()) {
    target = pending.back();
    pending.pop_back();
  }
  if (b.behind_call != wire::Block::none) pending.push_back(b.behind_call);
  return target;
}

// From a record to the lane's next one, through blocks without records.
void LaneCalls::go(uint32_t from, uint32_t target, ImpliedBlocks::End to, Pending& pending) const {
  const ImpliedBlocks::Ways& ways = implied_.behind(from, target);
  const auto along = [&](ImpliedBlocks::End end) {
    std::vector<uint32_t> steps;
    for (uint32_t s = ways.to(end); s != ImpliedBlocks::none; s = ways.steps[s].before) steps.push_back(ways.steps[s].block);
    for (; !steps.empty(); steps.pop_back()) through(steps.back(), pending);
  };
  if (ways.last_to.contains(to)) return along(to);
  for (uint32_t g : ways.gathered) {
    if (g == from || !implied_.leads(g, to)) continue;
    along(ImpliedBlocks::end_at(g, false));
    through(g, pending);
    return go(g, ImpliedBlocks::none, to, pending);
  }
}

}  // namespace xtrace::trace
