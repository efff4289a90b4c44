// Sparse sites, rotated: each part is timed by itself, and the median of them beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/trust/saboteur.h"
#include "tests/unit/trust/timers.h"
#include "tools/xtrace/replay/launch_replay.h"

namespace xtrace::cli {
namespace {

using instrument::ProbeKind;
using testing::HasSubstr;

// Behind clean-again: the parts in the order in which they were made, of which the first of block, all of mem, and count, which has
// none, come before the others of block.
Result<diff::ReplayReport> rotate(std::vector<double> ratios) {
  const replay::LaunchImage launch = interp_test::recorded_launch("transpose_tiled");
  Saboteur backend(replay::make_interp_backend(), launch.code);
  backend.device = "NVIDIA H200";
  Timer t;
  t.noise = 1e-6;
  t.ratios = {1};
  t.ratios.insert(t.ratios.end(), ratios.begin(), ratios.end());
  backend.on_time = t;
  ReplayOptions o;
  o.traces = testing::TempDir() + "trust_rotation";
  o.probes = {ProbeKind::block, ProbeKind::mem, ProbeKind::count};
  Sample sample;
  sample.sites_one_in = 4;
  o.samples = {sample};
  o.rotate = o.compare = o.quiet = true;
  o.processes = 1;
  return replay_launch(backend, launch, o);
}

TEST(Rotation, EachPartHasItsRatioAndItsFloor) {
  // block: 1.01, then 1.07, 1.08 ...; mem: 1.02 to 1.05; count: 1.06.
  const auto report = rotate({1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08, 1.09});
  ASSERT_TRUE(report) << report.error().to_string();
  ASSERT_EQ(report->rotations.size(), 2u);
  const diff::Rotation &block = report->rotations[0], &mem = report->rotations[1];
  EXPECT_EQ(block.probe + " " + block.sample, "block site:1/4");
  EXPECT_EQ(mem.probe + " " + mem.sample, "mem site:1/4");
  ASSERT_EQ(mem.parts.size(), 4u);
  uint64_t records = 0;
  for (size_t p = 0; p < 4; ++p) {
    EXPECT_EQ(mem.parts[p].sample, p == 0 ? "site:1/4" : fmt::format("site:1/4+{}", p));
    ASSERT_TRUE(mem.parts[p].timing && mem.parts[p].floor);
    EXPECT_NEAR(mem.parts[p].timing->ratio, 1.02 + 0.01 * static_cast<double>(p), 1e-5);
    EXPECT_GT(mem.parts[p].floor->added, 1);
    records += mem.parts[p].records;
  }
  ASSERT_TRUE(mem.timing && mem.floor);
  EXPECT_NEAR(mem.timing->ratio, 1.035, 1e-5) << "of each round the median";

  // Merged parts are one configuration; those of block are one each, in the order of the parts.
  ASSERT_EQ(report->configs.size(), block.parts.size() + 2);
  const diff::ConfigReport& merged = report->configs[1];
  ASSERT_EQ(merged.probe, "mem");
  EXPECT_EQ(merged.records, records);
  EXPECT_NEAR(merged.timing->ratio, 1.035, 1e-5);
  EXPECT_DOUBLE_EQ(merged.floor->added, mem.floor->added);
  ASSERT_GE(block.parts.size(), 2u);
  for (size_t p = 0; p < block.parts.size(); ++p) {
    const diff::ConfigReport& config = report->configs[p == 0 ? 0 : p + 2];
    EXPECT_EQ(block.parts[p].sample, config.sample);
    EXPECT_EQ(block.parts[p].records, config.records);
    EXPECT_NEAR(block.parts[p].timing->ratio, p == 0 ? 1.01 : 1.06 + 0.01 * static_cast<double>(p), 1e-5);
    EXPECT_DOUBLE_EQ(block.parts[p].floor->added, config.floor->added);
  }

  const std::string text = diff::render_text(*report);
  EXPECT_THAT(text, HasSubstr("mem site:1/4 rotated, by part:"));
  EXPECT_THAT(text, HasSubstr("site:1/4+3"));
  EXPECT_THAT(text, HasSubstr("median                1.035 [1.035 1.035]"));
  const auto json = diff::render_json(*report);
  EXPECT_THAT(json, HasSubstr("\"rotations\""));
}

}  // namespace
}  // namespace xtrace::cli
