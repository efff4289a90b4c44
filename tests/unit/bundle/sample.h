// A temporary directory, and launches to store in it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "capture/bundle/bundle_reader.h"
#include "capture/bundle/bundle_writer.h"

namespace xtrace::bundle {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "xtrace-bundle-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TempDir() {
    std::error_code ec;
    std::filesystem::remove_all(path_, ec);
  }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Bytes that no other seed gives and that zstd can not shrink.
inline Bytes noise(uint64_t size, uint64_t seed) {
  Bytes out(size);
  uint64_t x = seed * 0x9e3779b97f4a7c15 + 1;
  for (auto& b : out) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    b = static_cast<std::byte>(x >> 32);
  }
  return out;
}

inline Environment sample_environment() {
  Environment e;
  e.gpu_name = "NVIDIA H200";
  e.gpu_uuid = "GPU-12345678";
  e.sm = 90;
  e.sm_count = 132;
  e.memory_bytes = 150'000'000'000;
  e.l2_bytes = 60 << 20;
  e.sm_clock_khz = 1'980'000;
  e.memory_clock_khz = 3'201'000;
  e.driver_version = 13000;
  e.kernel_driver = "580.159.04";
  e.toolkit_version = 13000;
  e.hostname = "node";
  e.started_at = "2026-01-02T03:04:05Z";
  e.command = {"./app", "--size", "1024", ""};
  return e;
}

// A small launch without memory; the writer must already hold `code`.
inline LaunchRecord sample_launch(uint64_t ordinal, const Hash128& code) {
  LaunchRecord l;
  l.ordinal = ordinal;
  l.kernel = "_Z3addPfS_i";
  l.code = code;
  l.api = "cuLaunchKernel";
  l.grid = {4, 2, 1};
  l.block = {128, 1, 1};
  l.params = {{0, 8}, {8, 8}, {16, 4}};
  l.param_block = noise(24, ordinal);
  return l;
}

template <typename T>
T must(Result<T> r) {
  if (!r) {
    ADD_FAILURE() << r.error().to_string();
    std::abort();
  }
  return std::move(*r);
}
inline void must(const Status& s) { ASSERT_TRUE(s) << s.error().to_string(); }

inline std::unique_ptr<BundleWriter> new_writer(const std::filesystem::path& directory,
                                                WriterOptions options = {}) {
  return must(BundleWriter::create(directory, sample_environment(), options));
}

}  // namespace xtrace::bundle
