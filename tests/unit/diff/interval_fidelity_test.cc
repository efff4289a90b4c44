#include "diff/interval_fidelity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xtrace::diff {
namespace {

TEST(IntervalFidelity, SharesCountWithinPercentOrACycle) {
  IntervalFidelity f;
  f.rows = {{0x10, 100, 1.5, true, 104, 150.0, 2},    // error 1.5 %, table 4 % off, dense 50 %
            {0x20, 200, 25, false, 201, {}, 1},       // error 12.5 %; no dense value
            {0x30, 4, 1, true, 5, 7.0, 3}};           // small: a cycle is close enough
  const Shares own = error_bars(f), table = of_table(f), dense = of_dense(f);
  EXPECT_EQ(own.of, 3u);
  EXPECT_NEAR(own.within_2, 2.0 / 3, 1e-9);
  EXPECT_NEAR(own.within_10, 2.0 / 3, 1e-9);
  EXPECT_NEAR(table.within_2, 2.0 / 3, 1e-9);
  EXPECT_NEAR(table.within_5, 1, 1e-9);
  EXPECT_EQ(dense.of, 2u);
  EXPECT_EQ(dense.within_10, 0);
  EXPECT_EQ(converged(f), 2u);
  EXPECT_EQ(text_of(f),
            "3 sites, 2 converged (1 of 2 of 20 cycles and more); within 2/5/10 % of undisturbed: error bars 67/67/67 %, table 67/100/100 %, dense trace 0/0/0 %");
  f.sum_cycles = 990;
  f.lifetime_cycles = 1000;
  f.median_warp = 1.012;
  EXPECT_THAT(text_of(f), testing::HasSubstr("add up to 0.990 of its lifetime, median 1.012"));
  EXPECT_FALSE(dense_sum(f));   // one interval is not in the dense trace
  f.rows[1].dense = 300;
  EXPECT_EQ(dense_sum(f), 2 * 150 + 300 + 3 * 7);
}

TEST(IntervalFidelity, WhatIsExactIsKnownAndTwentyCyclesAreLong) {
  IntervalFidelity f;
  f.rows = {{0x10, 20, 0, true, 20, 20.0, 1}, {0x20, 19.9, 0, true, {}, {}, 1}};
  EXPECT_EQ(error_bars(f).of, 2u);
  EXPECT_EQ(error_bars(f).within_2, 1);
  EXPECT_EQ(of_table(f).of, 1u);
  EXPECT_EQ(of_dense(f).of, 1u);
  EXPECT_EQ(convergence(f).of, 1u);
  EXPECT_EQ(convergence(f).converged, 1u);
  EXPECT_THAT(text_of(f), testing::Not(testing::AnyOf(testing::HasSubstr("lost"), testing::HasSubstr("left out"))));
  f.records_lost = 2;
  f.too_long = 3;
  EXPECT_THAT(text_of(f), testing::HasSubstr("; 2 records of their replays were lost; 3 samples left out"));
}

}  // namespace
}  // namespace xtrace::diff
