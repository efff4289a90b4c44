// The launches recorded on an H200 that stand in the tree.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "instrument/cubin/image.h"
#include "replay/session.h"

namespace xtrace::interp_test {

inline std::filesystem::path recording() {
  return std::filesystem::path(XTRACE_SOURCE_DIR) / "fixtures/bundles/kernels13-small.xtr";
}

inline replay::LaunchImage recorded_launch(const std::string& kernel) {
  auto reader = bundle::BundleReader::open(recording());
  if (!reader) throw std::runtime_error(reader.error().to_string());
  for (const bundle::LaunchRecord& r : (*reader)->launches())
    if (r.kernel == kernel) {
      auto launch = replay::load_launch(**reader, r.ordinal);
      if (!launch) throw std::runtime_error(launch.error().to_string());
      return std::move(*launch);
    }
  throw std::runtime_error("no launch of " + kernel);
}

inline std::vector<std::string> cubin_kernels(ByteView cubin) {
  auto image = cubin::Image::parse(cubin);
  return image ? image->kernels() : std::vector<std::string>();
}

// All thirteen, in the order of the recording.
inline const std::vector<std::string>& recorded_kernels() {
  static const std::vector<std::string> names = {
      "saxpy",       "transpose_tiled", "reduce_sum", "histogram",    "sgemm",
      "wmma_gemm",   "spmv_csr",        "warp_scan",  "device_calls", "switch_table",
      "double_math", "constant_global", "collatz"};
  return names;
}

}  // namespace xtrace::interp_test
