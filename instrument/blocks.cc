#include "instrument/blocks.h"

#include <algorithm>

#include "base/leads_back.h"
#include "instrument/collective.h"

namespace xtrace::instrument {
namespace {

using sass::Effects;
using sass::Flow;

bool ends_block(const Effects& fx) { return fx.flow != Flow::next || fx.may_switch_path || !fx.falls_through; }

std::vector<bool> find_leaders(const Code& code) {
  std::vector<bool> leader(code.insts.size() + 1, false);
  for (const Function& f : code.functions) leader[f.entry] = true;
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    if (!code.reachable[i]) continue;
    const Effects& fx = code.insts[i].fx;
    if (fx.target) leader[code.index(static_cast<uint32_t>(*fx.target))] = true;
    if (ends_block(fx)) leader[i + 1] = true;
  }
  for (const JumpTable& t : code.jump_tables)
    for (InstIndex target : t.targets) leader[target] = true;
  return leader;
}

// A block can be executed twice by one warp exactly when the block graph has a cycle. Depth-first search, iterative.
bool has_cycle(const std::vector<std::vector<uint32_t>>& successors) {
  enum : uint8_t { fresh, open, done };
  std::vector<uint8_t> state(successors.size(), fresh);
  std::vector<std::pair<uint32_t, size_t>> stack;
  for (uint32_t root = 0; root < successors.size(); ++root) {
    if (state[root] != fresh) continue;
    stack.push_back({root, 0});
    state[root] = open;
    while (!stack.empty()) {
      auto& [b, next] = stack.back();
      if (next == successors[b].size()) {
        state[b] = done;
        stack.pop_back();
        continue;
      }
      const uint32_t s = successors[b][next++];
      if (state[s] == open) return true;
      if (state[s] == fresh) {
        state[s] = open;
        stack.push_back({s, 0});
      }
    }
  }
  return false;
}

// Calls and returns, where all lanes of a block make them.
void find_calls(const Code& code, Blocks& out) {
  out.behind_call.assign(out.blocks.size(), Blocks::none);
  out.returns.assign(out.blocks.size(), false);
  for (uint32_t b = 0; b < out.blocks.size(); ++b) {
    const Effects& fx = code.insts[out.blocks[b].last()].fx;
    const bool calls = fx.flow == Flow::call_relative, returns = fx.flow == Flow::ret;
    if ((calls || returns) && fx.guarded) {
      out.behind_call.assign(out.blocks.size(), Blocks::none);
      out.returns.assign(out.blocks.size(), false);
      return;
    }
    const InstIndex behind = out.blocks[b].last() + 1;
    if (calls && behind < out.block_of.size()) out.behind_call[b] = out.block_of[behind];
    out.returns[b] = returns;
  }
}

// Where lanes of several WARPSYNC.COLLECTIVE may go on.
void add_collectives(const Code& code, Blocks& blocks) {
  const std::vector<Collective> collectives = find_collectives(code);
  const auto add = [&](InstIndex from, InstIndex to) {
    std::vector<uint32_t>& next = blocks.successors[blocks.block_of[from]];
    const uint32_t b = blocks.block_of[to];
    if (const auto at = std::lower_bound(next.begin(), next.end(), b); at == next.end() || *at != b) next.insert(at, b);
  };
  for (const Collective& one : collectives)
    for (const Collective& other : collectives) {
      add(one.at, other.at + 1);
      for (InstIndex end = other.at + 1; end < other.target; ++end)
        if (code.insts[end].fx.mnemonic == "ENDCOLLECTIVE") add(end, one.target);
    }
}

}  // namespace

Blocks find_blocks(const Code& code) {
  Blocks out;
  out.block_of.assign(code.insts.size(), Blocks::none);
  const std::vector<bool> leader = find_leaders(code);
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    if (!code.reachable[i]) continue;
    const bool starts = leader[i] || i == 0 || !code.reachable[i - 1] || out.blocks.empty() ||
                        out.blocks.back().count == max_block_instructions;
    if (starts) out.blocks.push_back({i, 0, static_cast<uint32_t>(out.blocks.size())});
    ++out.blocks.back().count;
    out.block_of[i] = static_cast<uint32_t>(out.blocks.size() - 1);
  }
  out.successors.resize(out.blocks.size());
  for (uint32_t b = 0; b < out.blocks.size(); ++b) {
    for (InstIndex s : code.successors(out.blocks[b].last())) out.successors[b].push_back(out.block_of[s]);
    std::sort(out.successors[b].begin(), out.successors[b].end());
    out.successors[b].erase(std::unique(out.successors[b].begin(), out.successors[b].end()), out.successors[b].end());
  }
  add_collectives(code, out);
  out.cyclic = has_cycle(out.successors);
  find_calls(code, out);
  constexpr uint32_t deepest = 8 * 8 * 8 * 8;
  out.loop_weight.assign(out.blocks.size(), 1);
  for (uint32_t b = 0; b < out.blocks.size(); ++b)
    for (uint32_t s : out.successors[b])
      if (s <= b && code.insts[out.blocks[b].last()].fx.flow == Flow::branch)
        for (uint32_t inside = s; inside <= b; ++inside)
          out.loop_weight[inside] = std::min(deepest, out.loop_weight[inside] * 8);
  return out;
}

std::vector<bool> whole_instructions(const Blocks& blocks, const std::vector<bool>& full_blocks) {
  std::vector<bool> whole;
  if (full_blocks.empty()) return whole;
  for (uint32_t b : blocks.block_of) whole.push_back(b != Blocks::none && full_blocks[b]);
  return whole;
}

bool Blocks::may_repeat(uint32_t block) const {
  return leads_back(blocks.size(), block, [&](uint32_t b) { return &successors[b]; });
}

bool Blocks::runs_once(uint32_t block) const {
  if (blocks[block].first != 0) return false;
  for (const auto& next : successors)
    if (std::find(next.begin(), next.end(), block) != next.end()) return false;
  return true;
}

}  // namespace xtrace::instrument
