// A launch on the driver of our own, for the tests of the driver backend.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "replay/driver/driver_backend.h"
#include "tests/unit/replay/fake_driver.h"
#include "tests/unit/replay/launch_builder.h"

#define ASSERT_OK(expr)                          \
  do {                                           \
    const auto ok_ = (expr);                     \
    ASSERT_TRUE(ok_) << ok_.error().to_string(); \
  } while (0)

namespace xtrace::replay {

inline constexpr uint64_t base = 0x7e1230000000;

inline std::unique_ptr<Backend> backend_on(FakeDriver& driver, DriverOptions options = {}) {
  if (options.keep_free_bytes == DriverOptions{}.keep_free_bytes) options.keep_free_bytes = 0;
  Result<std::unique_ptr<Backend>> b = make_driver_backend(driver.api(), options);
  EXPECT_TRUE(b) << b.error().to_string();
  return b ? std::move(*b) : nullptr;
}

// Two regions in one granule; the kernel adds the parameter byte to every byte of the second.
struct Scene {
  FakeDriver driver;
  LaunchImage launch;
  double microseconds = 10;
  Scene() {
    add_region(launch, region(base + 0x100, 0), bytes_of({1, 2, 3, 4}));
    add_region(launch, region(base + 0x200, 0), bytes_of({10, 20, 30, 40}));
    launch.record.kernel = "kernel";
    launch.record.grid = {7, 2, 1};
    launch.record.block = {64, 1, 1};
    launch.record.dynamic_shared_bytes = 512;
    launch.record.param_block = bytes_of({5, 0, 0, 0});
    launch.code = code();
  }
  // The backend with the launch in it, and its code loaded: what most tests begin with.
  struct Ready {
    std::unique_ptr<Backend> b;
    ModuleHandle m = 0;
  };
  Ready ready(DriverOptions options = {}) {
    Ready r{backend_on(driver, options)};
    const Status prepared = r.b->prepare(launch);
    EXPECT_TRUE(prepared) << prepared.error().to_string();
    r.m = r.b->load(launch.code).value();
    return r;
  }
  Bytes code(std::map<std::string, FakeDriver::Variable> variables = {}) {
    return driver.add_code({"kernel",
                            [this](FakeDriver& d, ByteView params) {
                              std::byte* p = d.at(base + 0x200, 4);
                              for (int i = 0; i < 4; ++i)
                                p[i] = static_cast<std::byte>(static_cast<int>(p[i]) +
                                                              static_cast<int>(params[0]));
                              return microseconds;
                            },
                            std::move(variables)});
  }
};

}  // namespace xtrace::replay
