#include "replay/byte_ranges.h"

namespace xtrace::replay {

uint64_t ByteRanges::bytes() const {
  uint64_t n = 0;
  for (const ByteRange& r : ranges_) n += r.end - r.begin;
  return n;
}

bool ByteRanges::contains(uint64_t position) const {
  auto it = std::upper_bound(ranges_.begin(), ranges_.end(), position,
                             [](uint64_t p, const ByteRange& r) { return p < r.begin; });
  return it != ranges_.begin() && position < std::prev(it)->end;
}

void ByteRanges::add_differences(ByteView a, ByteView b) {
  std::vector<ByteRange> merged;
  size_t old = 0;
  const auto push = [&merged](const ByteRange& r) {
    if (!merged.empty() && r.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, r.end);
    else
      merged.push_back(r);
  };
  for_each_difference(a, b, [&](const ByteRange& r) {
    while (old < ranges_.size() && ranges_[old].begin <= r.begin) push(ranges_[old++]);
    push(r);
    // A region of random differences would need more room for its ranges than for its bytes: join on the way.
    if (merged.size() >= 2 * limit_) coarsen(merged);
    return true;
  });
  while (old < ranges_.size()) push(ranges_[old++]);
  ranges_ = std::move(merged);
  if (ranges_.size() > limit_) coarsen(ranges_);
}

ByteRanges ByteRanges::elements(uint64_t unit, uint64_t size) const {
  ByteRanges extended(limit_);
  extended.coarsened_ = coarsened_;
  for (const ByteRange& r : ranges_) {
    const ByteRange e{align_down(r.begin, unit), std::min(align_up(r.end, unit), size)};
    if (!extended.ranges_.empty() && e.begin <= extended.ranges_.back().end)
      extended.ranges_.back().end = e.end;
    else
      extended.ranges_.push_back(e);
  }
  return extended;
}

void ByteRanges::coarsen(std::vector<ByteRange>& ranges) {
  for (uint64_t gap = 4; ranges.size() > limit_; gap *= 2) {
    size_t out = 0;
    for (size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i].begin - ranges[out].end <= gap)
        ranges[out].end = ranges[i].end;
      else
        ranges[++out] = ranges[i];
    }
    ranges.resize(out + 1);
    coarsened_ = true;
  }
}

Difference compare_outside(ByteView a, ByteView b, const ByteRanges& ignored) {
  Difference d;
  const std::vector<ByteRange>& skip = ignored.ranges();
  size_t next = 0;
  for_each_difference(a, b, [&](const ByteRange& r) {
    uint64_t at = r.begin;
    while (next < skip.size() && skip[next].end <= at) ++next;
    size_t k = next;
    while (at < r.end) {
      if (k < skip.size() && skip[k].begin <= at) {
        at = std::max(at, skip[k++].end);
        continue;
      }
      const uint64_t stop = k < skip.size() ? std::min(r.end, skip[k].begin) : r.end;
      if (!d.first) d.first = at;
      d.bytes += stop - at;
      at = stop;
    }
    return true;
  });
  return d;
}

}  // namespace xtrace::replay
