#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/inject/cupti_api.h"
#include "capture/inject/environment.h"

namespace xtrace::inject {
namespace {

TEST(CuptiPaths, NewestFirstOwnDirectoryFirstLoaderLast) {
  bundle::RecordSettings settings;
  settings.cupti_paths = "/a::/b";
  EXPECT_THAT(cupti_candidates(settings, "/own"),
              testing::ElementsAre("/own/libcupti.so.13", "/a/libcupti.so.13", "/b/libcupti.so.13",
                                   "libcupti.so.13", "/own/libcupti.so.12", "/a/libcupti.so.12",
                                   "/b/libcupti.so.12", "libcupti.so.12"));
  settings.cupti_paths.clear();
  EXPECT_THAT(cupti_candidates(settings, ""), testing::ElementsAre("libcupti.so.13", "libcupti.so.12"));
}

TEST(KernelDriverVersion, FromBothKindsOfModule) {
  EXPECT_EQ(
      kernel_driver_version(
          "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Jan 1\nGCC version: 12.2.0\n"),
      "580.159.04");
  EXPECT_EQ(kernel_driver_version(
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build\n"),
            "570.86.10");
  EXPECT_EQ(kernel_driver_version("NVRM version: none\nGCC version: gcc version 12.2.0\n"), "");
  EXPECT_EQ(kernel_driver_version(""), "");
}

}  // namespace
}  // namespace xtrace::inject
