#include "replay/driver/driver_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/replay/driver_scene.h"

namespace xtrace::replay {
namespace {

using bundle::RegionKind;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(DriverBackend, RestoreRunRead) {
  Scene s;
  auto b = backend_on(s.driver);
  EXPECT_EQ(b->info().device, "Fake GPU");
  EXPECT_EQ(b->info().sm, 90u);
  EXPECT_EQ(b->info().sm_count, 132u);
  ASSERT_OK(b->prepare(s.launch));
  EXPECT_EQ(static_cast<int>(*s.driver.at(base, 1)), 0xa5);             // gap before
  EXPECT_EQ(static_cast<int>(*s.driver.at(base + 0x104, 1)), 0xa5);     // gap between
  EXPECT_EQ(static_cast<int>(*s.driver.at(base + 0x1fffff, 1)), 0xa5);  // gap behind
  EXPECT_EQ(*s.driver.at(base + 0x100, 1), std::byte{1});
  EXPECT_FALSE(s.driver.is_mapped(base + 0x200000));

  const ModuleHandle m = b->load(s.launch.code).value();
  const Resources r = b->resources(m).value();
  EXPECT_EQ(r.registers, 40u);
  EXPECT_EQ(r.ctas_per_sm, 32u);
  EXPECT_EQ(r.active_clusters, 0u);
  for (int k = 0; k < 3; ++k) {
    ASSERT_OK(b->restore(m, RestoreScope::all));
    const RunOutcome o = b->run(m).value();
    EXPECT_TRUE(o.completed);
    EXPECT_NEAR(o.microseconds, 10, 1e-3);
    EXPECT_THAT(b->read_regions(m).value(), ElementsAre(bytes_of({1, 2, 3, 4}), bytes_of({15, 25, 35, 45})));
  }
  ASSERT_TRUE(b->run(m));  // without restore
  EXPECT_EQ(b->read_region(m, 1).value(), bytes_of({20, 30, 40, 50}));

  const FakeDriver::Launch& l = s.driver.launches.back();
  EXPECT_EQ(l.config.gridDimX, 7u);
  EXPECT_EQ(l.config.gridDimY, 2u);
  EXPECT_EQ(l.config.blockDimX, 64u);
  EXPECT_EQ(l.config.sharedMemBytes, 512u);
  EXPECT_EQ(l.params, s.launch.record.param_block);
  EXPECT_THAT(l.attributes, IsEmpty());

  ASSERT_OK(b->finish());
  EXPECT_EQ(s.driver.used_bytes(), 0u);
  EXPECT_EQ(s.driver.reservations(), 0u);
  EXPECT_EQ(s.driver.modules(), 0u);
  ASSERT_OK(b->prepare(s.launch));  // again, at the same place
  b.reset();
  EXPECT_EQ(s.driver.used_bytes(), 0u);
  EXPECT_EQ(s.driver.pinned_blocks(), 0u);
}

TEST(DriverBackend, DisturbedRunsGiveTheSameAndLeaveNothing) {
  Scene s;
  auto [b, m] = s.ready();
  ASSERT_TRUE(b->run(m)->completed);
  const Bytes output = b->read_region(m, 1).value();
  const uint64_t used = s.driver.used_bytes();
  ASSERT_OK(b->restore(m, RestoreScope::all));
  const Result<RunOutcome> o = b->run_disturbed(m, 3);
  ASSERT_TRUE(o) << o.error().to_string();
  EXPECT_TRUE(o->completed);
  EXPECT_EQ(b->read_region(m, 1).value(), output);
  EXPECT_EQ(s.driver.used_bytes(), used);
  s.driver.total_bytes = used;   // no room for other work: undisturbed
  ASSERT_TRUE(b->run_disturbed(m, 3)->completed);
}

TEST(DriverBackend, RestoreWrittenLeavesTheRestAlone) {
  Scene s;
  s.launch.record.regions[1].address.value = base + 0x200;
  add_region(s.launch, region(base + 0x180000, 0), bytes_of({7}));  // farther than copies are joined
  auto [b, m] = s.ready();
  b->set_written_regions({false, false, true});
  *s.driver.at(base + 0x180000, 1) = *s.driver.at(base + 0x100, 1) = std::byte{99};
  ASSERT_OK(b->restore(m, RestoreScope::written));
  EXPECT_EQ(b->read_region(m, 2).value(), bytes_of({7}));
  EXPECT_EQ(b->read_region(m, 0).value(), bytes_of({99, 2, 3, 4}));
  ASSERT_OK(b->restore(m, RestoreScope::all));
  EXPECT_EQ(b->read_region(m, 0).value(), bytes_of({1, 2, 3, 4}));
}

TEST(DriverBackend, BuffersAreZeroedAndComeBackToTheSameAddress) {
  Scene s;
  auto b = backend_on(s.driver);
  ASSERT_OK(b->prepare(s.launch));
  const DevPtr first = b->allocate(3 << 20, "records").value();
  const DevPtr second = b->allocate(64, "counters").value();
  EXPECT_EQ(first.value, 0x100000000000u);  // whatever the recorded memory needs
  EXPECT_NE(first, second);
  EXPECT_THAT(b->read(first, 3 << 20).value(), Each(std::byte{0}));
  ASSERT_OK(b->write(first + 4, bytes_of({1, 2})));
  ASSERT_OK(b->fill(first + 6, 2, 0xab));
  EXPECT_EQ(b->read(first, 9).value(), bytes_of({0, 0, 0, 0, 1, 2, 0xab, 0xab, 0}));
  ASSERT_OK(b->release(first));
  EXPECT_EQ(b->allocate(3 << 20, "records").value(), first);
  EXPECT_EQ(b->release({12345}).error().kind, ErrorKind::internal);
  EXPECT_EQ(b->allocate(2ull << 30, "records").error().kind, ErrorKind::environment);
}

TEST(DriverBackend, ReservesAroundWhatTheDriverHolds) {
  Scene s;
  s.driver.taken = {{base + 0x10000000, base + 0x10200000}};  // inside the window, between two regions
  add_region(s.launch, region(base + 0x20000000, 0), bytes_of({7}));
  auto b = backend_on(s.driver);
  ASSERT_OK(b->prepare(s.launch));
  EXPECT_EQ(*s.driver.at(base + 0x20000000, 1), std::byte{7});
  EXPECT_EQ(*s.driver.at(base + 0x100, 1), std::byte{1});
}

TEST(DriverBackend, PoolAddressesComeFromThePool) {
  Scene s;
  s.driver.taken = {{0x204c00000, 0x300200000}};  // so no 64 MiB boundary below is free [measured H200]
  add_region(s.launch, region(0x302000000, 0, RegionKind::async_pool), bytes_of({7}));
  add_region(s.launch, region(0x302400000, 0, RegionKind::async_pool), bytes_of({8}));
  auto b = backend_on(s.driver);
  ASSERT_OK(b->prepare(s.launch));
  EXPECT_EQ(*s.driver.at(0x302000000, 1), std::byte{7});
  EXPECT_EQ(*s.driver.at(0x302400000, 1), std::byte{8});
  EXPECT_EQ(static_cast<int>(*s.driver.at(0x302400001, 1)), 0xa5);
  EXPECT_THAT(b->notes(), ElementsAre(HasSubstr("default memory pool")));
  ASSERT_OK(b->finish());
  EXPECT_EQ(s.driver.used_bytes(), 0u);

  s.driver.pool_base = 0x312000000;  // this process's pool begins elsewhere: refused, not relocated
  const Status refused = b->prepare(s.launch);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(refused.error().message,
              HasSubstr("async_pool region 2 (0x302000000, 1 bytes) can not be placed"));
  EXPECT_EQ(s.driver.used_bytes(), 0u);
  EXPECT_EQ(s.driver.reservations(), 0u);
}

TEST(DriverBackend, TakenAddressIsRefusedByName) {
  Scene s;
  s.driver.taken = {{base, base + 0x1000}};
  auto b = backend_on(s.driver);
  const Status refused = b->prepare(s.launch);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("device region 0 (0x7e1230000100, 4 bytes)"));
  EXPECT_THAT(refused.error().message, HasSubstr("obtained 0x6"));
  EXPECT_THAT(refused.error().hint, HasSubstr("another address layout"));
  EXPECT_EQ(s.driver.reservations(), 0u);
  s.driver.taken.clear();
  ASSERT_OK(b->prepare(s.launch));  // a refusal leaves the backend usable
}

TEST(DriverBackend, MemoryThatDoesNotFit) {
  Scene s;
  s.driver.total_bytes = 1 << 20;
  auto b = backend_on(s.driver);
  const Status refused = b->prepare(s.launch);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::environment);
  EXPECT_THAT(refused.error().message, HasSubstr("needs 2 MiB of device memory, 1 MiB are free"));
}

TEST(DriverBackend, PristineCopyFallsBackToPinnedMemory) {
  Scene s;
  s.driver.total_bytes = 3 << 20;
  {
    auto b = backend_on(s.driver);
    ASSERT_OK(b->prepare(s.launch));
    EXPECT_THAT(b->notes(), ElementsAre(HasSubstr("2 MiB of recorded memory are restored from host memory")));
    const ModuleHandle m = b->load(s.launch.code).value();
    ASSERT_TRUE(b->run(m));
    ASSERT_OK(b->restore(m, RestoreScope::written));
    EXPECT_EQ(b->read_region(m, 1).value(), bytes_of({10, 20, 30, 40}));
  }
  EXPECT_EQ(s.driver.pinned_blocks(), 0u);
  s.driver.pinned_memory = false;
  auto b = backend_on(s.driver);
  const Status refused = b->prepare(s.launch);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::environment);
  EXPECT_EQ(s.driver.used_bytes(), 0u);
}

TEST(DriverBackend, WatchdogStopsWaitingAndStaysStopped) {
  Scene s;
  auto [b, m] = s.ready({.watchdog_seconds = 0.05});
  s.microseconds = -1;
  const RunOutcome o = b->run(m).value();
  EXPECT_FALSE(o.completed);
  EXPECT_EQ(o.failure, "watchdog: no end after 0.05 s");
  const size_t calls = s.driver.calls;
  for (const Error& e :
       {b->run(m).error(), b->restore(m, RestoreScope::all).error(), b->read_regions(m).error(),
        b->load(s.launch.code).error(), b->finish().error(), b->prepare(s.launch).error()}) {
    EXPECT_EQ(e.kind, ErrorKind::device);
    EXPECT_THAT(e.message, HasSubstr("kernel kernel was given up by the watchdog after 0.05 s"));
    EXPECT_THAT(e.hint, HasSubstr("new process"));
  }
  EXPECT_EQ(b->free_bytes(), 0u);
  b.reset();
  EXPECT_EQ(s.driver.calls, calls);  // any call may wait for the kernel
}

TEST(DriverBackend, DeviceErrorEndsTheBackend) {
  Scene s;
  auto b = backend_on(s.driver);
  ASSERT_OK(b->prepare(s.launch));
  const Bytes faulty = s.driver.add_code({"kernel",
                                          [](FakeDriver& d, ByteView) {
                                            d.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
                                            return 1.0;
                                          },
                                          {}});
  const ModuleHandle m = b->load(faulty).value();
  const RunOutcome o = b->run(m).value();
  EXPECT_FALSE(o.completed);
  EXPECT_THAT(o.failure, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (as the fake says)"));
  EXPECT_THAT(b->run(m).error().message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST(DriverBackend, RejectedLaunchLeavesTheBackendAlive) {
  Scene s;
  auto [b, m] = s.ready();
  s.driver.launch_result = CUDA_ERROR_INVALID_VALUE;
  const RunOutcome o = b->run(m).value();
  EXPECT_FALSE(o.completed);
  EXPECT_EQ(o.failure, "cuLaunchKernelEx failed: CUDA_ERROR_INVALID_VALUE (as the fake says)");
  s.driver.launch_result = CUDA_SUCCESS;
  EXPECT_TRUE(b->run(m)->completed);
}

TEST(DriverBackend, FunctionAttributesAndClusters) {
  Scene s;
  s.launch.record.function.max_dynamic_shared = 100000;
  s.launch.record.function.preferred_carveout = 60;
  s.launch.record.function.non_portable_cluster = 1;
  s.launch.record.cluster = {2, 1, 1};
  s.launch.record.cooperative = true;
  auto [b, m] = s.ready();
  std::map<int, int> set;
  for (const auto& [key, value] : s.driver.function_attributes) set[key.second] = value;
  EXPECT_THAT(set, ElementsAre(std::pair(8, 100000), std::pair(9, 60), std::pair(14, 1)));
  EXPECT_EQ(b->resources(m)->active_clusters, 14u);
  ASSERT_TRUE(b->run(m)->completed);
  const std::vector<CUlaunchAttribute>& a = s.driver.launches.back().attributes;
  ASSERT_EQ(a.size(), 2u);
  EXPECT_EQ(a[0].id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(a[0].value.clusterDim.x, 2u);
  EXPECT_EQ(a[1].id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
}

TEST(DriverBackend, LargeDynamicSharedMemoryRaisesTheLimitByItself) {
  Scene s;
  s.launch.record.dynamic_shared_bytes = 65536;
  auto b = backend_on(s.driver);
  ASSERT_OK(b->prepare(s.launch));
  ASSERT_TRUE(b->load(s.launch.code));
  ASSERT_EQ(s.driver.function_attributes.size(), 1u);
  EXPECT_EQ(s.driver.function_attributes.begin()->second, 65536);
}

TEST(DriverBackend, ModuleVariables) {
  Scene s;
  add_region(s.launch, region(0x7d0000001000, 0, RegionKind::global, "table"),
             bytes_of({1, 2, 3, 4, 5, 6, 7, 8}));
  const Bytes here = s.code({{"table", {0x7d0000001000, 8}}});
  const Bytes moved = s.code({{"table", {0x7d0000009000, 8}}});
  auto b = backend_on(s.driver);
  ASSERT_OK(b->prepare(s.launch));
  const ModuleHandle a = b->load(here).value(), c = b->load(moved).value();
  for (ModuleHandle m : {a, c}) EXPECT_EQ(b->read_region(m, 2).value(), s.launch.before[2]);  // set by load()
  *s.driver.at(0x7d0000009000, 1) = std::byte{77};
  EXPECT_EQ(b->read_region(c, 2).value()[0], std::byte{77});
  EXPECT_EQ(b->read_region(a, 2).value()[0], std::byte{1});
  b->set_written_regions({true, true, false});
  ASSERT_OK(b->restore(c, RestoreScope::written));
  EXPECT_EQ(b->read_region(c, 2).value()[0], std::byte{77});
  ASSERT_OK(b->restore(c, RestoreScope::all));
  EXPECT_EQ(b->read_region(c, 2).value()[0], std::byte{1});
  ASSERT_TRUE(b->load(moved));   // each probe loads a module: one note all the same
  EXPECT_THAT(b->notes(), ElementsAre(HasSubstr("nothing points to them: table (0x7d0000009000, recorded at 0x7d0000001000)")));
}

TEST(DriverBackend, ModuleVariablesThatDoNotFitAreRefusedByName) {
  Scene s;
  add_region(s.launch, region(0x7d0000001000, 0, RegionKind::global, "table"),
             bytes_of({1, 2, 3, 4, 5, 6, 7, 8}));
  s.launch.record.param_block.resize(16);
  write_at(std::span<std::byte>(s.launch.record.param_block), 8, uint64_t{0x7d0000001004});
  struct Case {
    std::map<std::string, FakeDriver::Variable> variables;
    const char* message;
  };
  const Case cases[] = {
      {{}, "no module variable table"},
      {{{"table", {0x7d0000001000, 4}}}, "table has 4 bytes in the loaded code, 8 were recorded"},
      {{{"table", {0x7d0000009000, 8}}},
       "table moved from 0x7d0000001000 to 0x7d0000009000 and memory points to it (0x7d0000001004 in the "
       "parameters at "
       "offset 0x8)"},
  };
  auto b = backend_on(s.driver);
  ASSERT_OK(b->prepare(s.launch));
  for (const Case& c : cases) {
    const Result<ModuleHandle> m = b->load(s.code(c.variables));
    ASSERT_FALSE(m) << c.message;
    EXPECT_EQ(m.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(m.error().message, HasSubstr(c.message));
    EXPECT_THAT(m.error().to_string(), HasSubstr("loading the code of kernel kernel"));
  }
  EXPECT_EQ(s.driver.modules(), 0u);
  EXPECT_TRUE(b->load(s.code({{"table", {0x7d0000001000, 8}}})));  // not moved
}

TEST(DriverBackend, CodeThatIsNoCubinNeverReachesTheDriver) {
  Scene s;
  auto b = backend_on(s.driver);
  ASSERT_OK(b->prepare(s.launch));
  Bytes truncated(s.launch.code.begin(), s.launch.code.begin() + 20);
  Bytes far = s.launch.code;
  write_at(std::span<std::byte>(far), 0x28, uint64_t{1} << 40);  // e_shoff
  write_at(std::span<std::byte>(far), 0x3c, uint16_t{3});        // e_shnum
  for (const Bytes& code : {truncated, far, bytes_of({1, 2, 3}), Bytes(100)}) {
    const Result<ModuleHandle> m = b->load(code);
    ASSERT_FALSE(m);
    EXPECT_EQ(m.error().kind, ErrorKind::bad_input);
  }
  const Bytes other = s.driver.add_code({"another", {}, {}});
  EXPECT_THAT(b->load(other).error().message, HasSubstr("no kernel of this name"));
  EXPECT_EQ(s.driver.modules(), 0u);
}

TEST(DriverBackend, BuffersComeToTheAddressOfAnotherProcess) {
  Scene s;
  auto b = backend_on(s.driver);
  ASSERT_OK(b->prepare(s.launch));
  const DevPtr at{0x100000000000 + (5ull << 30)};
  ASSERT_OK(b->allocate_at(at, 3 << 20, "records"));
  EXPECT_THAT(b->read(at, 16).value(), Each(std::byte{0}));
  const Status taken = b->allocate_at(at, 64, "records");
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(taken.error().message, HasSubstr(std::string(not_placed)));
  ASSERT_OK(b->release(at));
  ASSERT_OK(b->finish());
  EXPECT_EQ(s.driver.used_bytes(), 0u);
}

TEST(DriverBackend, MissingDevice) {
  FakeDriver driver;
  driver.init_result = CUDA_ERROR_NO_DEVICE;
  Result<std::unique_ptr<Backend>> b = make_driver_backend(driver.api(), {});
  ASSERT_FALSE(b);
  EXPECT_EQ(b.error().kind, ErrorKind::environment);
  EXPECT_THAT(b.error().message, HasSubstr("no GPU: cuInit says CUDA_ERROR_NO_DEVICE"));
  EXPECT_THAT(b.error().hint, HasSubstr("nvidia-smi"));

  driver.init_result = CUDA_SUCCESS;
  driver.devices = 2;
  DriverOptions options;
  options.device = 2;
  b = make_driver_backend(driver.api(), options);
  ASSERT_FALSE(b);
  EXPECT_EQ(b.error().message, "no GPU 2: the driver shows 2");
}

TEST(DriverApi, LoadsOrSaysWhatIsMissing) {
  const Result<DriverApi> api = DriverApi::load();
  if (api) {
    EXPECT_NE(api->MemAddressReserve, nullptr);
    return;
  }
  EXPECT_EQ(api.error().kind, ErrorKind::environment);
  EXPECT_THAT(api.error().message, HasSubstr("CUDA driver"));
  EXPECT_FALSE(api.error().hint.empty());
}

}  // namespace
}  // namespace xtrace::replay
