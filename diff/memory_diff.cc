#include "diff/memory_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace xtrace::diff {
namespace {

constexpr uint64_t block = 64 << 10;

// Calls f(offset) for every differing byte, in order. Equal blocks cost a memcmp, equal words inside the
// others a compare.
template <typename F>
void for_each_difference(ByteView a, ByteView b, F f) {
  for (uint64_t at = 0; at < a.size(); at += block) {
    const uint64_t n = std::min<uint64_t>(block, a.size() - at);
    if (std::memcmp(a.data() + at, b.data() + at, n) == 0) continue;
    for (uint64_t i = at; i < at + n;) {
      const uint64_t left = at + n - i;
      uint64_t x, y;
      if (left >= 8) {
        std::memcpy(&x, a.data() + i, 8);
        std::memcpy(&y, b.data() + i, 8);
        if (x == y) {
          i += 8;
          continue;
        }
      }
      const uint64_t stop = i + std::min<uint64_t>(8, left);
      for (; i < stop; ++i)
        if (a[i] != b[i]) f(i);
    }
  }
}

template <typename T>
T element_at(ByteView bytes, uint64_t offset) {
  T v = 0;
  const uint64_t start = align_down(offset, sizeof(T));
  std::memcpy(&v, bytes.data() + start, std::min<uint64_t>(sizeof(T), bytes.size() - start));
  return v;
}

Divergence divergence_at(uint32_t region, uint64_t offset, ByteView reference, ByteView actual) {
  Divergence d;
  d.region = region;
  d.offset = offset;
  d.element4 = offset / 4;
  d.element8 = offset / 8;
  d.bytes = static_cast<uint32_t>(std::min<uint64_t>(4, reference.size() - align_down(offset, 4)));
  d.reference = element_at<uint32_t>(reference, offset);
  d.actual = element_at<uint32_t>(actual, offset);
  d.reference8 = element_at<uint64_t>(reference, offset);
  d.actual8 = element_at<uint64_t>(actual, offset);
  return d;
}

std::string value_text(uint32_t v, uint32_t bytes) {
  if (bytes < 4) return fmt::format("{:#0{}x}", v, 2 + 2 * bytes);
  return fmt::format("{:#010x} ({}, {})", v, std::bit_cast<float>(v), static_cast<int32_t>(v));
}

Status check_ranges(size_t region, const UnstableRanges& ranges, uint64_t size) {
  uint64_t end = 0;
  for (const ByteRange& r : ranges) {
    if (r.size == 0 || r.offset < end || r.offset > size || r.size > size - r.offset)
      return bad_input(
          "unstable ranges of region {}: {:#x}+{:#x} is empty, out of order or outside {:#x} bytes", region,
          r.offset, r.size, size);
    end = r.offset + r.size;
  }
  return {};
}

}  // namespace

std::string Divergence::text() const {
  return fmt::format("region {} offset {:#x} (element {} of 4 bytes): expected {}, found {}", region, offset,
                     element4, value_text(reference, bytes), value_text(actual, bytes));
}

Result<UnstableRanges> unstable_ranges(ByteView first, std::span<const ByteView> others,
                                       uint32_t element_bytes) {
  if (!std::has_single_bit(element_bytes))
    return bad_input("unstable ranges: elements of {} bytes, expected a power of two", element_bytes);
  UnstableRanges all;
  for (const ByteView& other : others) {
    if (other.size() != first.size())
      return bad_input("unstable ranges: a replay gave {} bytes, the first one {}", other.size(),
                       first.size());
    UnstableRanges found;
    for_each_difference(first, other, [&](uint64_t i) {
      const uint64_t start = align_down(i, element_bytes);
      const uint64_t end = std::min<uint64_t>(first.size(), start + element_bytes);
      if (!found.empty() && found.back().offset + found.back().size >= start) {
        found.back().size = end - found.back().offset;
      } else {
        found.push_back({start, end - start});
      }
    });
    all = merge(all, found);
  }
  return all;
}

UnstableRanges merge(const UnstableRanges& a, const UnstableRanges& b) {
  UnstableRanges both, out;
  both.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both),
             [](const ByteRange& x, const ByteRange& y) { return x.offset < y.offset; });
  for (const ByteRange& r : both) {
    if (!out.empty() && r.offset <= out.back().offset + out.back().size) {
      out.back().size = std::max(out.back().offset + out.back().size, r.offset + r.size) - out.back().offset;
    } else {
      out.push_back(r);
    }
  }
  return out;
}

uint64_t total_bytes(const UnstableRanges& ranges) {
  uint64_t sum = 0;
  for (const ByteRange& r : ranges) sum += r.size;
  return sum;
}

Result<MemoryDiff> compare_memory(std::span<const ByteView> reference, std::span<const ByteView> actual,
                                  std::span<const UnstableRanges> unstable) {
  if (reference.size() != actual.size() || (!unstable.empty() && unstable.size() != reference.size()))
    return bad_input("comparing memory: {} reference regions, {} regions, {} sets of unstable ranges",
                     reference.size(), actual.size(), unstable.size());
  MemoryDiff diff;
  static const UnstableRanges none;
  for (size_t i = 0; i < reference.size(); ++i) {
    const ByteView a = reference[i], b = actual[i];
    if (a.size() != b.size())
      return bad_input("comparing memory: region {} has {} reference bytes and {} bytes", i, a.size(),
                       b.size());
    const UnstableRanges& ranges = unstable.empty() ? none : unstable[i];
    XT_TRY_STATUS(check_ranges(i, ranges, a.size()));
    RegionDiff r;
    r.bytes = a.size();
    r.unstable_bytes = total_bytes(ranges);
    const auto region = static_cast<uint32_t>(i);
    size_t range = 0;  // the first one that ends behind the current byte
    for_each_difference(a, b, [&](uint64_t offset) {
      while (range < ranges.size() && ranges[range].offset + ranges[range].size <= offset) ++range;
      const bool inside = range < ranges.size() && offset >= ranges[range].offset;
      ++(inside ? r.differing_inside : r.differing_outside);
      std::optional<Divergence>& first = inside ? diff.first_inside : diff.first;
      if (!first) first = divergence_at(region, offset, a, b);
    });
    diff.differing_outside += r.differing_outside;
    diff.differing_inside += r.differing_inside;
    diff.regions.push_back(r);
  }
  return diff;
}

}  // namespace xtrace::diff
