#include "trace/implied_blocks.h"

#include <algorithm>

#include "base/check.h"

namespace xtrace::trace {
namespace {

using Ways = ImpliedBlocks::Ways;

constexpr size_t most_steps = 4096;   // behind one record

bool is_step(const wire::Block& b) { return b.implied && !b.gathered; }

// Where lanes come out of blocks of loops that wait for others and leave no records, of which this is one.
std::vector<uint32_t> ways_out(const wire::AddressMap& map, uint32_t block) {
  std::vector<uint32_t> inside{block}, out;
  for (size_t k = 0; k < inside.size(); ++k)
    for (uint32_t s : map.blocks[inside[k]].successors) {
      std::vector<uint32_t>& set = s < map.blocks.size() && map.blocks[s].unrecorded ? inside : out;
      if (std::find(set.begin(), set.end(), s) == set.end()) set.push_back(s);
    }
  return out;
}

// On a way that has led up to `step`; `number`: of the way, where it has one.
void enter(const wire::AddressMap& map, uint32_t block, uint32_t step, uint32_t number, Ways& ways) {
  if (block >= map.blocks.size()) return;
  const wire::Block& b = map.blocks[block];
  if (b.unrecorded && !b.other_part) {
    for (uint32_t s : ways_out(map, block)) enter(map, s, step, number, ways);
    return;
  }
  const auto ends = [&](ImpliedBlocks::End end, uint32_t last) {
    const bool alone = ways.last_to.emplace(end, last).second;
    XT_CHECK(alone || end.number == 0, "a number of its own for each way");
  };
  if (!is_step(b)) return ends({block, number}, step);
  XT_CHECK(b.numbered || std::none_of(ways.steps.begin(), ways.steps.end(), [&](const ImpliedBlocks::Step& known) { return known.block == block; }),
           "one way to each implied block");
  XT_CHECK(ways.steps.size() < most_steps, "ways without end");
  ways.steps.push_back({block, step});
  const auto here = static_cast<uint32_t>(ways.steps.size() - 1);
  if (b.numbered) number = b.way_number != 0 ? b.way_number : number + b.way_adds;
  if (b.exits) ends({ImpliedBlocks::none, number}, here);
  for (uint32_t s : b.successors)
    if (!b.loop) enter(map, s, here, number, ways);
    else if (s != block) ends(ImpliedBlocks::end_at(s, true), here);
}

}  // namespace

ImpliedBlocks::ImpliedBlocks(const wire::AddressMap& map) : ways_(map.blocks.size()) {
  for (uint32_t b = 0; b < map.blocks.size(); ++b) {
    const wire::Block& block = map.blocks[b];
    if (is_step(block)) continue;
    any_ |= block.implied;
    if (block.exits) ways_[b].last_to[End{}] = none;
    for (uint32_t s : block.successors) {
      Ways& ways = block.returns && !block.implied ? returning_[{b, s}] : ways_[b];
      enter(map, s, none, s < map.blocks.size() && map.blocks[s].numbered ? block.way_number : 0, ways);
      if (block.returns && !block.implied) finish(map, ways);
    }
    finish(map, ways_[b]);
  }
}

void ImpliedBlocks::finish(const wire::AddressMap& map, Ways& ways) {
  for (const auto& [to, last] : ways.last_to)
    if (to.block != none && map.blocks[to.block].gathered) ways.gathered.push_back(to.block);
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
