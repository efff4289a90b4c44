// Same address on replay, in fresh processes: address layout is decided when a process starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "replay/backend.h"
#include "replay/driver/driver_api.h"
#include "tests/gpu/replay/fresh_process.h"

namespace xtrace::replay {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

bool device_present() {
  const Result<DriverApi> api = DriverApi::load();
  int count = 0;
  return api && api->Init(0) == CUDA_SUCCESS && api->DeviceGetCount(&count) == CUDA_SUCCESS && count > 0;
}
#define NEED_DEVICE() \
  if (!device_present()) GTEST_SKIP() << "no CUDA device"

TEST(GpuPlacement, ChosenAddresses) {
  NEED_DEVICE();
  const std::vector<std::string> cases[] = {
      {"0x7e1230000100:4096"},
      {"0x7e1230000100:100", "0x7e1230000200:3000000", "0x7e1240000000:1"},
      {"0x7f3c12345000:4096"},
      {"0x302000000:2097152:pool"},
      {"0x302000000:512:pool", "0x302200000:6291456:pool", "0x312000000:104857600:pool"},
      {"0x10000000:64"},
      {"0x500000000:64", "0x7d0003ffff00:3221225472"},
      {"0x7ffe00000000:8192"},
  };
  for (const std::vector<std::string>& spans : cases) {
    std::vector<std::string> arguments = {"--place"};
    arguments.insert(arguments.end(), spans.begin(), spans.end());
    const ProcessResult r = run_self(arguments);
    std::printf("%s: %s", spans[0].c_str(), r.output.c_str());
    EXPECT_EQ(r.exit_status, 0);
    EXPECT_THAT(r.output, StartsWith("placed")) << testing::PrintToString(spans);
  }
}

// What another process was given by cuMemAlloc and cuMemAllocAsync, placed again: the real task.
TEST(GpuPlacement, AddressesOfAnotherProcess) {
  NEED_DEVICE();
  for (const bool aslr : {true, true, true, false}) {
    const ProcessResult recorded = run_self({"--allocate"}, aslr);
    ASSERT_EQ(recorded.exit_status, 0) << recorded.output;
    std::istringstream words(recorded.output);
    std::vector<std::string> arguments = {"--place"};
    for (std::string w; words >> w;) arguments.push_back(w);
    ASSERT_EQ(arguments.size(), 10u);
    // As `xtrace replay` does: memory that is in the way of this process's own is tried in another layout.
    ProcessResult r = run_self(arguments, aslr);
    for (int layouts = 1; layouts < 6 && r.output.find(not_placed) != std::string::npos; ++layouts) r = run_self(arguments, true);
    std::printf("aslr %s: %s -> %s", aslr ? "on" : "off", recorded.output.c_str(), r.output.c_str());
    EXPECT_EQ(r.exit_status, 0);
    EXPECT_THAT(r.output, StartsWith("placed")) << recorded.output;
  }
}

TEST(GpuPlacement, AddressBeyond47BitsIsRefusedByName) {
  NEED_DEVICE();
  const ProcessResult r = run_self({"--place", "0x900000000000:64"});
  EXPECT_EQ(r.exit_status, 1);
  EXPECT_THAT(r.output,
              HasSubstr("device region 0 (0x900000000000, 64 bytes) reaches beyond 0x800000000000"));
}

TEST(GpuGiveUp, WatchdogEndsTheWaitForAnEndlessKernel) {
  NEED_DEVICE();
  const ProcessResult r = run_self({"--give-up", "spin"});
  std::printf("%s", r.output.c_str());
  EXPECT_EQ(r.exit_status, 0);
  EXPECT_THAT(r.output,
              testing::ContainsRegex("completed=false after=1\\.[0-5] failure=watchdog: no end after 1 s "
                                     "again=kernel spin was given up by the watchdog after 1 s"));
}

TEST(GpuGiveUp, DeviceErrorIsNamedAndStays) {
  NEED_DEVICE();
  const ProcessResult r = run_self({"--give-up", "wild_store"});
  std::printf("%s", r.output.c_str());
  EXPECT_EQ(r.exit_status, 0);
  EXPECT_THAT(r.output, HasSubstr("completed=false"));
  EXPECT_THAT(r.output, HasSubstr("failure=cuEventQuery failed: CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_THAT(r.output, HasSubstr("again=kernel wild_store failed: "));
}

}  // namespace
}  // namespace xtrace::replay
