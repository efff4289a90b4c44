// The statistics on samples of an H200 (samples/, written by gpu_timing_test).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "diff/verdict.h"

namespace xtrace::diff {
namespace {

std::vector<VariantPairs> sample_set(const std::string& name) {
  std::ifstream in(std::string(XTRACE_SOURCE_DIR) + "/tests/unit/diff/samples/" + name + ".txt");
  EXPECT_TRUE(in) << name;
  std::vector<VariantPairs> variants;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with("variant ")) {
      variants.push_back({line.substr(8), {}});
      continue;
    }
    std::istringstream words(line);
    size_t process = 0;
    double clean_mhz = 0, variant_mhz = 0;
    SamplePair p;
    words >> process >> p.clean.microseconds >> clean_mhz >> p.variant.microseconds >> variant_mhz >> p.clean_first;
    EXPECT_TRUE(words) << line;
    p.clean.cycles = p.clean.microseconds * clean_mhz;
    p.variant.cycles = p.variant.microseconds * variant_mhz;
    auto& processes = variants.back().processes;
    processes.resize(std::max(processes.size(), process + 1));
    processes[process].push_back(p);
  }
  EXPECT_EQ(variants.size(), 2u);
  return variants;
}

struct Judged {
  TimingStats stats;
  Judgement judgement;
  const VariantTiming& variant() const { return stats.variants.at(0); }
  Claim claim() const { return claim_of(variant().estimate, stats.noise_floor.value_or(0)); }
};
Judged judged(const std::vector<VariantPairs>& set) {
  Judged j{timing_stats(set, one_by_one(set)).value(), {}};
  TimingEvidence e = timing_evidence(j.stats, j.variant());
  e.sample_ticks = 3000;
  j.judgement = judge({}, e, std::nullopt);
  return j;
}

TEST(SampleSets, QuietFivePercentMoreWork) {
  const Judged j = judged(sample_set("quiet"));
  EXPECT_EQ(j.variant().estimate.processes, 5u);
  EXPECT_NEAR(j.variant().estimate.ratio, 1.0427, 0.002);   // 1.0427 to 1.0431 in measurements of 1,000 rounds
  EXPECT_EQ(j.claim(), Claim::slower);
  EXPECT_LT(*j.stats.noise_floor, 0.006);
  EXPECT_EQ(j.judgement.timing, Verdict::trusted);           // below 1.05
  EXPECT_FALSE(j.judgement.has(ReasonId::time_bimodal));
  EXPECT_FALSE(j.judgement.has(ReasonId::time_drift));
  EXPECT_NEAR(j.stats.clean_mhz, 1979, 3);
}

TEST(SampleSets, BimodalIsSeenAndNothingIsClaimed) {
  const Judged j = judged(sample_set("bimodal"));
  EXPECT_TRUE(j.judgement.has(ReasonId::time_bimodal));
  EXPECT_NEAR(j.stats.clean.low_mode, 26.2, 0.5);
  EXPECT_NEAR(j.stats.clean.high_mode, 30.6, 0.5);
  EXPECT_EQ(j.claim(), Claim::none);
  EXPECT_NE(j.judgement.timing, Verdict::not_trusted);
}

TEST(SampleSets, DriftIsSeenAndDoesNotReachTheRatio) {
  const Judged j = judged(sample_set("drifting"));
  EXPECT_TRUE(j.judgement.has(ReasonId::time_drift));
  EXPECT_GT(j.stats.clean.drift, 0.03);
  EXPECT_NEAR(j.variant().estimate.ratio, 1, 0.01);
  EXPECT_EQ(j.claim(), Claim::none);
}

// The power limit held the clock near 1,800 of 1,980 MHz all the time: both codes alike.
TEST(SampleSets, ThrottledThroughoutIsAlikeForBoth) {
  const Judged j = judged(sample_set("throttled"));
  EXPECT_NEAR(j.stats.clean_mhz, 1796, 5);
  EXPECT_EQ(j.variant().throttled, 0u);
  EXPECT_EQ(j.claim(), Claim::none);
  EXPECT_EQ(j.judgement.timing, Verdict::trusted);
}

// The same fall of the clock in some samples of the quiet set only.
TEST(SampleSets, ThrottledNowAndThenIsLeftOut) {
  std::vector<VariantPairs> set = sample_set("quiet");
  const auto fall = [](Sample& s) {
    s.microseconds *= 1979.0 / 1796;
  };
  for (size_t p : {0u, 3u})
    for (size_t r : {2u, 5u}) fall(set[1].processes[p][r].variant);
  const Judged some = judged(set);
  EXPECT_EQ(some.variant().throttled, 4u);
  EXPECT_TRUE(some.judgement.has(ReasonId::time_clock_fell));
  EXPECT_NEAR(some.variant().estimate.ratio, 1.0427, 0.003);
  for (auto& process : set[1].processes)
    for (size_t r = 0; r < 3; ++r) fall(process[r].clean);
  const Judged many = judged(set);
  EXPECT_TRUE(many.judgement.has(ReasonId::time_throttled));
  EXPECT_EQ(many.judgement.timing, Verdict::inconclusive);
}

TEST(SampleSets, ThreeSamplesDecideNothing) {
  std::vector<VariantPairs> set = sample_set("quiet");
  for (VariantPairs& v : set) {
    v.processes.resize(1);
    v.processes[0].resize(3);
  }
  const Judged j = judged(set);
  EXPECT_FALSE(j.variant().estimate.interval.finite());
  EXPECT_EQ(j.claim(), Claim::none);
  EXPECT_EQ(j.judgement.timing, Verdict::inconclusive);
  EXPECT_TRUE(j.judgement.has(ReasonId::time_few_rounds));
}

}  // namespace
}  // namespace xtrace::diff
