#include "tools/xtrace/replay/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/trust/timed_backend.h"

namespace xtrace::cli {
namespace {

using testing::HasSubstr;

// One process here and one more in a thread.
struct Scene {
  explicit Scene(Timer here, std::optional<Timer> there = std::nullopt) : backend(std::move(here)) {
    launch.code = bytes_of("clean");
    launch.record.ordinal = 7;
    reference.module = 1;
    reference.idempotent = true;
    reference.microseconds = {30};
    reference.written = {true, false};
    options.processes = there ? 2 : 1;
    processes = std::make_unique<TimingProcesses>(options);
    if (!there) return;
    other = std::make_unique<OtherProcess>(*processes, *there);
  }
  ~Scene() { end(); }
  void end() {
    processes.reset();
    if (other) other->join();
  }
  static Bytes bytes_of(std::string_view s) {
    const auto* p = reinterpret_cast<const std::byte*>(s.data());
    return Bytes(p, p + s.size());
  }
  Result<Measured> run(uint32_t rounds, size_t variants = 1, bool together = false) {
    for (size_t v = 0; v < variants; ++v) cubins.push_back(bytes_of("spliced " + std::to_string(v)));
    Measurement m{backend, launch, reference, options, processes.get()};
    for (size_t v = 0; v < variants; ++v)
      m.variants.push_back({"v" + std::to_string(v), static_cast<replay::ModuleHandle>(10 + v), cubins[v]});
    m.buffers.push_back({{0x1000}, 64, {0x1010}, bytes_of("table")});
    m.rounds = rounds;
    if (together) {
      m.apart = false;
      m.groups.emplace_back(variants);
      std::iota(m.groups[0].begin(), m.groups[0].end(), 0);
    }
    return measure(m);
  }

  TimedBackend backend;
  replay::LaunchImage launch;
  replay::CleanReference reference;
  ReplayOptions options;
  std::unique_ptr<TimingProcesses> processes;
  std::vector<Bytes> cubins;
  std::unique_ptr<OtherProcess> other;
};

TEST(Measurement, StopsAtTheFirstLookThatDecides) {
  Timer quiet;   // two processes are few: only where they agree closely does an early look decide
  quiet.noise = 1e-5;
  Scene s(quiet, quiet);
  const auto m = s.run(50);
  ASSERT_TRUE(m) << m.error().to_string();
  ASSERT_EQ(s.backend.requests.size(), 1u);
  EXPECT_EQ(s.backend.requests[0].pairs, 8u);
  EXPECT_EQ(s.backend.requests[0].launches_per_sample, 4u);   // 30 us each: at least 100 us a sample
  EXPECT_EQ(m->conditions.processes, 2u);
  EXPECT_EQ(m->stats.variants[0].estimate.rounds, 16u);
  EXPECT_NEAR(m->stats.variants[0].estimate.ratio, 1.01, 0.0001);
  EXPECT_NEAR(m->sample_ticks, 400 / 0.032, 100);
  ASSERT_TRUE(m->stats.noise_floor);
  EXPECT_LT(*m->stats.noise_floor, 0.02);
  EXPECT_TRUE(m->warnings.empty());
}

TEST(Measurement, GoesOnWhileUndecidedUpToTheRounds) {
  Timer at_the_budget;
  at_the_budget.ratios = {1, 1.05};
  Scene s(at_the_budget, at_the_budget);
  const auto m = s.run(50);
  ASSERT_TRUE(m);
  std::vector<uint32_t> pairs;
  std::set<uint64_t> seeds;
  for (const auto& r : s.backend.requests) {
    pairs.push_back(r.pairs);
    seeds.insert(r.seed);
  }
  EXPECT_THAT(pairs, testing::ElementsAre(8, 8, 16, 18));
  EXPECT_EQ(seeds.size(), 4u);
  EXPECT_EQ(m->stats.variants[0].estimate.rounds, 100u);
}

TEST(Measurement, MoreBudgetsAreDecidedAsWell) {
  Timer t;
  t.ratios = {1, 1.2};
  Scene s(t, t);
  s.options.more_budgets = {1.2};
  ASSERT_TRUE(s.run(16));
  EXPECT_EQ(s.backend.requests.size(), 2u);
}

TEST(Measurement, TheOtherProcessGetsTheSameLaunch) {
  Scene s(Timer{}, Timer{});
  ASSERT_TRUE(s.run(8, 2));
  s.end();
  EXPECT_THAT(s.other->seen.ordinals, testing::ElementsAre(7u));
  EXPECT_THAT(s.other->seen.codes, testing::ElementsAre(Scene::bytes_of("clean"), Scene::bytes_of("clean"), Scene::bytes_of("spliced 0"),
                                                 Scene::bytes_of("spliced 1")));
  EXPECT_EQ(s.other->seen.buffers.count(0x1000), 1u);
  EXPECT_EQ(s.other->seen.written_to, 0x1010u);
  EXPECT_EQ(s.other->seen.table, Scene::bytes_of("table"));
  EXPECT_THAT(s.other->seen.written, testing::ElementsAre(true, false));
  ASSERT_EQ(s.other->seen.requests.size(), 1u);
  EXPECT_EQ(s.other->seen.requests[0].clean, 1u);
  EXPECT_THAT(s.other->seen.requests[0].variants, testing::ElementsAre(2u, 3u, 4u));
  EXPECT_NE(s.other->seen.requests[0].seed, s.backend.requests[0].seed);
  EXPECT_EQ(s.other->seen.finished, 1);
}

TEST(Measurement, AProcessThatFailsIsLeftOutByName) {
  Scene s(Timer{}, Timer{});
  s.other->fails = true;
  const auto m = s.run(8);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->conditions.processes, 1u);
  EXPECT_THAT(m->warnings, testing::ElementsAre(HasSubstr("a timing process was given up: ")));
  EXPECT_THAT(m->warnings[0], HasSubstr("the kernel hung"));
}

TEST(Measurement, AProcessOfAnotherMindWidensTheInterval) {
  Timer other;
  other.ratios = {1, 1.06};
  Scene apart(Timer{}, other), agreed(Timer{}, Timer{});
  const auto a = apart.run(50), b = agreed.run(50);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(diff::judge({}, evidence_of(*a, 0), std::nullopt).timing, diff::Verdict::inconclusive);
  EXPECT_EQ(diff::judge({}, evidence_of(*b, 0), std::nullopt).timing, diff::Verdict::trusted);
}

TEST(Measurement, AGroupIsOneVariant) {
  Timer t;
  t.ratios = {1, 1.0, 1.02, 1.4};
  Scene s(t, t);
  const auto m = s.run(8, 3, true);
  ASSERT_TRUE(m);
  ASSERT_EQ(m->stats.variants.size(), 1u);
  EXPECT_NEAR(m->stats.variants[0].estimate.ratio, 1.02, 0.003);
}

TEST(Measurement, LaunchesThatMayNotBeRepeatedAreSampledOneByOne) {
  Scene s(Timer{}, Timer{});
  s.reference.idempotent = false;
  ASSERT_TRUE(s.run(8));
  EXPECT_EQ(s.backend.requests[0].launches_per_sample, 1u);
}

}  // namespace
}  // namespace xtrace::cli
