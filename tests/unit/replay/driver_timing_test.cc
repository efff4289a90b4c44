// Timing by the driver backend: on a driver of our own, whose clock the tests set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/replay/driver_scene.h"

namespace xtrace::replay {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(DriverBackend, TimingInterleavesRestoresAndDropsTheWarmUp) {
  Scene s;
  std::vector<int> order;
  bool clean_inputs = true;
  const auto variant = [&](int id, double us) {
    return s.driver.add_code({"kernel",
                              [&, id, us](FakeDriver& d, ByteView) {
                                order.push_back(id);
                                std::byte* p = d.at(base + 0x200, 1);
                                clean_inputs &= *p == std::byte{10};
                                *p = std::byte{11};
                                return us +
                                       static_cast<double>(order.size() <= 3 ? 1000 : 0);  // a cold start
                              },
                              {}});
  };
  auto b = backend_on(s.driver);
  ASSERT_OK(b->prepare(s.launch));
  TimingRequest request;
  request.clean = b->load(variant(0, 10.0)).value();
  for (int id : {1, 2}) request.variants.push_back(b->load(variant(id, 10.0 * (id + 1))).value());
  request.pairs = 40;
  const TimingResult t = b->time(request).value();
  ASSERT_EQ(t.pairs.size(), 2u);
  for (size_t v : {0, 1}) {
    ASSERT_EQ(t.pairs[v].size(), 40u);
    size_t clean_first = 0;
    for (const TimedPair& p : t.pairs[v]) {
      EXPECT_NEAR(p.clean.microseconds, 10, 0.01);
      EXPECT_NEAR(p.variant.microseconds, 10.0 * static_cast<double>(v + 2), 0.01);
      EXPECT_NEAR(p.clean.cycles, 10 * 1980, 200);
      clean_first += p.clean_first;
    }
    EXPECT_EQ(clean_first, 20u);  // each order as often as the other
  }
  EXPECT_THAT(t.caches, HasSubstr("emptied by reading 2 MiB"));
  EXPECT_NEAR(t.tick_microseconds, 0, 1e-9);  // the fake's events take no time
  EXPECT_TRUE(clean_inputs);
  EXPECT_EQ(s.driver.gates, 4u * 40);  // the first launch of a module is not gated
  ASSERT_EQ(order.size(), 3u + 4u * 40);
  std::set<std::vector<int>> orders;
  for (size_t r = 0; r < 40; ++r) {
    const auto at = order.begin() + static_cast<ptrdiff_t>(3 + 4 * r);
    std::vector<int> round(at, at + 4);
    orders.insert(round);
    EXPECT_EQ(round[0] + round[1] + round[2] + round[3], 3);  // each variant beside a clean one
    EXPECT_TRUE(round[0] == 0 || round[1] == 0);
  }
  EXPECT_EQ(orders.size(), 8u);  // every order of two pairs turns up
  const std::vector<int> first(order.begin() + 3, order.end());
  order.clear();
  ASSERT_TRUE(b->time(request));
  EXPECT_EQ(std::vector<int>(order.begin() + 3, order.end()), first);  // the same seed, the same order
  order.clear();
  request.seed = 2;
  ASSERT_TRUE(b->time(request));
  EXPECT_NE(std::vector<int>(order.begin() + 3, order.end()), first);
}

TEST(DriverBackend, TimingOfBatchesIsPerLaunch) {
  Scene s;
  auto [b, m] = s.ready();
  TimingRequest request{m, {m}, 3, 4, 1, 60};
  const TimingResult t = b->time(request).value();
  for (const TimedPair& p : t.pairs[0]) EXPECT_NEAR(p.variant.microseconds, 10, 0.01);
  EXPECT_EQ(t.caches, "warmed by one launch");
  EXPECT_EQ(s.driver.launches.size(), (2u + 2 * 3) * 5);
  request.launches_per_sample = 33;  // more than fit behind the gate
  EXPECT_EQ(b->time(request).error().kind, ErrorKind::internal);
  const size_t rounds = b->time({m, {m}, 1000000, 1, 1, 0.05})->pairs[0].size();
  EXPECT_GE(rounds, 1u);
  EXPECT_LT(rounds, 1000000u);
}

TEST(DriverBackend, SamplesTellAClockThatFell) {
  Scene s;
  auto [b, m] = s.ready();
  s.microseconds = 200;
  const auto mhz = [&] {
    const TimedSample sample = b->time({m, {m}, 1, 1, 1, 60})->pairs[0][0].clean;
    return sample.cycles / sample.microseconds;
  };
  EXPECT_NEAR(mhz(), 1980, 20);
  s.driver.mhz = 990;
  EXPECT_NEAR(mhz(), 990, 10);
}

TEST(DriverBackend, TimingWithoutMemoryToEmptyTheCacheSaysSo) {
  Scene s;
  auto [b, m] = s.ready();
  s.driver.total_bytes = s.driver.used_bytes() + (2 << 20);  // for the stamps alone
  const Result<TimingResult> t = b->time({m, {m}, 3, 1, 1, 60});
  ASSERT_TRUE(t) << t.error().to_string();
  EXPECT_THAT(t->caches, HasSubstr("as restoring left it"));
}

TEST(DriverBackend, ClocksOfAllSms) {
  Scene s;
  auto b = backend_on(s.driver);
  ASSERT_OK(b->prepare(s.launch));
  const uint64_t used = s.driver.used_bytes();
  const std::vector<ClockReading> readings = b->read_clocks().value();
  EXPECT_EQ(s.driver.used_bytes(), used);
  ASSERT_EQ(readings.size(), 132u * 8);
  EXPECT_EQ(readings.front().sm, 0u);
  EXPECT_EQ(readings.back().sm, 131u);
}

TEST(DriverBackend, TimingUnderTheWatchdog) {
  Scene s;
  auto [b, m] = s.ready({.watchdog_seconds = 0.05});
  s.microseconds = -1;
  const Result<TimingResult> t = b->time({m, {m}, 3, 1, 1, 60});
  ASSERT_FALSE(t);
  EXPECT_THAT(t.error().message,
              HasSubstr("watchdog: a timing sample of 1 launches of kernel did not end after 0.05 s"));
  EXPECT_FALSE(b->run(m));
}

TEST(DriverBackend, TimingWithARejectedLaunchNamesItAndLives) {
  Scene s;
  auto [b, m] = s.ready();
  s.driver.launch_result = CUDA_ERROR_INVALID_VALUE;
  EXPECT_THAT(b->time({m, {m}, 3, 1, 1, 60}).error().to_string(), HasSubstr("timing kernel kernel"));
  s.driver.launch_result = CUDA_SUCCESS;
  EXPECT_TRUE(b->run(m)->completed);
}

}  // namespace
}  // namespace xtrace::replay
