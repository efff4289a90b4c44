#include "diff/memory_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace xtrace::diff {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
Bytes bytes_of(std::initializer_list<T> values) {
  Bytes b;
  for (T v : values) append(b, v);
  return b;
}

MemoryDiff compare(const std::vector<Bytes>& a, const std::vector<Bytes>& b,
                   const std::vector<UnstableRanges>& unstable = {}) {
  const std::vector<ByteView> x(a.begin(), a.end()), y(b.begin(), b.end());
  const auto d = compare_memory(x, y, unstable);
  EXPECT_TRUE(d) << d.error().to_string();
  return d.value_or(MemoryDiff{});
}

TEST(MemoryDiff, EqualMemory) {
  const Bytes a = bytes_of<uint32_t>({1, 2, 3});
  const MemoryDiff d = compare({a, {}}, {a, {}});
  EXPECT_TRUE(d.equal());
  EXPECT_FALSE(d.unstable_only());
  EXPECT_FALSE(d.first);
  ASSERT_EQ(d.regions.size(), 2u);
  EXPECT_EQ(d.regions[0].bytes, 12u);
}

TEST(MemoryDiff, FirstDivergenceNamesTheElementInEveryView) {
  const Bytes zero(64, std::byte{0});
  const Bytes a = bytes_of<float>({0, 1, 2, 3}), b = bytes_of<float>({0, 1, 2.5f, -3});
  const MemoryDiff d = compare({zero, a}, {zero, b});
  ASSERT_TRUE(d.first);
  EXPECT_EQ(d.first->region, 1u);
  EXPECT_EQ(d.first->offset, 10u);  // 2.0 = 0x40000000, 2.5 = 0x40200000
  EXPECT_EQ(d.first->element4, 2u);
  EXPECT_EQ(d.first->element8, 1u);
  EXPECT_EQ(d.first->reference, 0x40000000u);
  EXPECT_EQ(d.first->actual, 0x40200000u);
  EXPECT_EQ(d.first->reference8, 0x4040000040000000ull);
  EXPECT_EQ(d.first->actual8, 0xc040000040200000ull);
  EXPECT_EQ(d.differing_outside, 2u);
  EXPECT_EQ(d.first->text(),
            "region 1 offset 0xa (element 2 of 4 bytes): expected 0x40000000 (2, 1073741824), found "
            "0x40200000 (2.5, "
            "1075838976)");
}

TEST(MemoryDiff, MaskSeparatesUnstableBytes) {
  Bytes a(100, std::byte{7}), b = a;
  b[4] = b[8] = b[15] = b[16] = b[99] = std::byte{9};
  const UnstableRanges mask{{8, 8}, {96, 4}};
  MemoryDiff d = compare({a}, {b}, {mask});
  EXPECT_EQ(d.differing_inside, 3u);
  EXPECT_EQ(d.differing_outside, 2u);
  EXPECT_EQ(d.first->offset, 4u);
  EXPECT_EQ(d.first_inside->offset, 8u);
  EXPECT_EQ(d.regions[0].unstable_bytes, 12u);
  EXPECT_FALSE(d.unstable_only());
  b[4] = b[16] = std::byte{7};
  d = compare({a}, {b}, {mask});
  EXPECT_TRUE(d.unstable_only());
  EXPECT_FALSE(d.first);
}

TEST(MemoryDiff, TailShorterThanAnElement) {
  const Bytes a(6, std::byte{1});
  Bytes b = a;
  b[5] = std::byte{2};
  const MemoryDiff d = compare({a}, {b});
  EXPECT_EQ(d.first->bytes, 2u);
  EXPECT_THAT(d.first->text(), HasSubstr("expected 0x0101, found 0x0201"));
}

TEST(MemoryDiff, AgreesWithAByteLoopOnRandomMemory) {
  std::mt19937 rng(1);
  for (int round = 0; round < 30; ++round) {
    Bytes a(1 + rng() % 200'000);
    for (auto& x : a) x = static_cast<std::byte>(rng());
    Bytes b = a;
    for (unsigned i = 0; i < rng() % 50; ++i) b[rng() % b.size()] ^= static_cast<std::byte>(1 + rng() % 255);
    uint64_t count = 0, first = ~0ull;
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i]) {
        ++count;
        first = std::min<uint64_t>(first, i);
      }
    const MemoryDiff d = compare({a}, {b});
    EXPECT_EQ(d.differing_outside, count);
    if (count != 0) {
      EXPECT_EQ(d.first->offset, first);
    }
  }
}

TEST(UnstableRanges, UnionOverReplaysInWholeElements) {
  const Bytes first(32, std::byte{0});
  Bytes x = first, y = first;
  x[1] = x[6] = std::byte{1};
  y[9] = y[31] = std::byte{1};
  const std::vector<ByteView> others{x, y};
  auto r = unstable_ranges(first, others);
  ASSERT_TRUE(r);
  EXPECT_THAT(*r, ElementsAre(ByteRange{0, 12}, ByteRange{28, 4}));
  EXPECT_EQ(total_bytes(*r), 16u);
  r = unstable_ranges(first, others, 1);
  EXPECT_THAT(*r, ElementsAre(ByteRange{1, 1}, ByteRange{6, 1}, ByteRange{9, 1}, ByteRange{31, 1}));
  EXPECT_FALSE(unstable_ranges(first, others, 3));
}

TEST(UnstableRanges, MergeJoinsTouchingAndNestedRanges) {
  EXPECT_THAT(merge({{0, 4}, {20, 10}}, {{4, 4}, {22, 2}, {40, 1}}),
              ElementsAre(ByteRange{0, 8}, ByteRange{20, 10}, ByteRange{40, 1}));
}

TEST(MemoryDiff, MismatchedInputIsRefused) {
  const Bytes a(8), b(9);
  const std::vector<ByteView> x{a}, y{b}, two{a, a};
  const std::vector<UnstableRanges> outside{{{4, 8}}}, disorder{{{4, 2}, {0, 2}}}, many{{}, {}};
  EXPECT_THAT(compare_memory(x, y, {}).error().message, HasSubstr("region 0 has 8 reference bytes and 9"));
  EXPECT_FALSE(compare_memory(x, two, {}));
  EXPECT_FALSE(compare_memory(x, x, outside));
  EXPECT_FALSE(compare_memory(x, x, disorder));
  EXPECT_FALSE(compare_memory(x, x, many));
}

}  // namespace
}  // namespace xtrace::diff
