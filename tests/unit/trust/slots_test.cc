#include <gtest/gtest.h>

#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/trust/saboteur.h"
#include "tools/xtrace/replay/launch_replay.h"

namespace xtrace::cli {
namespace {

using instrument::ProbeKind;

// A trace's slots hold what is written, and the records of a kernel's blocks are of unlike lengths.
TEST(Slots, AreAsLongAsWhatIsWritten) {
  const replay::LaunchImage launch = interp_test::recorded_launch("sgemm");
  Saboteur backend(replay::make_interp_backend(), launch.code);
  ReplayOptions o;
  o.traces = testing::TempDir() + "trust_slots";
  o.probes = {ProbeKind::inst};
  o.samples = {{}};
  o.compare = o.quiet = true;
  const auto report = replay_launch(backend, launch, o);
  ASSERT_TRUE(report) << report.error().to_string();
  const diff::ConfigReport& inst = report->configs.at(0);
  EXPECT_EQ(inst.judgement.overall, diff::Verdict::trusted);
  EXPECT_TRUE(inst.losses.empty());
  const uint64_t warps = launch.record.grid.count() * launch.record.block.count() / 32;
  const uint64_t head_and_end = 32;
  EXPECT_LE(backend.largest_records, inst.space->trace_bytes + warps * head_and_end + 1024);
}

}  // namespace
}  // namespace xtrace::cli
