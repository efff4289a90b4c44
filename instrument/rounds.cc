#include "instrument/rounds.h"

#include <algorithm>

#include "base/check.h"
#include "instrument/clocks.h"
#include "instrument/implied.h"
#include "instrument/waiting.h"

namespace xtrace::instrument {
namespace {

bool leads_to(const Blocks& blocks, uint32_t from, uint32_t to) {
  const std::vector<uint32_t>& next = blocks.successors[from];
  return std::find(next.begin(), next.end(), to) != next.end();
}

// Nor does anything in it go through a queue, which rounds without end would fill.
bool computes_alone(const Code& code, const ProbeBlock& block) {
  bool alone = takes_fixed_time(code, block);
  for (InstIndex i = block.first; i <= block.last(); ++i) alone = alone && pace_of(code.insts[i]) != Pace::queued;
  return alone;
}

}  // namespace

std::vector<bool> countable_loops(const Code& code, const Blocks& blocks, const std::vector<uint64_t>& executions, const std::vector<bool>& full) {
  const auto n = static_cast<uint32_t>(blocks.blocks.size());
  const std::vector<bool> waiting = waiting_blocks(code, blocks);
  std::vector<bool> loops(n, false);
  for (uint32_t b = 1; b < n; ++b) {
    const sass::Effects& last = code.insts[blocks.blocks[b].last()].fx;
    if (blocks.successors[b].size() != 2 || !leads_to(blocks, b, b) || waiting[b]) continue;
    if (last.flow != sass::Flow::branch || !last.falls_through || !computes_alone(code, blocks.blocks[b])) continue;
    const uint32_t behind = behind_loop(blocks, b);
    if (leads_to(blocks, behind, behind)) continue;
    const bool whole = full.size() == n && full[b] && full[behind];
    if (!whole && code.insts[blocks.blocks[behind].first].fx.mnemonic != "BSYNC") continue;
    loops[b] = executions.size() != n || executions[b] > (whole ? 1 : 2) * executions[behind];
  }
  return loops;
}

uint32_t behind_loop(const Blocks& blocks, uint32_t loop) {
  const std::vector<uint32_t>& next = blocks.successors[loop];
  XT_CHECK(next.size() == 2, "a loop of one block leads to itself and to one other");
  return next[0] == loop ? next[1] : next[0];
}

std::vector<bool> blocks_before_loops(const Blocks& blocks, const std::vector<bool>& loops) {
  const size_t n = blocks.blocks.size();
  std::vector<bool> counted(n, false);   // the count is used there
  for (uint32_t b = 0; b < n; ++b)
    if (loops[b]) counted[b] = counted[behind_loop(blocks, b)] = true;
  std::vector<bool> before(n, false), entered(n, false), only_from_before(n, true);
  for (uint32_t b = 0; b < n; ++b)
    for (uint32_t s : blocks.successors[b]) before[b] = before[b] || (counted[s] && !loops[b]);
  for (uint32_t b = 0; b < n; ++b)
    for (uint32_t s : blocks.successors[b]) {
      entered[s] = true;
      only_from_before[s] = only_from_before[s] && before[b];
    }
  // Whoever comes there has it at 0. The entry is entered by nobody.
  for (uint32_t b = 1; b < n; ++b)
    if (entered[b] && only_from_before[b]) before[b] = false;
  return before;
}

}  // namespace xtrace::instrument
