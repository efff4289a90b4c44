// When records fill sectors: the figures are of docs/performance.md, "Sectors written in part".
#include "tools/xtrace/replay/sectors.h"

#include <gtest/gtest.h>

namespace xtrace::cli {
namespace {

constexpr uint64_t mib = 1 << 20, l2 = 60 * mib;   // of an H200

TEST(Sectors, FillWhereLaunchAndTraceLeaveTheL2) {
  EXPECT_TRUE(whole_sectors_pay({64 * mib, 40 * mib, l2}));     // gelu
  EXPECT_TRUE(whole_sectors_pay({21 * mib, 40 * mib, l2}));
  EXPECT_FALSE(whole_sectors_pay({20 * mib, 40 * mib, l2}));    // just fits
  EXPECT_FALSE(whole_sectors_pay({32 * mib, 12 * mib, l2}));    // saxpy
  EXPECT_FALSE(whole_sectors_pay({64 * mib, 5 * mib / 2, l2}));   // gelu, one CTA in sixteen
  EXPECT_FALSE(whole_sectors_pay({64 * mib, l2 / 8, l2}));
}
TEST(Sectors, FillHalfOfTheL2WhereTheyTakeLittleMore) {
  EXPECT_TRUE(whole_sectors_pay({1 * mib, 44 * mib, l2, 43 * mib}));     // switch_table under mem
  EXPECT_FALSE(whole_sectors_pay({1 * mib, 44 * mib, l2, 30 * mib}));
  EXPECT_FALSE(whole_sectors_pay({1 * mib, 29 * mib, l2, 28 * mib}));
  EXPECT_FALSE(whole_sectors_pay({32 * mib, 6 * mib, l2, 6 * mib}));     // transpose_tiled: too few
}

}  // namespace
}  // namespace xtrace::cli
