// Launches whose warps wait for others, replayed whole: their loops leave no records where all else goes the same way each time, and
// where it does not, the trace is made as for any launch whose path changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "instrument/slot_plan.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/trust/saboteur.h"
#include "tools/xtrace/replay/launch_replay.h"

namespace xtrace::cli {
namespace {

using diff::ReasonId;
using diff::Verdict;
using instrument::ProbeKind;
using testing::Contains, testing::Each, testing::HasSubstr, testing::Not;

Result<diff::ReplayReport> replay(const char* kernel, ProbeKind probe, const std::function<void(Saboteur&)>& inject = {}) {
  const replay::LaunchImage launch = interp_test::recorded_launch(kernel);
  Saboteur backend(replay::make_interp_backend(), launch.code);
  if (inject) inject(backend);
  ReplayOptions o;
  o.traces = testing::TempDir() + "trust_waiting";
  o.probes = {probe};
  o.samples = {{}};
  o.compare = o.quiet = true;
  o.backend = BackendChoice::interp;
  return replay_launch(backend, launch, o);
}

std::string numbers_of(const diff::Judgement& j, ReasonId id) {
  for (const diff::Reason& r : j.reasons)
    if (r.id == id) return r.numbers;
  return "no such reason";
}

// A poll more or less each time, as a counting replay would see it: these blocks' counters, by the number of the read.
void vary(Saboteur& s, uint32_t block, uint32_t blocks, uint32_t lanes) {
  auto reads = std::make_shared<uint32_t>(0);
  s.on_counters = [=](Bytes& bytes) {
    const size_t at = bytes.size() - instrument::plan_counters(1, blocks).layout.copy_bytes + block * sizeof(wire::BlockCount);   // of the last copy
    auto c = *read_at<wire::BlockCount>(bytes, at, "counter");
    c.warps += ++*reads;
    c.lanes += *reads * lanes;
    write_at(std::span(bytes), at, c);
  };
}
constexpr uint32_t blocks = 17, poll = 6, behind = 10, in_loop = 12;   // of tensor_copy

TEST(Waiting, PollsAreLeftOutAndTheRestIsTrusted) {
  for (const ProbeKind probe : {ProbeKind::block, ProbeKind::inst, ProbeKind::mem}) {
    const auto report = replay("tensor_copy", probe, [](Saboteur& s) { vary(s, poll, blocks, 32); });
    ASSERT_TRUE(report) << report.error().to_string();
    const diff::ConfigReport& c = report->configs.at(0);
    EXPECT_EQ(c.refused, "");
    EXPECT_EQ(c.judgement.overall, Verdict::trusted);
    EXPECT_THAT(numbers_of(c.judgement, ReasonId::path_equal), HasSubstr("3 of loops that wait for others are not recorded"));
    EXPECT_THAT(report->warnings, Each(Not(HasSubstr("different paths"))));
    EXPECT_FALSE(c.artefacts.empty());
  }
}

// The same lanes in other groups each time, where each of them comes once: there is room for a record of each.
TEST(Waiting, LanesMayComeOutInOtherGroups) {
  for (const ProbeKind probe : {ProbeKind::block, ProbeKind::inst, ProbeKind::mem}) {
    const auto report = replay("tensor_copy", probe, [](Saboteur& s) { vary(s, behind, blocks, 0); });
    ASSERT_TRUE(report) << report.error().to_string();
    const diff::ConfigReport& c = report->configs.at(0);
    EXPECT_EQ(c.refused, "");
    EXPECT_EQ(c.judgement.overall, Verdict::trusted);
    if (probe != ProbeKind::mem) {   // which has no records there
      EXPECT_EQ(numbers_of(c.judgement, ReasonId::path_waited), "equal in 14 blocks, but for in which groups the lanes of 1 came; 3 of "
                                                                "loops that wait for others are not recorded");
    }
    EXPECT_THAT(report->warnings, Each(Not(HasSubstr("different paths"))));
    EXPECT_FALSE(c.artefacts.empty());
  }
}

// Where they may come any number of times, there is none; where other lanes come, it is another path.
TEST(Waiting, WhatChangesElsewhereKeepsEveryRecord) {
  const auto vary_in_loop = [](Saboteur& s) { vary(s, in_loop, blocks, 0); };
  const auto report = replay("tensor_copy", ProbeKind::block, vary_in_loop);
  ASSERT_TRUE(report) << report.error().to_string();
  const diff::ConfigReport& c = report->configs.at(0);
  EXPECT_EQ(c.judgement.overall, Verdict::trusted);
  EXPECT_THAT(numbers_of(c.judgement, ReasonId::path_waited), HasSubstr("equal in 17 blocks, but for in which groups the lanes of 1 came"));
  const auto mem = replay("tensor_copy", ProbeKind::mem, vary_in_loop);
  ASSERT_TRUE(mem) << mem.error().to_string();
  EXPECT_THAT(mem->configs.at(0).refused, HasSubstr("two counting replays took different paths"));

  EXPECT_THAT(report->warnings, Contains(HasSubstr("two counting replays took different paths: block 12 at ")));

  const auto other_lanes = [](Saboteur& s) { vary(s, behind, blocks, 1); };
  const auto block = replay("tensor_copy", ProbeKind::block, other_lanes);
  ASSERT_TRUE(block) << block.error().to_string();
  EXPECT_EQ(block->configs.at(0).judgement.overall, Verdict::inconclusive);
  EXPECT_NE(numbers_of(block->configs.at(0).judgement, ReasonId::path_unstable), "no such reason");
  EXPECT_THAT(block->warnings, Contains(HasSubstr("two counting replays took different paths: block 10 at ")));
}

// Counting replays agree by chance, and the traced one writes a record more: its slot has no end. Made anew, in slots that wrap.
TEST(Waiting, ARecordMoreThanCountedIsSeen) {
  auto broken = std::make_shared<uint32_t>(0);
  const auto report = replay("tensor_copy", ProbeKind::block, [&](Saboteur& s) {
    s.on_records = [broken](Bytes& bytes) {
      if ((*broken)++ != 0) return;   // only where it is looked at first
      std::span<uint32_t> w{reinterpret_cast<uint32_t*>(bytes.data()), bytes.size() / 4};
      size_t end = 0;
      while (w[end] == 0) ++end;
      while (w[end] != 0) ++end;
      const size_t stride = end;
      for (size_t i = end; i < stride + 8; ++i) w[i] = w[end - 2];
    };
  });
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_GE(*broken, 1u);
  const diff::ConfigReport& c = report->configs.at(0);
  EXPECT_EQ(c.judgement.overall, Verdict::trusted);
  EXPECT_EQ(numbers_of(c.judgement, ReasonId::path_equal), "equal in 17 blocks");
}

// Nor is pair refuted by a launch that takes another path each time, where the first counting replays agreed by chance.
TEST(Waiting, PairsOfALaunchWhosePathChangesAreNotRefuted) {
  for (const bool changes : {false, true}) {
    const auto report = replay("saxpy", ProbeKind::pair, [changes](Saboteur& s) {
      auto counted = std::make_shared<uint64_t>(0), broken = std::make_shared<uint64_t>(0);
      s.on_counters = [=](Bytes& bytes) {
        if (++*counted <= 4 || !changes) return;   // behind those of the launch, and of pair
        const size_t last = last_counter(bytes);
        auto c = *read_at<wire::BlockCount>(bytes, last, "counter");
        c.warps += *counted;
        write_at(std::span(bytes), last, c);
      };
      s.on_records = [=](Bytes& bytes) {   // an execution less than counted, of the first site
        if ((*broken)++ != 0) return;
        size_t end = bytes.size();
        while (bytes[end - 1] == std::byte{0}) --end;
        end = align_up(end, wire::chunk_bytes);
        std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(end - wire::chunk_bytes), bytes.begin() + static_cast<std::ptrdiff_t>(end), std::byte{0});
      };
    });
    ASSERT_TRUE(report) << report.error().to_string();
    const diff::Judgement& j = report->configs.at(0).judgement;
    EXPECT_EQ(report->configs.at(0).refused, "");
    EXPECT_EQ(numbers_of(j, ReasonId::path_differs) == "no such reason", changes);
    EXPECT_EQ(j.overall, changes ? Verdict::inconclusive : Verdict::not_trusted);   // its time is modelled
  }
}

}  // namespace
}  // namespace xtrace::cli
