// A launch that does not end on what it left in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "replay/interp/interp_backend.h"
#include "replay/session.h"
#include "tools/xtrace/replay/launch_replay.h"

namespace xtrace::cli {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr uint32_t lanes = 64;

// Of fixtures/cubins/src/leaves_taken.cu.
replay::LaunchImage leaves_taken() {
  constexpr uint64_t semaphore = 0x7d0000000000, out = semaphore + 4096;
  replay::LaunchImage launch;
  launch.code = read_file(std::string(XTRACE_SOURCE_DIR) + "/fixtures/cubins/sm_90/leaves_taken.cubin").value();
  launch.record.kernel = "leaves_taken";
  launch.record.grid = {1, 1, 1};
  launch.record.block = {lanes, 1, 1};
  const uint64_t params[] = {semaphore, out};
  launch.record.param_block.resize(sizeof params);
  std::memcpy(launch.record.param_block.data(), params, sizeof params);
  launch.record.params = {{0, 8}, {8, 8}};
  for (const auto& [address, words] : {std::pair(semaphore, 1u), std::pair(out, lanes)}) {
    bundle::Region region;
    region.kind = bundle::RegionKind::device;
    region.address = DevPtr{address};
    region.size = words * sizeof(uint32_t);
    launch.record.regions.push_back(region);
    launch.before.emplace_back(region.size);
  }
  launch.after = launch.before;
  write_at(std::span(launch.after[0]), 0, uint32_t{1});
  for (uint32_t i = 0; i < lanes; ++i) write_at(std::span(launch.after[1]), i * sizeof(uint32_t), 3 * i + 1);
  return launch;
}

Result<diff::ReplayReport> replay_of(bool test_repeat) {
  const auto backend = replay::make_interp_backend({.instruction_limit = 200'000});
  ReplayOptions o;
  o.traces = testing::TempDir() + "trust_repeat";
  o.probes = {instrument::ProbeKind::block};
  o.samples = {Sample{}};
  o.compare = o.quiet = true;
  o.test_repeat = test_repeat;
  return replay_launch(*backend, leaves_taken(), o, nullptr);
}

// The worker looks for these words, and begins a new process.
TEST(Repeat, ALaunchThatDoesNotEndOnItsOwnResultsSaysSo) {
  const auto report = replay_of(true);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::device);
  EXPECT_THAT(report.error().message, HasSubstr(std::string(replay::not_repeatable)));
}

TEST(Repeat, WithoutThatItIsReplayed) {
  const auto report = replay_of(false);
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->configs.at(0).judgement.semantics, diff::Verdict::trusted);
  EXPECT_THAT(report->warnings, Contains(HasSubstr("does not end, or fails, on what it leaves in memory")));
}

}  // namespace
}  // namespace xtrace::cli
