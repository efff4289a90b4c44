#include "instrument/implied.h"

#include <algorithm>
#include <numeric>

namespace xtrace::instrument {
namespace {

constexpr uint32_t most_instructions = 2;

bool contains(const std::vector<uint32_t>& set, uint32_t b) { return std::find(set.begin(), set.end(), b) != set.end(); }

// Lanes leave a BSYNC for where their BSSY said: the next instruction, if that is where all BSSY point.
bool falls_through_bsync(const Code& code) {
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    const sass::Effects& fx = code.insts[i].fx;
    if (!code.reachable[i] || !fx.is_bssy_target) continue;
    const InstIndex target = code.index(static_cast<uint32_t>(*fx.target));
    if (target == 0 || code.insts[target - 1].fx.mnemonic != "BSYNC") return false;
  }
  return true;
}

bool passes_on(const Code& code, const ProbeBlock& block, bool bsync_falls_through) {
  if (block.count > most_instructions) return false;
  for (InstIndex i = block.first; i <= block.last(); ++i) {
    const sass::Effects& fx = code.insts[i].fx;
    const bool always = !fx.guarded && fx.use.pred == 0;
    if (code.insts[i].asserts) return false;
    if (sass::get_control(code.insts[i].raw).wait_mask != 0) return false;
    if (fx.mnemonic == "BSYNC" && bsync_falls_through && always) continue;
    if (fx.flow == sass::Flow::branch && !fx.falls_through) continue;
    if (fx.flow == sass::Flow::exit || (fx.flow == sass::Flow::next && fx.fixed_latency && !fx.may_switch_path)) continue;
    return false;
  }
  return true;
}

bool may_end(const Code& code, const ProbeBlock& block) {
  const sass::Flow flow = code.insts[block.last()].fx.flow;
  return flow == sass::Flow::exit || flow == sass::Flow::kill;
}

}  // namespace

std::vector<bool> implied_blocks(const Code& code, const Blocks& blocks, const std::vector<bool>& recorded,
                                 const std::vector<uint64_t>& executions) {
  const auto n = static_cast<uint32_t>(blocks.blocks.size());
  std::vector<std::vector<uint32_t>> predecessors(n);
  for (uint32_t b = 0; b < n; ++b)
    for (uint32_t s : blocks.successors[b]) predecessors[s].push_back(b);
  const bool bsync_falls_through = falls_through_bsync(code);
  std::vector<bool> implied(n, false), needed = recorded;   // needed: by an implied block
  std::vector<uint32_t> order(n - 1);
  std::iota(order.begin(), order.end(), 1u);
  if (executions.size() == n)
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return executions[a] > executions[b]; });
  for (uint32_t s : order) {
    const std::vector<uint32_t>& next = blocks.successors[s];
    if (needed[s] || !passes_on(code, blocks.blocks[s], bsync_falls_through) || next.size() > 1 || predecessors[s].empty()) continue;
    const bool ends = may_end(code, blocks.blocks[s]);
    if (next.empty() ? !ends : next[0] == s || implied[next[0]]) continue;
    const bool clear = std::all_of(predecessors[s].begin(), predecessors[s].end(), [&](uint32_t p) {
      const std::vector<uint32_t>& to = blocks.successors[p];
      // Where lanes wait for each other, those of several executions of `p` may go on as one.
      const sass::Effects& end = code.insts[blocks.blocks[p].last()].fx;
      if (end.flow == sass::Flow::next && end.may_switch_path) return false;
      return !implied[p] && (next.empty() || !contains(to, next[0])) && !(ends && may_end(code, blocks.blocks[p])) &&
             std::none_of(to.begin(), to.end(), [&](uint32_t b) {
               return implied[b] && (blocks.successors[b] == next || (ends && may_end(code, blocks.blocks[b])));
             });
    });
    if (!clear) continue;
    implied[s] = true;
    if (!next.empty()) needed[next[0]] = true;
    for (uint32_t p : predecessors[s]) needed[p] = true;
  }
  return implied;
}

}  // namespace xtrace::instrument
