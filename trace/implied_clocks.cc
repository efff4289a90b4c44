#include "trace/implied_clocks.h"

#include <algorithm>

namespace xtrace::trace {
namespace {

uint64_t stall(const wire::Block& block, size_t i) { return std::max<uint64_t>(1, block.clock_at[i].stall); }

// Between the clocks `a` and `b`, which were read.
void place_between(const wire::Block& block, size_t a, size_t b, std::span<uint64_t> clocks) {
  if (b == a + 1) return;
  uint64_t least = 0;   // from a to b
  size_t first_wait = b;
  for (size_t i = a; i < b; ++i) {
    least += stall(block, i);
    if (first_wait == b && block.clock_at[i].waits) first_wait = i;
  }
  const uint64_t passed = clocks[b] > clocks[a] ? clocks[b] - clocks[a] : 0;
  uint64_t before = 0;   // stall cycles from a to i
  for (size_t i = a + 1; i < b; ++i) {
    before += stall(block, i - 1);
    uint64_t at = before;
    if (first_wait == b)
      at = passed * before / least;
    else if (i > first_wait)
      at = std::max(before, passed - std::min(passed, least - before));
    clocks[i] = clocks[a] + std::min(at, passed);
  }
}

}  // namespace

void place_clocks(const wire::Block& block, std::span<uint64_t> clocks) {
  size_t last = clocks.size();   // the last one read so far
  for (size_t i = 0; i < clocks.size(); ++i) {
    if (!block.has_clock(i)) continue;
    if (last != clocks.size()) {
      place_between(block, last, i, clocks);
    } else {
      for (size_t k = i; k-- > 0;) clocks[k] = clocks[k + 1] - stall(block, k);
    }
    last = i;
  }
  if (last == clocks.size()) return;
  for (size_t k = last + 1; k < clocks.size(); ++k) clocks[k] = clocks[k - 1] + stall(block, k - 1);
}

void place_clocks(const wire::Block& block, uint64_t from, uint64_t next, std::span<uint64_t> clocks) {
  uint64_t least = 0;
  for (size_t k = 0; k < clocks.size(); ++k) least += stall(block, k);
  uint64_t at = std::max(from, next - std::min(next, least));
  for (size_t k = 0; k < clocks.size(); ++k) {
    clocks[k] = std::min(at, std::max(from, next));
    at += stall(block, k);
  }
}

}  // namespace xtrace::trace
