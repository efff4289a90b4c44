#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/trust/saboteur.h"
#include "tests/unit/trust/timed_backend.h"
#include "tools/xtrace/replay/launch_replay.h"

namespace xtrace::cli {
namespace {

using testing::HasSubstr;

// Variants in the order of the search: block and inst of all CTAs, then of one in 4, then of one in 16.
Result<diff::ReplayReport> search(std::vector<double> ratios, const std::string& folder, bool two_processes) {
  const replay::LaunchImage launch = interp_test::recorded_launch("transpose_tiled");
  Saboteur backend(replay::make_interp_backend(), launch.code);
  Timer t;
  t.noise = 1e-5;
  t.ratios = {1};
  t.ratios.insert(t.ratios.end(), ratios.begin(), ratios.end());
  backend.on_time = t;
  ReplayOptions o;
  o.traces = testing::TempDir() + folder;
  std::filesystem::remove_all(o.traces);
  o.probes = {instrument::ProbeKind::block, instrument::ProbeKind::inst};
  o.samples = {{1}, {4}, {16}};
  o.search = o.compare = o.quiet = true;
  o.processes = two_processes ? 2 : 1;
  auto processes = std::make_unique<TimingProcesses>(o);
  std::optional<OtherProcess> other;
  if (two_processes) other.emplace(*processes, t);
  auto report = replay_launch(backend, launch, o, processes.get());
  processes.reset();
  return report;
}

TEST(Search, TheRichestThatIsTrustedIsEmittedAndNoOther) {
  const auto report = search({1.03, 1.30, 1.01, 1.04, 1.005, 1.02}, "trust_search", true);
  ASSERT_TRUE(report) << report.error().to_string();
  ASSERT_TRUE(report->chosen) << report->frontier_text;
  const diff::ConfigReport& best = report->configs[*report->chosen];
  EXPECT_EQ(best.probe + " " + best.sample, "inst cta:1/4") << report->frontier_text;
  EXPECT_EQ(report->verdict(), diff::Verdict::trusted);
  for (size_t i = 0; i < report->configs.size(); ++i) EXPECT_EQ(report->configs[i].artefacts.empty(), i != *report->chosen);
}

// Timed in one process only, which decides nothing: none is chosen, and nothing is emitted.
TEST(Search, NothingIsChosenFromOneProcess) {
  const auto report = search({1.01}, "trust_search_none", false);
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_FALSE(report->chosen);
  EXPECT_EQ(report->verdict(), diff::Verdict::inconclusive);
  for (const diff::ConfigReport& c : report->configs) EXPECT_TRUE(c.artefacts.empty());
  EXPECT_THAT(report->frontier_text, HasSubstr("no configuration is trusted"));
  EXPECT_THAT(diff::render_json(*report), HasSubstr("\"xtrace-frontier\""));
  EXPECT_TRUE(std::filesystem::exists(testing::TempDir() + "trust_search_none/launch1-transpose_tiled-frontier.svg"));
}

}  // namespace
}  // namespace xtrace::cli
