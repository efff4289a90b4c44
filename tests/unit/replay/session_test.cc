#include "replay/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/replay/fake_backend.h"
#include "tests/unit/replay/launch_builder.h"

namespace xtrace::replay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<CleanReference> reference(FakeBackend& backend, const LaunchImage& launch, uint32_t n = 3,
                                 bool test_repeat = true) {
  EXPECT_TRUE(backend.prepare(launch));
  return clean_replays(backend, launch, *backend.load(launch.code), n, test_repeat);
}

TEST(CleanReplays, StableKernel) {
  LaunchImage launch = launch_of({bytes_of({1, 2, 3}), bytes_of({0, 0, 0})});
  launch.after = {bytes_of({1, 2, 3}), bytes_of({2, 4, 6})};
  FakeBackend backend([](std::vector<Bytes>& m, uint32_t) {
    for (size_t i = 0; i < 3; ++i) m[1][i] = static_cast<std::byte>(2 * static_cast<int>(m[0][i]));
    return std::string();
  });
  const Result<CleanReference> r = reference(backend, launch);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_EQ(r->replays, 3u);
  EXPECT_THAT(r->written, ElementsAre(false, true));
  EXPECT_THAT(r->output[0], IsEmpty());  // unchanged regions are not stored twice
  EXPECT_EQ(r->output[1], bytes_of({2, 4, 6}));
  EXPECT_THAT(r->output_of(launch, 0), ElementsAre(std::byte{1}, std::byte{2}, std::byte{3}));
  EXPECT_EQ(r->unstable_bytes(), 0u);
  EXPECT_TRUE(r->has_recorded_after);
  EXPECT_TRUE(r->matches_recorded_after);
  EXPECT_THAT(r->microseconds, ElementsAre(1, 2, 3));
  EXPECT_TRUE(r->idempotent);
  EXPECT_THAT(backend.written(), ElementsAre(false, true));
  EXPECT_EQ(backend.runs, 4u);
  EXPECT_EQ(backend.restores, 3u);  // none before the repeated launch
}

TEST(CleanReplays, NondeterministicBytesAreMaskedAndNothingElse) {
  LaunchImage launch = launch_of({bytes_of({9, 9, 9, 9, 9, 9, 9, 9})});
  launch.after = {bytes_of({1, 77, 3, 9, 4, 9, 9, 9})};
  FakeBackend backend([](std::vector<Bytes>& m, uint32_t run) {
    m[0][0] = std::byte{1};
    m[0][1] = static_cast<std::byte>(run);
    m[0][2] = std::byte{3};
    m[0][4] = std::byte{4};
    return std::string();
  });
  Result<CleanReference> r = reference(backend, launch);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_THAT(r->unstable[0].ranges(), ElementsAre(ByteRange{1, 2}));
  EXPECT_EQ(r->output[0], bytes_of({1, 0, 3, 9, 4, 9, 9, 9}));
  EXPECT_TRUE(r->matches_recorded_after);  // 77 lies in the unstable byte
  EXPECT_EQ(r->replays, 3u);
  EXPECT_EQ(backend.disturbed, 0u);
  EXPECT_TRUE(r->idempotent);

  launch.after[0][2] = std::byte{5};   // a carry of the unstable byte
  r = reference(backend, launch);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_TRUE(r->matches_recorded_after);
  EXPECT_EQ(r->replays, most_clean_replays);
  EXPECT_GT(backend.disturbed, 10u);   // every other one

  launch.after[0][4] = std::byte{5};   // another element
  launch.after[0][5] = std::byte{8};
  r = reference(backend, launch);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_FALSE(r->matches_recorded_after);
  ASSERT_EQ(r->mismatches.size(), 1u);
  EXPECT_EQ(r->mismatches[0].region, 0u);
  EXPECT_EQ(r->mismatches[0].offset, 4u);
  EXPECT_EQ(r->mismatches[0].bytes, 2u);
  EXPECT_EQ(r->mismatches[0].expected, std::byte{5});
  EXPECT_EQ(r->mismatches[0].found, std::byte{4});
}

TEST(CleanReplays, WhatSeldomDiffersIsFoundByMoreReplays) {
  LaunchImage launch = launch_of({bytes_of({0, 0, 0, 0, 0})});
  launch.after = {bytes_of({7, 0, 0, 0, 0})};
  FakeBackend backend([](std::vector<Bytes>& m, uint32_t run) {
    m[0][0] = std::byte{static_cast<uint8_t>(run == 9 ? 6 : 5)};
    m[0][4] = std::byte{static_cast<uint8_t>(run == 12 ? 1 : 0)};
    return std::string();
  });
  Result<CleanReference> r = reference(backend, launch);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_TRUE(r->matches_recorded_after);
  EXPECT_EQ(r->replays, 10u);  // no more than are needed
  ASSERT_TRUE(replay_once_more(backend, launch, *r).value());
  ASSERT_TRUE(replay_once_more(backend, launch, *r).value());
  EXPECT_THAT(r->unstable[0].ranges(), ElementsAre(ByteRange{0, 1}, ByteRange{4, 5}));
  r->replays = most_clean_replays;
  EXPECT_FALSE(replay_once_more(backend, launch, *r).value());
  r->last_found = most_clean_replays - 2;   // not settled
  ASSERT_TRUE(replay_once_more(backend, launch, *r).value());
  r->replays = r->last_found = most_unsettled_replays;
  EXPECT_FALSE(replay_once_more(backend, launch, *r).value());

  r = reference(backend, launch, 1);  // as asked: one
  ASSERT_TRUE(r);
  EXPECT_FALSE(r->matches_recorded_after);
  EXPECT_EQ(r->replays, 1u);
}

TEST(CleanReplays, RegionThatOnlySomeReplaysWriteIsUnstable) {
  const LaunchImage launch = launch_of({bytes_of({5, 5}), bytes_of({6})});
  FakeBackend backend([](std::vector<Bytes>& m, uint32_t run) {
    if (run == 1) m[0][1] = std::byte{7};
    return std::string();
  });
  const Result<CleanReference> r = reference(backend, launch);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_THAT(r->written, ElementsAre(true, false));
  EXPECT_EQ(r->output[0], bytes_of({5, 5}));
  EXPECT_THAT(r->unstable[0].ranges(), ElementsAre(ByteRange{1, 2}));
  EXPECT_FALSE(r->has_recorded_after);
  EXPECT_FALSE(r->matches_recorded_after);
}

TEST(CleanReplays, AccumulatingKernelIsNotIdempotent) {
  const LaunchImage launch = launch_of({bytes_of({0, 10})});
  FakeBackend backend([](std::vector<Bytes>& m, uint32_t) {
    m[0][1] = static_cast<std::byte>(static_cast<int>(m[0][1]) + 1);
    return std::string();
  });
  const Result<CleanReference> r = reference(backend, launch);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_EQ(r->output[0], bytes_of({0, 11}));
  EXPECT_EQ(r->unstable_bytes(), 0u);
  EXPECT_FALSE(r->idempotent);
  ASSERT_TRUE(r->repeat_difference);
  EXPECT_EQ(r->repeat_difference->offset, 1u);
  EXPECT_EQ(r->repeat_difference->expected, std::byte{11});
  EXPECT_EQ(r->repeat_difference->found, std::byte{12});
}

TEST(CleanReplays, RegionWrittenOnlyByTheRepeatedLaunchIsRestoredInTiming) {
  const LaunchImage launch = launch_of({bytes_of({0}), bytes_of({0}), bytes_of({0})});
  FakeBackend backend([](std::vector<Bytes>& m, uint32_t) {
    if (m[0][0] == std::byte{1}) m[2][0] = std::byte{1};
    m[0][0] = std::byte{1};
    return std::string();
  });
  const Result<CleanReference> r = reference(backend, launch, 2);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_THAT(r->written, ElementsAre(true, false, false));
  EXPECT_THAT(backend.written(), ElementsAre(true, false, true));
}

TEST(CleanReplays, RepetitionCanBeLeftOut) {
  const LaunchImage launch = launch_of({bytes_of({0})});
  FakeBackend backend([](std::vector<Bytes>&, uint32_t) { return std::string(); });
  const Result<CleanReference> r = reference(backend, launch, 1, false);
  ASSERT_TRUE(r);
  EXPECT_FALSE(r->idempotent);
  EXPECT_FALSE(r->repeat_difference);
  EXPECT_EQ(backend.runs, 1u);
}

TEST(CleanReplays, FailuresNameTheKernelAndTheStep) {
  const LaunchImage launch = launch_of({bytes_of({0})});
  FakeBackend fails(
      [](std::vector<Bytes>&, uint32_t run) { return std::string(run == 1 ? "watchdog: no end" : ""); });
  Result<CleanReference> r = reference(fails, launch);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::device);
  EXPECT_THAT(r.error().message, HasSubstr("a clean replay of kernel did not complete: watchdog: no end"));
  EXPECT_THAT(r.error().hint, HasSubstr("it failed when it was recorded, too")) << "no memory was recorded behind the launch";
  LaunchImage completed = launch;
  completed.after = completed.before;
  FakeBackend once([](std::vector<Bytes>&, uint32_t) { return std::string("watchdog: no end"); });
  r = reference(once, completed);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().hint, "");

  FakeBackend hangs(
      [](std::vector<Bytes>&, uint32_t run) { return std::string(run == 3 ? "watchdog: no end" : ""); });
  r = reference(hangs, launch);
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().message, HasSubstr(std::string(not_repeatable)));
  EXPECT_THAT(r.error().hint, HasSubstr("can not run on its own results"));
}

TEST(CompareOutputs, OneMismatchPerRegionThatDiffers) {
  const LaunchImage launch = launch_of({bytes_of({1, 1}), bytes_of({2, 2}), bytes_of({3})});
  int mode = 0;
  FakeBackend backend([&](std::vector<Bytes>& m, uint32_t) {
    if (mode == 1) m[0][1] = m[2][0] = std::byte{8};
    return std::string();
  });
  const Result<CleanReference> r = reference(backend, launch);
  ASSERT_TRUE(r);
  ASSERT_TRUE(backend.restore(1, RestoreScope::all));
  EXPECT_THAT(compare_outputs(backend, launch, 1, *r).value(), IsEmpty());
  mode = 1;
  ASSERT_TRUE(backend.run(1));
  const std::vector<Mismatch> found = compare_outputs(backend, launch, 1, *r).value();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].region, 0u);
  EXPECT_EQ(found[0].offset, 1u);
  EXPECT_EQ(found[1].region, 2u);
  EXPECT_EQ(found[1].expected, std::byte{3});
}

TEST(CheckLaunch, NamesWhatIsWrong) {
  struct Case {
    const char* message;
    void (*damage)(LaunchImage&);
  };
  const Case cases[] = {
      {"no kernel name", [](LaunchImage& l) { l.record.kernel.clear(); }},
      {"has no code", [](LaunchImage& l) { l.code.clear(); }},
      {"empty grid: grid 0 x 1 x 1", [](LaunchImage& l) { l.record.grid.x = 0; }},
      {"parameter 0 of kernel lies outside its block: offset 8 size 4, the block has 8 bytes",
       [](LaunchImage& l) {
         l.record.param_block.resize(8);
         l.record.params = {{8, 4}};
       }},
      {"1 memory images for 2 regions", [](LaunchImage& l) { l.before.pop_back(); }},
      {"images after the launch", [](LaunchImage& l) { l.after.resize(1); }},
      {"has an image of 1 bytes", [](LaunchImage& l) { l.before[1].resize(1); }},
      {"variable without a symbol",
       [](LaunchImage& l) { l.record.regions[0].kind = bundle::RegionKind::global; }},
  };
  EXPECT_TRUE(check_launch(launch_of({bytes_of({1, 2}), bytes_of({3, 4})})));
  for (const Case& c : cases) {
    LaunchImage launch = launch_of({bytes_of({1, 2}), bytes_of({3, 4})});
    c.damage(launch);
    const Status s = check_launch(launch);
    ASSERT_FALSE(s) << c.message;
    EXPECT_EQ(s.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(s.error().message, HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace xtrace::replay
