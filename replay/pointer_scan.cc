#include "replay/pointer_scan.h"

#include <algorithm>

#include "replay/address_plan.h"

namespace xtrace::replay {

std::vector<std::optional<PointerHit>> pointers_to_variables(const LaunchImage& launch) {
  const std::vector<bundle::Region>& regions = launch.record.regions;
  std::vector<std::optional<PointerHit>> hits(regions.size());
  std::vector<size_t> variables;
  for (size_t i = 0; i < regions.size(); ++i)
    if (!is_placed(regions[i].kind) && regions[i].size > 0) variables.push_back(i);
  if (variables.empty()) return hits;
  std::sort(variables.begin(), variables.end(),
            [&](size_t a, size_t b) { return regions[a].address < regions[b].address; });
  uint64_t low = UINT64_MAX, high = 0;
  for (size_t i : variables) {
    low = std::min(low, regions[i].address.value);
    high = std::max(high, regions[i].address.value + regions[i].size);
  }

  const auto scan = [&](ByteView bytes, uint64_t first, std::optional<size_t> where) {
    for (uint64_t at = first; at + 8 <= bytes.size(); at += 8) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + at, 8);
      if (word < low || word >= high) continue;
      auto it = std::upper_bound(variables.begin(), variables.end(), word,
                                 [&](uint64_t w, size_t i) { return w < regions[i].address.value; });
      if (it == variables.begin()) continue;
      const size_t target = *std::prev(it);
      if (word - regions[target].address.value < regions[target].size && !hits[target])
        hits[target] = PointerHit{where, at, word};
    }
  };
  scan(launch.record.param_block, 0, std::nullopt);
  for (const std::vector<Bytes>* contents : {&launch.before, &launch.after})
    for (size_t i = 0; i < contents->size(); ++i) scan((*contents)[i], (8 - regions[i].address.value % 8) % 8, i);
  return hits;
}

}  // namespace xtrace::replay
