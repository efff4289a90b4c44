// Bytes of memory against reference bytes, under a mask of bytes that are unstable by themselves (they differ
// between clean replays: float atomics, clocks).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace xtrace::diff {

// [offset, offset + size) inside one region.
struct ByteRange {
  uint64_t offset = 0, size = 0;
  bool operator==(const ByteRange&) const = default;
};
// Of one region: sorted, disjoint, none empty.
using UnstableRanges = std::vector<ByteRange>;

// Ranges of bytes in which any of `others` differs from `first`, widened to whole elements of `element_bytes`
// (a power of two): of an unstable float only the low bytes may happen to differ in the replays that were
// made. bad_input when the sizes differ.
Result<UnstableRanges> unstable_ranges(ByteView first, std::span<const ByteView> others,
                                       uint32_t element_bytes = 4);
// Union of two sets of ranges.
UnstableRanges merge(const UnstableRanges& a, const UnstableRanges& b);
uint64_t total_bytes(const UnstableRanges& ranges);

struct Divergence {
  uint32_t region = 0;                  // index
  uint64_t offset = 0;                  // of the first differing byte in the region
  uint64_t element4 = 0, element8 = 0;  // index of the 4-byte and 8-byte element it lies in
  uint32_t bytes = 0;                  // that the values below really hold: 4, or less at the end of a region
  uint32_t reference = 0, actual = 0;  // the aligned 4-byte element, little endian
  uint64_t reference8 = 0, actual8 = 0;  // the aligned 8-byte element
  // "region 2 offset 0x104 (element 65 of 4 bytes): expected 0x3f800000 (1, 1065353216), found 0x3f800001
  // (...)" Values as hex, 32-bit float, 32-bit signed integer.
  std::string text() const;
};

struct RegionDiff {
  uint64_t bytes = 0;              // compared
  uint64_t unstable_bytes = 0;     // of them under the mask
  uint64_t differing_outside = 0;  // bytes that differ outside the mask
  uint64_t differing_inside = 0;   // and inside it
};
struct MemoryDiff {
  std::vector<RegionDiff> regions;
  std::optional<Divergence> first;  // outside the mask; lowest region, then lowest offset
  std::optional<Divergence> first_inside;
  uint64_t differing_outside = 0, differing_inside = 0;
  bool equal() const { return differing_outside == 0 && differing_inside == 0; }
  bool unstable_only() const { return differing_outside == 0 && differing_inside != 0; }
};

// `unstable` is empty (nothing is unstable) or has one entry a region. bad_input when the numbers of regions
// or their sizes differ, or a range lies outside its region or out of order. Equal memory costs one memcmp.
Result<MemoryDiff> compare_memory(std::span<const ByteView> reference, std::span<const ByteView> actual,
                                  std::span<const UnstableRanges> unstable);

}  // namespace xtrace::diff
