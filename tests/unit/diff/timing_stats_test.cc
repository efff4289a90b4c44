#include "diff/timing_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

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

// Normal deviates, the same on every machine.
struct Normal {
  uint64_t i = 0;
  double operator()() {
    double sum = 0;
    for (int k = 0; k < 12; ++k) sum += noise(i++);
    return sum / 2;   // variance of each: 1/3
  }
};

RatioBlocks blocks_of(Normal& normal, size_t processes, size_t rounds, double ratio, double process_sd, double round_sd) {
  RatioBlocks blocks(processes);
  for (auto& b : blocks) {
    const double shift = process_sd * normal();
    for (size_t r = 0; r < rounds; ++r) b.push_back(ratio * std::exp(shift + round_sd * normal()));
  }
  return blocks;
}

TEST(EstimateRatio, EqualRoundsGiveExactlyOne) {
  const RatioEstimate e = estimate_ratio({{1, 1, 1}, {1, 1, 1}});
  EXPECT_EQ(e.ratio, 1);
  EXPECT_EQ(e.interval, (Interval{1, 1}));
  EXPECT_EQ(e.rounds, 6u);
  EXPECT_EQ(e.processes, 2u);
}

TEST(EstimateRatio, TooFewRoundsHaveNoInterval) {
  EXPECT_FALSE(estimate_ratio({}).interval.finite());
  EXPECT_FALSE(estimate_ratio({{}, {}}).interval.finite());
  EXPECT_FALSE(estimate_ratio({{1, 1}, {1, 1}}).interval.finite());
  EXPECT_TRUE(estimate_ratio({{1, 1, 1}, {1, 1}}).interval.finite());
}

TEST(EstimateRatio, IsDeterministic) {
  Normal normal;
  const RatioBlocks blocks = blocks_of(normal, 3, 9, 1.02, 0.001, 0.004);
  EXPECT_EQ(estimate_ratio(blocks).interval, estimate_ratio(blocks).interval);
}

TEST(EstimateRatio, AProcessOfItsOwnWidensTheIntervalFewProcessesMore) {
  Normal normal;
  const RatioEstimate quiet = estimate_ratio(blocks_of(normal, 5, 8, 1, 0, 0.002));
  RatioBlocks odd = blocks_of(normal, 5, 8, 1, 0, 0.002);
  for (double& r : odd[3]) r *= 1.02;
  const RatioEstimate with_odd = estimate_ratio(odd);
  EXPECT_GT(with_odd.process_spread, 5 * quiet.process_spread);
  EXPECT_GT(with_odd.interval.high - with_odd.interval.low, 4 * (quiet.interval.high - quiet.interval.low));
  const RatioEstimate two = estimate_ratio({odd[2], odd[3]});
  EXPECT_GT(two.interval.high - two.interval.low, 2 * (with_odd.interval.high - with_odd.interval.low));
}

struct CoverageCase {
  const char* what;
  size_t processes, rounds;
  double process_sd, round_sd;
};

// 150 measurements of a known ratio each: the interval must contain it in about 95 %, where chance is in the rounds and
// where it is in the processes.
TEST(EstimateRatio, CoversTheTruth) {
  const CoverageCase cases[] = {
      {"rounds alone, two processes", 2, 8, 0, 0.004},     {"rounds alone, five processes", 5, 4, 0, 0.004},
      {"processes alone, two", 2, 8, 0.004, 0.0001},       {"processes alone, three", 3, 8, 0.004, 0.0001},
      {"processes alone, five", 5, 4, 0.004, 0.0001},      {"both, five", 5, 8, 0.003, 0.003},
      {"one process, its rounds", 1, 31, 0, 0.004},
  };
  Normal normal;
  TimingOptions o;
  o.resamples = 5000;
  for (const CoverageCase& c : cases) {
    SCOPED_TRACE(c.what);
    int covered = 0;
    for (int e = 0; e < 150; ++e) {
      const Interval i = estimate_ratio(blocks_of(normal, c.processes, c.rounds, 1.03, c.process_sd, c.round_sd), o).interval;
      covered += i.low <= 1.03 && 1.03 <= i.high;
    }
    std::printf("%s: %d of 150\n", c.what, covered);
    EXPECT_GE(covered, 135);
  }
}

// 150 equal kernels under the rule of the looks: at each at 99.9 %, at the last at 95 %. Slower or faster is said of few.
TEST(EstimateRatio, LooksDoNotAddUpToFalseAlarms) {
  Normal normal;
  int wrong = 0;
  for (int e = 0; e < 150; ++e) {
    const RatioBlocks all = blocks_of(normal, 5, 32, 1, 0.002, 0.004);
    for (size_t n : {4, 8, 16, 32}) {
      RatioBlocks seen;
      for (const auto& b : all) seen.emplace_back(b.begin(), b.begin() + static_cast<ptrdiff_t>(n));
      TimingOptions o;
      o.resamples = 5000;
      o.confidence = n == 32 ? verdict_confidence : early_confidence;
      const Interval i = estimate_ratio(seen, o).interval;
      if (i.low <= 1 && 1 <= i.high) continue;
      ++wrong;
      break;
    }
  }
  std::printf("false alarms: %d of 150\n", wrong);
  EXPECT_LE(wrong, 12);
}

SamplePair pair_of(double clean, double variant, double mhz = 2000, bool clean_first = true) {
  return {{clean, clean * mhz}, {variant, variant * mhz}, clean_first};
}

// Two processes of `n` pairs.
VariantPairs variant_of(std::string name, size_t n, double ratio, uint64_t salt) {
  VariantPairs v{std::move(name), {{}, {}}};
  for (auto& p : v.processes) {
    for (size_t i = 0; i < n; ++i)
      p.push_back(pair_of(10 * (1 + 0.002 * noise(i + 1000 * salt)), 10 * ratio * (1 + 0.002 * noise(i + 1000 * salt + 500)), 2000,
                          i % 2 == 0));
    ++salt;
  }
  return v;
}

TEST(TimingStats, SecondCleanVariantGivesTheNoiseFloor) {
  std::vector<VariantPairs> v{variant_of("block", 30, 1.02, 1)};
  auto t = timing_stats(v, one_by_one(v));
  ASSERT_TRUE(t);
  EXPECT_FALSE(t->noise_floor);
  EXPECT_EQ(t->clean_mhz, 2000);
  v.push_back(variant_of(std::string(clean_again_name), 30, 1.01, 5));
  t = timing_stats(v, one_by_one(v));
  ASSERT_TRUE(t);
  ASSERT_EQ(t->variants.size(), 1u);  // the second clean one is not a variant under judgement
  EXPECT_EQ(t->variants[0].name, "block");
  EXPECT_NEAR(t->variants[0].estimate.ratio, 1.02, 0.002);
  EXPECT_EQ(t->variants[0].pairs, 60u);
  ASSERT_TRUE(t->noise_floor);
  EXPECT_NEAR(*t->noise_floor, 0.0115, 0.0025);
}

TEST(TimingStats, NeighboursShareADrift) {
  VariantPairs v{"block", {{}, {}}};
  for (auto& p : v.processes)
    for (size_t i = 0; i < 25; ++i) {
      const double level = 20 * (1 + 0.012 * static_cast<double>(i));   // 30 % in all
      p.push_back(pair_of(level * (1 + 0.003 * noise(i)), 1.05 * level * (1 + 0.003 * noise(i + 500))));
    }
  const std::vector<VariantPairs> all{v};
  const TimingStats t = timing_stats(all, one_by_one(all)).value();
  EXPECT_NEAR(t.variants[0].estimate.ratio, 1.05, 0.002);
  EXPECT_GT(t.variants[0].estimate.interval.low, 1.04);
  EXPECT_LT(t.variants[0].estimate.interval.high, 1.06);
  EXPECT_GT(t.clean.drift, 0.01);
}

TEST(TimingStats, ThrottledPairsAreLeftOutAndCounted) {
  VariantPairs v = variant_of("block", 20, 1.01, 1);
  for (size_t i = 5; i < 8; ++i) {   // the clock falls in the middle of a pair: the variant alone looks slower
    v.processes[0][i].variant.microseconds *= 1.5;
  }
  std::vector<VariantPairs> all{v};
  const VariantTiming t = timing_stats(all, one_by_one(all))->variants[0];
  EXPECT_EQ(t.throttled, 3u);
  EXPECT_EQ(t.pairs, 40u);
  EXPECT_EQ(t.estimate.rounds, 37u);
  EXPECT_NEAR(t.estimate.ratio, 1.01, 0.002);
  for (auto& p : all[0].processes)
    for (SamplePair& pair : p) pair.clean.cycles = pair.variant.cycles = 0;   // no clock was read: nothing is left out
  EXPECT_EQ(timing_stats(all, one_by_one(all))->variants[0].throttled, 0u);
}

TEST(TimingStats, AGroupIsJudgedByItsMedianVariant) {
  const std::vector<VariantPairs> all{variant_of("a", 20, 1.00, 1), variant_of("b", 20, 1.03, 3), variant_of("c", 20, 1.50, 5)};
  const VariantGroup group{"together", {0, 1, 2}};
  const TimingStats t = timing_stats(all, std::span(&group, 1)).value();
  ASSERT_EQ(t.variants.size(), 1u);
  EXPECT_NEAR(t.variants[0].estimate.ratio, 1.03, 0.002);
  EXPECT_EQ(t.variants[0].estimate.rounds, 40u);
  EXPECT_EQ(t.variants[0].pairs, 120u);
}

TEST(TimingStats, OrderEffectCancelsAndIsSeen) {
  VariantPairs v{"block", {{}, {}}};
  for (auto& p : v.processes)
    for (size_t i = 0; i < 20; ++i) {
      const bool clean_first = i % 2 == 0;   // the second sample takes 2 % more
      p.push_back(pair_of(clean_first ? 10 : 10.2, clean_first ? 10.2 : 10, 2000, clean_first));
    }
  const std::vector<VariantPairs> all{v};
  const VariantTiming t = timing_stats(all, one_by_one(all))->variants[0];
  EXPECT_NEAR(t.order_effect, 0.02, 1e-9);
  EXPECT_NEAR(t.estimate.ratio, 1, 1e-9);
}

TEST(TimingStats, ImpossibleSamplesAreRefused) {
  for (double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    VariantPairs v = variant_of("block", 3, 1, 1);
    v.processes[1][2].variant.microseconds = bad;
    const std::vector<VariantPairs> all{v};
    ASSERT_FALSE(timing_stats(all, one_by_one(all)));
    EXPECT_THAT(timing_stats(all, one_by_one(all)).error().message, HasSubstr("in round 2 of process 1"));
  }
}

}  // namespace
}  // namespace xtrace::diff
