#include "diff/timing_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

namespace xtrace::diff {
namespace {

using ::testing::HasSubstr;

// Fixed noise in [-1, 1], the same on every machine.
double noise(uint64_t i) {
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z ^= z >> 27;
  return static_cast<double>(z >> 11) / static_cast<double>(1ull << 52) - 1;
}
std::vector<double> quiet(double level, size_t n, double relative, uint64_t salt) {
  std::vector<double> v;
  for (size_t i = 0; i < n; ++i) v.push_back(level * (1 + relative * noise(i + salt * 1000)));
  return v;
}

TEST(SampleStats, QuartilesAndOutliers) {
  std::vector<double> v;
  for (int i = 1; i <= 9; ++i) v.push_back(i);
  SampleStats s = sample_stats(v);
  EXPECT_EQ(s.median, 5);
  EXPECT_EQ(s.q1, 3);
  EXPECT_EQ(s.q3, 7);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 9);
  EXPECT_EQ(s.mean, 5);
  EXPECT_EQ(s.outliers, 0u);
  v.push_back(100);
  s = sample_stats(v);
  EXPECT_EQ(s.count, 10u);  // reported, not removed
  EXPECT_EQ(s.outliers, 1u);
  EXPECT_EQ(s.max, 100);
  EXPECT_EQ(sample_stats({}).count, 0u);
}

struct ShapeCase {
  const char* what;
  std::vector<double> samples;
  bool bimodal;
  double drift;  // 0 = none flagged
};

TEST(SampleStats, ShapesAreRecognised) {
  std::vector<double> two_modes, drifting, ramp_in_noise, step;
  for (size_t i = 0; i < 40; ++i) {
    two_modes.push_back((i % 3 == 0 ? 10.0 : 11.0) + 0.02 * noise(i));
    drifting.push_back(10 + 0.02 * static_cast<double>(i) + 0.01 * noise(i));
    ramp_in_noise.push_back(10 + 0.001 * static_cast<double>(i) + 0.5 * noise(i));
    step.push_back((i < 20 ? 10.0 : 12.0) + 0.01 * noise(i));
  }
  std::vector<double> one_slow = quiet(10, 40, 0.001, 5);
  one_slow[7] = 30;
  const ShapeCase cases[] = {
      {"quiet", quiet(10, 40, 0.002, 1), false, 0},
      {"wide but even", quiet(10, 200, 0.3, 2), false, 0},
      {"two modes", two_modes, true, 0},
      {"drifting", drifting, false, 0.0404},
      {"ramp lost in noise", ramp_in_noise, false, 0},
      {"one slow launch", one_slow, false, 0},
      {"a step is both", step, true, 0.2},
      {"constant", std::vector<double>(20, 3.0), false, 0},
      {"three samples", {1, 2, 9}, false, 0},
  };
  for (const ShapeCase& c : cases) {
    SCOPED_TRACE(c.what);
    const SampleStats s = sample_stats(c.samples);
    EXPECT_EQ(s.bimodal, c.bimodal);
    EXPECT_NEAR(s.drift, c.drift, 0.003);
  }
  const SampleStats s = sample_stats(two_modes);
  EXPECT_NEAR(s.low_mode, 10, 0.02);
  EXPECT_NEAR(s.high_mode, 11, 0.02);
}

TEST(CompareVariant, FivePercentSlowerIsSeenThroughCommonDrift) {
  // The clock of both sides drifts by 30 % together; pairs do not care.
  std::vector<double> clean, slow, same;
  for (size_t i = 0; i < 50; ++i) {
    const double level = 20 * (1 + 0.006 * static_cast<double>(i));
    clean.push_back(level * (1 + 0.003 * noise(i)));
    slow.push_back(level * 1.05 * (1 + 0.003 * noise(i + 500)));
    same.push_back(level * (1 + 0.003 * noise(i + 900)));
  }
  VariantTiming t = compare_variant("inst", clean, slow);
  EXPECT_NEAR(t.ratio, 1.05, 0.002);
  EXPECT_GT(t.interval.low, 1.045);
  EXPECT_LT(t.interval.high, 1.055);
  EXPECT_LE(t.interval.low, t.ratio);
  EXPECT_GE(t.interval.high, t.ratio);
  t = compare_variant("block", clean, same);
  EXPECT_LT(t.interval.low, 1);
  EXPECT_GT(t.interval.high, 1);
  EXPECT_LT(t.interval.high - t.interval.low, 0.006);
}

TEST(CompareVariant, EqualSamplesGiveExactlyOne) {
  const auto v = quiet(7, 20, 0.01, 3);
  const VariantTiming t = compare_variant("x", v, v);
  EXPECT_EQ(t.ratio, 1);
  EXPECT_EQ(t.interval, (Interval{1, 1}));
}

TEST(CompareVariant, TooFewRoundsHaveNoInterval) {
  for (size_t n : {0u, 1u, 3u, 4u}) {
    const auto v = quiet(7, n, 0.01, 3);
    const VariantTiming t = compare_variant("x", v, v);
    EXPECT_FALSE(t.interval.finite()) << n;
    EXPECT_EQ(t.rounds, n);
  }
  const auto v = quiet(7, 5, 0.01, 3);
  EXPECT_TRUE(compare_variant("x", v, v).interval.finite());
}

TEST(CompareVariant, IntervalIsDeterministicAndOfTheRightWidth) {
  const auto clean = quiet(10, 41, 0.02, 1), variant = quiet(10.1, 41, 0.02, 2);
  const VariantTiming a = compare_variant("x", clean, variant), b = compare_variant("x", clean, variant);
  EXPECT_EQ(a.interval, b.interval);
  // The bootstrap of a median of 41 has its 2.5 % and 97.5 % points near the order statistics 14 and 28.
  std::vector<double> ratios;
  for (size_t i = 0; i < clean.size(); ++i) ratios.push_back(variant[i] / clean[i]);
  std::sort(ratios.begin(), ratios.end());
  EXPECT_GE(a.interval.low, ratios[12]);
  EXPECT_LE(a.interval.low, ratios[15]);
  EXPECT_GE(a.interval.high, ratios[25]);
  EXPECT_LE(a.interval.high, ratios[28]);
}

// 200 experiments of two equal kernels: the interval must contain 1 in about 95 % of them.
TEST(CompareVariant, CoverageIsNearNinetyFivePercent) {
  TimingOptions o;
  o.resamples = 1000;
  int covered = 0;
  for (uint64_t e = 0; e < 200; ++e) {
    const VariantTiming t =
        compare_variant("x", quiet(10, 31, 0.01, 7 + 2 * e), quiet(10, 31, 0.01, 8 + 2 * e), o);
    covered += t.interval.low <= 1 && 1 <= t.interval.high;
  }
  EXPECT_GE(covered, 182);
  EXPECT_LE(covered, 199);
}

TEST(CompareVariant, TenThousandResamplesAreFast) {
  const auto clean = quiet(10, 200, 0.02, 1), variant = quiet(10, 200, 0.02, 2);
  const auto start = std::chrono::steady_clock::now();
  compare_variant("x", clean, variant);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));  // 20 ms on a quiet core
}

TEST(TimingStats, SecondCleanVariantGivesTheNoiseFloor) {
  InterleavedSamples s;
  s.clean = {"clean", quiet(10, 30, 0.002, 1)};
  s.variants.push_back({"block", quiet(10.2, 30, 0.002, 2)});
  auto t = timing_stats(s);
  ASSERT_TRUE(t);
  EXPECT_FALSE(t->noise_floor);
  s.variants.push_back({std::string(clean_again_name), quiet(10.1, 30, 0.002, 3)});
  t = timing_stats(s);
  ASSERT_TRUE(t);
  ASSERT_EQ(t->variants.size(), 1u);  // the second clean one is not a variant under judgement
  EXPECT_EQ(t->variants[0].name, "block");
  EXPECT_NEAR(t->variants[0].ratio, 1.02, 0.002);
  ASSERT_TRUE(t->noise_floor);
  EXPECT_NEAR(*t->noise_floor, 0.0105, 0.0015);
}

TEST(TimingStats, ImpossibleSamplesAreRefused) {
  InterleavedSamples s;
  s.clean = {"clean", {1, 2, 3}};
  s.variants = {{"block", {1, 2}}};
  EXPECT_THAT(timing_stats(s).error().message, HasSubstr("'block' has 2 rounds, the clean kernel 3"));
  for (double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    s.variants = {{"block", {1, bad, 3}}};
    ASSERT_FALSE(timing_stats(s));
    EXPECT_THAT(timing_stats(s).error().message, HasSubstr("in round 1"));
  }
}

}  // namespace
}  // namespace xtrace::diff
