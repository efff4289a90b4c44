#include "trace/interval_estimate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace xtrace::trace {
namespace {

// Rates as the rotation has them; `bend` cycles of disturbance when all CTAs are measured.
std::vector<RateMean> replays(double truth, double bend, const std::vector<double>& noise) {
  std::vector<RateMean> r;
  const uint32_t rates[] = {1, 1, 1, 4, 4, 16, 16};
  for (size_t i = 0; i < std::size(rates); ++i) r.push_back({rates[i], truth + bend / rates[i] + noise[i], 1000});
  return r;
}
const std::vector<double> quiet(7, 0.0), loud{3, -2, -1, 4, -3, 2, -3};

TEST(IntervalEstimate, GoesBackToNoDisturbance) {
  const auto e = estimate_interval(replays(100, 40, quiet));
  ASSERT_TRUE(e);
  EXPECT_NEAR(e->cycles, 100, 1e-9);
  EXPECT_EQ(e->error, 1);   // a cycle at least
  EXPECT_TRUE(e->converged);
  EXPECT_EQ(e->replays, 7u);
}

TEST(IntervalEstimate, ScatterIsTheErrorBar) {
  const auto e = estimate_interval(replays(100, 40, loud));
  ASSERT_TRUE(e);
  EXPECT_GT(e->error, 3);
  EXPECT_LT(e->error, 8);
  EXPECT_NEAR(e->cycles, 100, e->error);
  EXPECT_TRUE(e->converged);
}

TEST(IntervalEstimate, WhatBendsElsewhereDoesNotConverge) {
  std::vector<RateMean> r = replays(100, 0, quiet);
  for (RateMean& m : r) m.cycles += m.one_in == 16 ? 30 : 0;   // only the sparsest differs: no line
  const auto e = estimate_interval(r);
  ASSERT_TRUE(e);
  EXPECT_FALSE(e->converged && e->error < 10);
}

// 400 sites with chance in each replay: the truth lies in about 95 % of the error bars.
TEST(IntervalEstimate, ErrorBarsCoverTheTruth) {
  uint64_t state = 1;
  const auto random = [&] {
    double sum = 0;
    for (int k = 0; k < 12; ++k) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      sum += static_cast<double>(state >> 11) / static_cast<double>(1ull << 53) - 0.5;
    }
    return sum;
  };
  int covered = 0;
  for (int i = 0; i < 400; ++i) {
    std::vector<double> noise;
    for (int k = 0; k < 7; ++k) noise.push_back(5 * random());
    const auto e = estimate_interval(replays(200, 30, noise));
    covered += std::abs(e->cycles - 200) <= e->error;
  }
  std::printf("%d of 400 error bars cover the truth\n", covered);
  EXPECT_GE(covered, 368);
  EXPECT_LE(covered, 395);
}

TEST(IntervalEstimate, NothingFromTooLittle) {
  EXPECT_FALSE(estimate_interval({}));
  std::vector<RateMean> r = replays(100, 10, quiet);
  EXPECT_FALSE(estimate_interval(std::span(r).first(3)));
  EXPECT_FALSE(estimate_interval(std::vector<RateMean>(5, {4, 100, 10})));
  for (RateMean& m : r) m.samples = m.one_in == 16 ? 5 : 0;
  EXPECT_FALSE(estimate_interval(r));
}

}  // namespace
}  // namespace xtrace::trace
