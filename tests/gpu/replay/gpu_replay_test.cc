// The driver backend on a real device. Run alone or by `ctest -L gpu`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "replay/driver/driver_backend.h"
#include "replay/session.h"
#include "tests/gpu/replay/fresh_process.h"
#include "tests/gpu/replay/scene.h"

namespace xtrace::replay {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t base = 0x7e5670000000;

#define ASSERT_OK(expr)                          \
  do {                                           \
    const auto ok_ = (expr);                     \
    ASSERT_TRUE(ok_) << ok_.error().to_string(); \
  } while (0)

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.at(v.size() / 2);
}

class GpuReplay : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Backend>> b = make_driver_backend(DriverOptions{});
    if (!b && b.error().kind == ErrorKind::environment) GTEST_SKIP() << b.error().message;
    ASSERT_TRUE(b) << b.error().to_string();
    backend_ = std::move(*b);
  }
  // Prepares, loads, restores; the module.
  ModuleHandle ready(const LaunchImage& launch) {
    Status s = backend_->prepare(launch);
    EXPECT_TRUE(s) << s.error().to_string();
    if (!s) return 0;
    Result<ModuleHandle> m = backend_->load(launch.code);
    EXPECT_TRUE(m) << m.error().to_string();
    if (!m) return 0;
    s = backend_->restore(*m, RestoreScope::all);
    EXPECT_TRUE(s) << s.error().to_string();
    return *m;
  }
  RunOutcome run(ModuleHandle m) {
    const Result<RunOutcome> o = backend_->run(m);
    EXPECT_TRUE(o) << o.error().to_string();
    if (!o) return {};
    EXPECT_TRUE(o->completed) << o->failure;
    return *o;
  }
  std::unique_ptr<Backend> backend_;
};

// out[i] += in[i] * 2 with out[i] = i, in[i] = 1: n floats each.
LaunchImage accumulate_launch(uint32_t n) {
  LaunchImage launch = kernel_launch("accumulate", {(n + 255) / 256, 1, 1}, {256, 1, 1});
  std::vector<float> in(n, 1.0f), out(n), after(n);
  for (uint32_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>(i % 1000);
    after[i] = out[i] + 2;
  }
  const uint64_t out_address = base + align_up(uint64_t{n} * 4, 512);
  add_region(launch, base, bytes_of(in));
  add_region(launch, out_address, bytes_of(out));
  launch.after = {bytes_of(in), bytes_of(after)};
  set_params(launch, base, out_address, static_cast<int32_t>(n), 2.0f);
  return launch;
}

TEST_F(GpuReplay, DescribesTheDevice) {
  std::printf("%s, sm_%u, %u SMs, driver %s, %lu MiB free\n", backend_->info().device.c_str(),
              backend_->info().sm, backend_->info().sm_count, backend_->info().driver.c_str(),
              backend_->free_bytes() >> 20);
  EXPECT_GE(backend_->info().sm, 75u);
  EXPECT_GT(backend_->info().sm_count, 0u);
  EXPECT_GT(backend_->free_bytes(), 1ull << 30);
}

TEST_F(GpuReplay, CleanReplaysOfAnInPlaceKernel) {
  const LaunchImage launch = accumulate_launch(1000003);
  const ModuleHandle m = ready(launch);
  const Result<CleanReference> r = clean_replays(*backend_, launch, m, 5);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_TRUE(r->matches_recorded_after);
  EXPECT_THAT(r->written, ElementsAre(false, true));
  EXPECT_EQ(r->unstable_bytes(), 0u);
  EXPECT_FALSE(r->idempotent);
  EXPECT_THAT(r->microseconds, Each(testing::AllOf(testing::Gt(0.5), testing::Lt(5000))));
  const Resources res = backend_->resources(m).value();
  EXPECT_GT(res.registers, 0u);
  EXPECT_EQ(res.ctas_per_sm, 8u);  // 256 threads of 2048
}

TEST_F(GpuReplay, PointersInMemoryLeadToTheRecordedAddresses) {
  LaunchImage launch = kernel_launch("follow", {2, 1, 1}, {64, 1, 1});
  std::vector<int32_t> source(100), expected(100);
  for (int i = 0; i < 100; ++i) expected[i] = (source[i] = i) * 3 + 1;
  add_region(launch, base, bytes_of(std::vector<uint64_t>{base + 0x10000000, base + 0x3ffffffc0}));
  add_region(launch, base + 0x10000000, bytes_of(source));
  add_region(launch, base + 0x3ffffffc0, Bytes(400));  // crosses a 2 MiB and a 64 MiB boundary
  set_params(launch, base, int32_t{100});
  const ModuleHandle m = ready(launch);
  run(m);
  EXPECT_EQ(values_of<int32_t>(backend_->read_region(m, 2).value()), expected);
}

TEST_F(GpuReplay, ModuleVariablesBySymbol) {
  LaunchImage launch = kernel_launch("variables", {1, 1, 1});
  add_region(launch, base, Bytes(16));
  // Recorded values, not the initial ones; recorded addresses no loader would choose.
  add_region(launch, base + 0x1000000, bytes_of(std::vector<uint32_t>{10, 20, 30, 40}),
             bundle::RegionKind::global, "counter");
  add_region(launch, base + 0x2000000, bytes_of(std::vector<uint32_t>{7}), bundle::RegionKind::constant,
             "factor");
  set_params(launch, base);
  const ModuleHandle m = ready(launch);
  for (int k = 0; k < 2; ++k) {
    ASSERT_OK(backend_->restore(m, RestoreScope::all));
    run(m);
    EXPECT_THAT(values_of<uint32_t>(backend_->read_region(m, 0).value()), ElementsAre(70, 140, 210, 280));
    EXPECT_THAT(values_of<uint32_t>(backend_->read_region(m, 1).value()), ElementsAre(110, 120, 130, 140));
    EXPECT_THAT(values_of<uint32_t>(backend_->read_region(m, 2).value()), ElementsAre(7));
  }
  run(m);  // without restore
  EXPECT_EQ(values_of<uint32_t>(backend_->read_region(m, 0).value())[0], 770u);
  EXPECT_THAT(backend_->notes(), ElementsAre(testing::AllOf(HasSubstr("nothing points to them: counter"), HasSubstr("and 1 more"))));
}

TEST_F(GpuReplay, AVariableThatIsPointedToLiesAtItsRecordedAddress) {
  LaunchImage launch = kernel_launch("variables", {1, 1, 1});
  add_region(launch, base, bytes_of(std::vector<uint64_t>{base + 0x1000008, 0}));
  add_region(launch, base + 0x1000000, bytes_of(std::vector<uint32_t>{10, 20, 30, 40}), bundle::RegionKind::global, "counter");
  set_params(launch, base);
  const ModuleHandle m = ready(launch), again = *backend_->load(launch.code);
  for (const ModuleHandle each : {m, again, m}) {
    ASSERT_OK(backend_->restore(each, RestoreScope::all));
    EXPECT_EQ(backend_->region_address(each, 1)->value, base + 0x1000000);
    run(each);
    EXPECT_THAT(values_of<uint32_t>(backend_->read_region(each, 0).value()), ElementsAre(50, 100, 150, 200)) << "times five";
    EXPECT_THAT(values_of<uint32_t>(backend_->read_region(each, 1).value()), ElementsAre(110, 120, 130, 140));
  }
  EXPECT_THAT(backend_->notes(), ElementsAre(HasSubstr("module variable counter lies at its recorded address 0x7e5671000000")));
}

TEST_F(GpuReplay, PointerToAMovedConstantIsRefused) {
  LaunchImage launch = kernel_launch("variables", {1, 1, 1});
  add_region(launch, base, bytes_of(std::vector<uint64_t>{base + 0x1000000, 0}));
  add_region(launch, base + 0x1000000, Bytes(4), bundle::RegionKind::constant, "factor");
  set_params(launch, base);
  ASSERT_OK(backend_->prepare(launch));
  const Result<ModuleHandle> m = backend_->load(launch.code);
  ASSERT_FALSE(m);
  EXPECT_EQ(m.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(m.error().message, HasSubstr("module variable factor moved from 0x7e5671000000 to "));
}

TEST_F(GpuReplay, ClusterCooperativeAndLargeSharedMemory) {
  LaunchImage launch = kernel_launch("cluster_rank", {8, 1, 1});
  launch.record.cluster = {4, 1, 1};
  add_region(launch, base, Bytes(32));
  set_params(launch, base);
  ModuleHandle m = ready(launch);
  run(m);
  EXPECT_THAT(values_of<uint32_t>(backend_->read_region(m, 0).value()),
              ElementsAre(400, 401, 402, 403, 400, 401, 402, 403));
  EXPECT_GT(backend_->resources(m)->active_clusters, 0u);
  ASSERT_OK(backend_->finish());

  launch = kernel_launch("dynamic_shared", {2, 1, 1});
  launch.record.dynamic_shared_bytes = 160 << 10;
  launch.record.cooperative = true;
  add_region(launch, base, Bytes(8));
  set_params(launch, base, uint32_t{40 << 10});
  m = ready(launch);
  run(m);
  EXPECT_THAT(values_of<uint32_t>(backend_->read_region(m, 0).value()), Each((40u << 10) - 1));
  EXPECT_EQ(backend_->resources(m)->ctas_per_sm, 1u);
}

TEST_F(GpuReplay, LaunchThatCanNotBeIsRejectedAndTheBackendLives) {
  LaunchImage launch = accumulate_launch(1000);
  launch.record.block = {2048, 1, 1};
  const ModuleHandle m = ready(launch);
  const RunOutcome o = backend_->run(m).value();
  EXPECT_FALSE(o.completed);
  EXPECT_THAT(o.failure, HasSubstr("cuLaunchKernelEx failed: CUDA_ERROR_"));
  ASSERT_OK(backend_->finish());
  const LaunchImage good = accumulate_launch(1000);
  const ModuleHandle g = ready(good);
  run(g);
  EXPECT_EQ(backend_->read_region(g, 1).value(), good.after[1]);
}

TEST_F(GpuReplay, CodeForNobodyIsAnErrorNotACrash) {
  const LaunchImage launch = accumulate_launch(1000);
  ASSERT_OK(backend_->prepare(launch));
  Bytes truncated(launch.code.begin(), launch.code.begin() + static_cast<ptrdiff_t>(launch.code.size() / 2));
  EXPECT_FALSE(backend_->load(truncated));
  EXPECT_TRUE(backend_->load(launch.code));
}

TEST_F(GpuReplay, BuffersOfManyGibibytes) {
  const LaunchImage launch = accumulate_launch(1000);
  ASSERT_OK(backend_->prepare(launch));
  const uint64_t before = backend_->free_bytes();
  const DevPtr big = backend_->allocate(9ull << 30, "records").value();
  const DevPtr small = backend_->allocate(100, "counters").value();
  std::printf("buffers at %#lx and %#lx\n", big.value, small.value);
  EXPECT_EQ(big.value, 0x100000000000u);
  EXPECT_EQ(small.value, 0x100000000000u + (9ull << 30));
  EXPECT_LE(backend_->free_bytes(), before - (9ull << 30));
  EXPECT_THAT(backend_->read(big + ((9ull << 30) - 4096), 4096).value(), Each(std::byte{0}));
  ASSERT_OK(backend_->release(big));
  EXPECT_GE(backend_->free_bytes(), before - (64ull << 20));
}

TEST_F(GpuReplay, EventsMeasureTheKernelNotTheLaunch) {
  LaunchImage launch = kernel_launch("spin", {1, 1, 1});
  add_region(launch, base, Bytes(64));
  set_params(launch, uint64_t{200'000}, base);
  ModuleHandle m = ready(launch);
  const auto clean_us = [&](const TimingRequest& request) {
    std::vector<double> us;
    const TimingResult t = backend_->time(request).value();
    for (const TimedPair& p : t.pairs[0]) us.push_back(p.clean.microseconds);
    return median(us);
  };
  const double single = clean_us({m, {m}, 20, 1, 1, 60});
  const double batched = clean_us({m, {m}, 20, 30, 1, 60});
  std::printf("spin of 200 us: %.1f us alone, %.1f us in batches of 30\n", single, batched);
  EXPECT_NEAR(single, 202, 12);
  EXPECT_NEAR(batched, 202, 12);
  ASSERT_OK(backend_->finish());

  // A kernel that does nearly nothing: a launch from an idle CPU would add its own microseconds.
  set_params(launch, uint64_t{0}, base);
  m = ready(launch);
  const double empty = clean_us({m, {m}, 50, 1, 1, 60});
  std::printf("empty kernel: %.2f us\n", empty);
  EXPECT_LT(empty, 8);
}

TEST_F(GpuReplay, TimingRoundsOfTheSameCodeAgree) {
  const LaunchImage launch = accumulate_launch(4 << 20);
  const ModuleHandle a = ready(launch), b = backend_->load(launch.code).value();
  backend_->set_written_regions({false, true});
  const TimingResult t = backend_->time({a, {b}, 50, 1, 7, 60}).value();
  ASSERT_EQ(t.pairs.size(), 1u);
  ASSERT_EQ(t.pairs[0].size(), 50u);
  std::vector<double> ratios, mhz;
  for (const TimedPair& p : t.pairs[0]) {
    ratios.push_back(p.variant.microseconds / p.clean.microseconds);
    ASSERT_GT(p.clean.cycles, 0);
    mhz.push_back(p.clean.cycles / p.clean.microseconds);
  }
  std::printf("A/A: ratio %.4f at %.0f MHz; event tick %.4f us; L2 %s\n", median(ratios), median(mhz), t.tick_microseconds,
              t.caches.c_str());
  EXPECT_NEAR(median(ratios), 1.0, 0.05);
  EXPECT_GT(median(mhz), 200);
  EXPECT_LT(median(mhz), 4000);
  EXPECT_GT(t.tick_microseconds, 0);
  EXPECT_LE(t.tick_microseconds, 1.1);
  // The last sample ran on restored memory, so its result is one accumulation, not fifty.
  EXPECT_EQ(backend_->read_region(a, 1).value(), launch.after[1]);
}

TEST_F(GpuReplay, EverySmTellsItsClocks) {
  const LaunchImage launch = accumulate_launch(4 << 10);
  ready(launch);
  const std::vector<ClockReading> readings = backend_->read_clocks().value();
  std::set<uint32_t> sms;
  for (const ClockReading& r : readings) sms.insert(r.sm);
  EXPECT_EQ(sms.size(), backend_->info().sm_count);
}

}  // namespace
}  // namespace xtrace::replay

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0].starts_with("--") && !arguments[0].starts_with("--gtest"))
    return xtrace::replay::fresh_process_main(arguments);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
