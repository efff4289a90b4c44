// Sets of byte positions as sorted, disjoint, half-open ranges: which bytes of a region differ, without a
// mask of the region's size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace xtrace::replay {

struct ByteRange {
  uint64_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

class ByteRanges {
 public:
  // Above this many ranges close neighbours are joined, so the set then covers more bytes than were added
  // (coarsened() says so). 2^20 ranges are 16 MiB.
  static constexpr size_t default_limit = 1u << 20;
  explicit ByteRanges(size_t limit = default_limit) : limit_(limit) {}

  const std::vector<ByteRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  uint64_t bytes() const;  // covered
  bool contains(uint64_t position) const;
  bool coarsened() const { return coarsened_; }

  // Adds every position where a and b differ. The sizes must be equal.
  void add_differences(ByteView a, ByteView b);
  // The elements of `unit` bytes (a power of two) that these bytes are in, of a region of `size` bytes.
  ByteRanges elements(uint64_t unit, uint64_t size) const;

 private:
  void coarsen(std::vector<ByteRange>& ranges);

  std::vector<ByteRange> ranges_;
  size_t limit_;
  bool coarsened_ = false;
};

// Positions where a and b differ, in ascending order, maximal ranges. `visit` returns false to stop.
template <typename Visit>
void for_each_difference(ByteView a, ByteView b, Visit visit) {
  XT_CHECK(a.size() == b.size(), "comparing byte strings of different sizes");
  constexpr size_t block = 4096;
  size_t open = SIZE_MAX;  // start of the range being extended
  for (size_t at = 0; at < a.size(); at += block) {
    const size_t n = std::min(block, a.size() - at);
    if (std::memcmp(a.data() + at, b.data() + at, n) == 0) {
      if (open != SIZE_MAX && !visit(ByteRange{open, at})) return;
      open = SIZE_MAX;
      continue;
    }
    for (size_t i = at; i < at + n; ++i) {
      const bool differ = a[i] != b[i];
      if (differ && open == SIZE_MAX) open = i;
      if (!differ && open != SIZE_MAX) {
        if (!visit(ByteRange{open, i})) return;
        open = SIZE_MAX;
      }
    }
  }
  if (open != SIZE_MAX) visit(ByteRange{open, a.size()});
}

struct Difference {
  uint64_t bytes = 0;             // how many differ
  std::optional<uint64_t> first;  // position of the first
};
// Compares outside of `ignored`.
Difference compare_outside(ByteView a, ByteView b, const ByteRanges& ignored);

}  // namespace xtrace::replay
