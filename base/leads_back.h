// Loops in a graph of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xtrace {

// Does some way lead from there back to it? `next(b)`: a pointer to the blocks behind b; null: it may lead anywhere.
template <typename Next>
bool leads_back(size_t blocks, uint32_t block, const Next& next) {
  std::vector<bool> seen(blocks, false);
  std::vector<uint32_t> open{block};
  for (bool first = true; !open.empty(); first = false) {
    const uint32_t b = open.back();
    open.pop_back();
    if (b == block && !first) return true;
    if (seen[b]) continue;
    seen[b] = true;
    const std::vector<uint32_t>* behind = next(b);
    if (behind == nullptr) return true;
    open.insert(open.end(), behind->begin(), behind->end());
  }
  return false;
}

}  // namespace xtrace
