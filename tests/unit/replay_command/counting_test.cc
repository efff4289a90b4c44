#include "tools/xtrace/replay/counting.h"

#include <gtest/gtest.h>

namespace xtrace::cli {
namespace {

// CTAs of 90 threads: two warps with 32 lanes and one with 26. By block: all in; one lane less in a whole warp; one less in a last warp;
// as many lanes as 32 in each, but more of them in the last warps than these have; whole warps alone; last warps alone; nobody.
TEST(Counts, FullOfTheLanesThatWereLaunched) {
  Counts counts;
  counts.last_lanes = 26;
  counts.blocks = {{9, 6 * 32 + 3 * 26}, {9, 6 * 32 - 1 + 3 * 26}, {9, 6 * 32 + 3 * 26 - 1}, {9, 6 * 31 + 3 * 28}, {6, 6 * 32}, {3, 3 * 26}, {0, 0}};
  counts.last = {{3, 3 * 26}, {3, 3 * 26}, {3, 3 * 26 - 1}, {3, 3 * 28}, {0, 0}, {3, 3 * 26}, {0, 0}};
  EXPECT_EQ(counts.all_launched(), (std::vector<bool>{true, false, false, false, true, true, true}));
  EXPECT_EQ(counts.full(), (std::vector<bool>{false, false, false, false, true, false, true}));
  counts.left_out.unrecorded = {true, false, false, false, false, false, false};
  EXPECT_FALSE(counts.all_launched()[0]);
}

TEST(Counts, OfWholeWarpsBothAreTheSame) {
  Counts counts;
  counts.blocks = {{4, 128}, {4, 127}};
  EXPECT_EQ(counts.all_launched(), counts.full());
}

}  // namespace
}  // namespace xtrace::cli
