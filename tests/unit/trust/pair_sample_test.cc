// What pair samples by itself: of a launch of many CTAs one in 16, unless some block would keep too few of its executions.
#include <gtest/gtest.h>

#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tools/xtrace/replay/launch_replay.h"
#include "tools/xtrace/replay/pair_rotation.h"

namespace xtrace::cli {
namespace {

// The recorded launch of warp_scan with more CTAs: behind its last element they write nothing, and of no elements (n) none does.
Result<diff::ConfigReport> pairs(uint32_t ctas, bool some, bool sampled) {
  replay::LaunchImage launch = interp_test::recorded_launch("warp_scan");
  launch.record.grid = {ctas, 1, 1};
  if (!some) write_at(std::span(launch.record.param_block), 0, uint32_t{0});
  const auto backend = replay::make_interp_backend();
  ReplayOptions o;
  o.traces = testing::TempDir() + "pair_sample";
  o.probes = {instrument::ProbeKind::pair};
  o.samples = {{}};
  o.sampled = sampled;
  o.quiet = o.compare = true;
  o.pair_sites = 3;
  o.interval_sites = 0;
  XT_TRY(const diff::ReplayReport report, replay_launch(*backend, launch, o));
  return report.configs.at(0);
}

TEST(PairSites, AsManyAsThereIsTimeFor) {
  std::vector<uint32_t> rest;
  for (uint32_t k = 0; k < 100; ++k) rest.push_back(0x100 + 16 * k);
  EXPECT_EQ(sites_in_time(rest, 8, 0.1), rest);
  const auto half = sites_in_time(rest, 10, 10);   // a second each, 50 are left
  ASSERT_EQ(half.size(), 50u);
  EXPECT_EQ(half[0], 0x100u);
  EXPECT_EQ(half[1], 0x120u);
  EXPECT_TRUE(sites_in_time(rest, 8, most_rotation_seconds + 1).empty());
  EXPECT_TRUE(sites_in_time({}, 8, 1).empty());
}

struct Expected {
  uint32_t ctas;
  bool some, sampled;
  const char* sample;
};
class PairSample : public testing::TestWithParam<Expected> {};
TEST_P(PairSample, KeepsEnoughOfEveryBlock) {
  const Expected& e = GetParam();
  const auto config = pairs(e.ctas, e.some, e.sampled);
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->refused, "");
  EXPECT_EQ(config->sample, e.sample);
  EXPECT_GT(config->records, 0u);
  ASSERT_TRUE(config->semantics);
  EXPECT_NE(config->semantics->path, diff::PathMatch::differs) << config->semantics->path_text;
  EXPECT_EQ(config->semantics->lost, 0u);
}
// Of the block that writes an element 32 executions are all there are, whatever the grid.
INSTANTIATE_TEST_SUITE_P(Launches, PairSample,
                         testing::Values(Expected{1040, false, false, "cta:1/16"}, Expected{200, false, false, "cta:1/2"},
                                         Expected{100, false, false, "all"}, Expected{1040, false, true, "all"},
                                         Expected{1040, true, false, "all"}),
                         [](const auto& i) {
                           return fmt::format("{}{}{}", i.param.ctas, i.param.some ? "some" : "", i.param.sampled ? "asked" : "");
                         });

}  // namespace
}  // namespace xtrace::cli
