#include "replay/byte_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/replay/launch_builder.h"

namespace xtrace::replay {
namespace {

using testing::ElementsAre;

TEST(ByteRanges, DifferencesAreMaximalRanges) {
  Bytes a(10000), b(10000);
  for (size_t i : {0, 1, 4094, 4095, 4096, 4097, 8192, 9999}) b[i] = std::byte{1};
  ByteRanges r;
  r.add_differences(a, b);
  EXPECT_THAT(r.ranges(), ElementsAre(ByteRange{0, 2}, ByteRange{4094, 4098}, ByteRange{8192, 8193},
                                      ByteRange{9999, 10000}));
  EXPECT_EQ(r.bytes(), 8u);
  EXPECT_TRUE(r.contains(4097));
  EXPECT_FALSE(r.contains(4098));
  EXPECT_FALSE(r.contains(4093));
}

TEST(ByteRanges, RangeEndingAtABlockBoundaryDoesNotLeakIntoAnEqualBlock) {
  Bytes a(3 * 4096), b(3 * 4096);
  b[4095] = b[8192] = std::byte{1};
  ByteRanges r;
  r.add_differences(a, b);
  EXPECT_THAT(r.ranges(), ElementsAre(ByteRange{4095, 4096}, ByteRange{8192, 8193}));
}

TEST(ByteRanges, UnionOfSeveralComparisons) {
  const Bytes a(16);
  ByteRanges r;
  Bytes b = a;
  b[2] = b[3] = b[9] = std::byte{1};
  r.add_differences(a, b);
  Bytes c = a;
  c[0] = c[3] = c[4] = c[8] = c[15] = std::byte{1};
  r.add_differences(a, c);
  EXPECT_THAT(r.ranges(), ElementsAre(ByteRange{0, 1}, ByteRange{2, 5}, ByteRange{8, 10}, ByteRange{15, 16}));
}

TEST(ByteRanges, TooManyRangesAreJoinedAndSaidSo) {
  Bytes a(4096), b(4096);
  for (size_t i = 0; i < 4096; i += 8) b[i] = std::byte{1};
  ByteRanges exact;
  exact.add_differences(a, b);
  EXPECT_EQ(exact.ranges().size(), 512u);
  EXPECT_FALSE(exact.coarsened());
  ByteRanges joined(16);
  joined.add_differences(a, b);
  EXPECT_LE(joined.ranges().size(), 16u);
  EXPECT_TRUE(joined.coarsened());
  for (size_t i = 0; i < 4096; i += 8) EXPECT_TRUE(joined.contains(i)) << i;
}

TEST(CompareOutside, IgnoresExactlyTheMaskedBytes) {
  const Bytes a(32);
  Bytes noisy = a;
  noisy[4] = noisy[5] = noisy[20] = std::byte{1};
  ByteRanges mask;
  mask.add_differences(a, noisy);

  Bytes b = a;
  b[4] = b[5] = b[20] = std::byte{9};
  EXPECT_EQ(compare_outside(a, b, mask).bytes, 0u);
  EXPECT_FALSE(compare_outside(a, b, mask).first);

  for (size_t i = 3; i < 24; ++i) b[i] = std::byte{7};
  const Difference d = compare_outside(a, b, mask);
  EXPECT_EQ(d.bytes, 21u - 3u);
  EXPECT_EQ(d.first, 3u);

  b = a;
  b[21] = std::byte{1};
  EXPECT_EQ(compare_outside(a, b, mask).first, 21u);
  EXPECT_EQ(compare_outside(a, b, ByteRanges()).bytes, 1u);
}

}  // namespace
}  // namespace xtrace::replay
