#include "trace/implied_blocks.h"

#include <algorithm>

#include "base/check.h"

namespace xtrace::trace {
namespace {

using Ways = ImpliedBlocks::Ways;

bool is_step(const wire::Block& b) { return b.implied && !b.gathered; }

// On a way that has led up to `step`.
void enter(const wire::AddressMap& map, uint32_t block, uint32_t step, Ways& ways) {
  if (block >= map.blocks.size()) return;
  if (!is_step(map.blocks[block])) {
    ways.last_to.emplace(ImpliedBlocks::end_at(block, false), step);
    return;
  }
  XT_CHECK(std::none_of(ways.steps.begin(), ways.steps.end(), [&](const ImpliedBlocks::Step& known) { return known.block == block; }),
           "one way to each implied block");
  ways.steps.push_back({block, step});
  const auto here = static_cast<uint32_t>(ways.steps.size() - 1);
  if (map.blocks[block].exits) ways.last_to.emplace(ImpliedBlocks::none, here);
  for (uint32_t s : map.blocks[block].successors)
    if (!map.blocks[block].loop) enter(map, s, here, ways);
    else if (s != block) ways.last_to.emplace(ImpliedBlocks::end_at(s, true), here);
}

}  // namespace

ImpliedBlocks::ImpliedBlocks(const wire::AddressMap& map) : ways_(map.blocks.size()) {
  for (uint32_t b = 0; b < map.blocks.size(); ++b) {
    const wire::Block& block = map.blocks[b];
    if (is_step(block)) continue;
    any_ |= block.implied;
    if (block.exits) ways_[b].last_to[none] = none;
    for (uint32_t s : block.successors) {
      Ways& ways = block.returns && !block.implied ? returning_[{b, s}] : ways_[b];
      enter(map, s, none, ways);
      if (block.returns && !block.implied) finish(map, ways);
    }
    finish(map, ways_[b]);
  }
}

void ImpliedBlocks::finish(const wire::AddressMap& map, Ways& ways) {
  for (const auto& [to, last] : ways.last_to)
    if (to != none && map.blocks[to / 2].gathered) ways.gathered.push_back(to / 2);
  any_ |= !ways.steps.empty();
}

const ImpliedBlocks::Ways& ImpliedBlocks::behind(uint32_t block, uint32_t returns_to) const {
  const auto found = returning_.find({block, returns_to});
  return found == returning_.end() ? ways_[block] : found->second;
}

bool ImpliedBlocks::leads(uint32_t block, End next) const {
  const Ways& ways = ways_[block];
  return ways.last_to.contains(next) ||
         std::any_of(ways.gathered.begin(), ways.gathered.end(), [&](uint32_t g) { return g != block && leads(g, next); });
}

uint32_t ImpliedBlocks::loop_on_the_way(uint32_t block, uint32_t next) const {
  const uint32_t step = ways_[block].to(end_at(next, true));
  return step == none ? none : ways_[block].steps[step].block;
}

}  // namespace xtrace::trace
