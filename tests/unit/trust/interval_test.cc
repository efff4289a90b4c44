// Single intervals of whole kernels on the interpreter, whose clock is a model: from replays at several sampling rates to their sum.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/trust/saboteur.h"
#include "tests/unit/trust/timers.h"
#include "tools/xtrace/replay/launch_replay.h"

namespace xtrace::cli {
namespace {

Result<diff::IntervalFidelity> intervals(const std::string& kernel, uint32_t sites, const char* at = nullptr) {
  const replay::LaunchImage launch = interp_test::recorded_launch(kernel);
  Saboteur backend(replay::make_interp_backend(), launch.code);
  backend.on_time = Timer{};   // a backend that measures time
  ReplayOptions o;
  o.traces = testing::TempDir() + "trust_intervals";
  o.probes = {instrument::ProbeKind::pair, instrument::ProbeKind::inst};
  o.samples = {{}, {.clocks = 0}};   // the dense trace as well
  o.quiet = true;
  o.pair_sites = o.interval_sites = sites;
  if (at != nullptr) XT_TRY_STATUS(parse_places({at}, o));
  XT_TRY(const diff::ReplayReport report, replay_launch(backend, launch, o));
  if (!report.configs.at(0).intervals) return internal("no intervals: {}", report.configs[0].refused);
  return *report.configs[0].intervals;
}

class Intervals : public testing::TestWithParam<const char*> {};

// With lanes that part (reduce_sum, collatz), loops, barriers, several EXITs.
TEST_P(Intervals, AddUpToTheLifeOfTheirWarps) {
  const auto f = intervals(GetParam(), 100'000);
  ASSERT_TRUE(f) << f.error().to_string();
  std::printf("%s\n", diff::text_of(*f).c_str());
  EXPECT_GT(f->rows.size(), 10u);
  ASSERT_GT(f->lifetime_cycles, 0);
  EXPECT_NEAR(f->sum_cycles / f->lifetime_cycles, 1, 0.05);
  EXPECT_NEAR(f->median_warp, 1, 0.05);
  // Replays are alike there: each answer is the same at half the rate.
  const diff::Convergence c = diff::convergence(*f);
  EXPECT_GT(c.of, 0u);
  EXPECT_EQ(c.converged, c.of);
  for (const diff::IntervalRow& r : f->rows) {
    EXPECT_TRUE(r.measured.has_value()) << r.pc;
    EXPECT_GT(r.executions, 0) << r.pc;
    EXPECT_GE(r.error, 1) << r.pc;
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, Intervals,
                         testing::Values("saxpy", "transpose_tiled", "reduce_sum", "warp_scan", "collatz"),
                         [](const auto& i) { return std::string(i.param); });

// A record in front of an EXIT that no warp takes as a whole would pass for time of its own.
TEST(IntervalsOfAll, AnExitThatIsPassedTakesWhatItTakes) {
  const auto f = intervals("warp_scan", 100'000);
  ASSERT_TRUE(f) << f.error().to_string();
  const auto exit = std::find_if(f->rows.begin(), f->rows.end(), [](const diff::IntervalRow& r) { return r.pc == 0x1d0; });
  ASSERT_NE(exit, f->rows.end());
  EXPECT_EQ(exit->cycles, 5);   // its stall count
}

// Where some instructions were asked for there is no sum, and each has its interval.
TEST(IntervalsOfSome, HaveNoSum) {
  const auto few = intervals("transpose_tiled", 8);
  ASSERT_TRUE(few) << few.error().to_string();
  EXPECT_EQ(few->rows.size(), 8u);
  EXPECT_EQ(few->lifetime_cycles, 0);
  const auto loads = intervals("transpose_tiled", 100'000, "op:LDG*");
  ASSERT_TRUE(loads) << loads.error().to_string();
  EXPECT_GT(loads->rows.size(), 0u);
  EXPECT_LT(loads->rows.size(), 20u);
  EXPECT_EQ(loads->lifetime_cycles, 0);
}

// Paths that vary from replay to replay have intervals, and no sum either.
TEST(IntervalsOfSome, OfAKernelThatWaits) {
  const auto f = intervals("spin_lock", 4);
  ASSERT_TRUE(f) << f.error().to_string();
  EXPECT_GT(f->rows.size(), 0u);
  EXPECT_EQ(f->lifetime_cycles, 0);
}

}  // namespace
}  // namespace xtrace::cli
