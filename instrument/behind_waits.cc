#include "instrument/behind_waits.h"

#include <algorithm>

#include "instrument/implied.h"

namespace xtrace::instrument {

Blocks past_unrecorded(const Blocks& blocks, const std::vector<bool>& unrecorded) {
  Blocks seen = blocks;
  for (uint32_t b = 0; b < blocks.blocks.size(); ++b) {
    std::vector<uint32_t>& next = seen.successors[b];
    next.clear();
    if (unrecorded[b]) continue;
    std::vector<bool> reached(blocks.blocks.size(), false);
    std::vector<uint32_t> open{b};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      for (uint32_t s : blocks.successors[at]) {
        if (reached[s]) continue;
        reached[s] = true;
        if (unrecorded[s]) open.push_back(s);
        else next.push_back(s);
      }
    }
    std::sort(next.begin(), next.end());
  }
  return seen;
}

std::vector<bool> blocks_behind_waits(const Code& code, const Blocks& blocks, const std::vector<bool>& unrecorded, const std::vector<bool>& full) {
  const auto n = static_cast<uint32_t>(blocks.blocks.size());
  std::vector<bool> behind(n, false);
  for (uint32_t p = 0; p < n; ++p)
    for (uint32_t s : blocks.successors[p]) behind[s] = behind[s] || unrecorded[p];
  for (uint32_t b = 0; b < n; ++b) {
    const bool waits_next = std::any_of(blocks.successors[b].begin(), blocks.successors[b].end(), [&](uint32_t s) { return unrecorded[s]; });
    behind[b] = b != 0 && behind[b] && !unrecorded[b] && !waits_next && full[b] && takes_fixed_time(code, blocks.blocks[b]) &&
                !blocks.returns[b] && blocks.behind_call[b] == Blocks::none;
  }
  return behind;
}

bool told_by_next_record(const Code& code, const Blocks& seen, const std::vector<bool>& implied, const std::vector<bool>& full,
                         const std::vector<uint64_t>& executions, uint32_t block) {
  if (executions.size() != seen.blocks.size()) return false;
  for (uint32_t b = block;;) {
    const sass::Effects& last = code.insts[seen.blocks[b].last()].fx;
    if (seen.successors[b].size() != 1 || (last.flow == sass::Flow::next && last.may_switch_path)) return false;
    const uint32_t next = seen.successors[b][0];
    if (next == block || !full[next] || executions[next] < executions[b]) return false;
    if (!implied[next]) return true;
    if (executions[next] != executions[b]) return false;
    b = next;
  }
}

}  // namespace xtrace::instrument
