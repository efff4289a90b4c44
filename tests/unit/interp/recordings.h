// The launches that stand in the tree, recorded on an H200 (fixtures/MANIFEST.md).
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "instrument/cubin/image.h"
#include "replay/session.h"

namespace xtrace::interp_test {

// In the checkout that this was built in; on another machine in the one that it is run in.
inline std::filesystem::path bundles_folder() {
  const auto built = std::filesystem::path(XTRACE_SOURCE_DIR) / "fixtures/bundles";
  return std::filesystem::exists(built) ? built : "fixtures/bundles";
}
inline std::array<std::filesystem::path, 4> recordings() {
  const std::filesystem::path bundles = bundles_folder();
  return {bundles / "kernels13-small.xtr", bundles / "hard_cases-small.xtr",
          bundles / "wgmma_bfloat16-small.xtr", bundles / "dependent_launch-small.xtr"};
}

inline replay::LaunchImage recorded_launch(const std::string& kernel) {
  for (const std::filesystem::path& recording : recordings()) {
    auto reader = bundle::BundleReader::open(recording);
    if (!reader) throw std::runtime_error(reader.error().to_string());
    for (const bundle::LaunchRecord& r : (*reader)->launches())
      if (r.kernel == kernel) {
        auto launch = replay::load_launch(**reader, r.ordinal);
        if (!launch) throw std::runtime_error(launch.error().to_string());
        return std::move(*launch);
      }
  }
  throw std::runtime_error("no launch of " + kernel);
}

inline std::vector<std::string> cubin_kernels(ByteView cubin) {
  auto image = cubin::Image::parse(cubin);
  return image ? image->kernels() : std::vector<std::string>();
}

// In the order of the recordings: the thirteen kernels, then the hard cases.
inline const std::vector<std::string>& recorded_kernels() {
  static const std::vector<std::string> names = {
      "saxpy",        "transpose_tiled",   "reduce_sum",     "histogram",          "sgemm",
      "wmma_gemm",    "spmv_csr",          "warp_scan",      "device_calls",       "switch_table",
      "double_math",  "constant_global",   "collatz",

      "recursion",    "function_pointers", "loop_exits",     "spin_lock",          "group_tiles",
      "grid_sync",    "big_shared",        "many_registers", "three_instructions", "partial_warp",
      "grid_3d",      "half_math",         "launch_bounds",  "cluster_shared",

      "assert_holds", "async_copy",        "bulk_copy",      "cluster_copy",       "warp_specialised",
      "tensor_copy",  "wgmma_gemm",        "wgmma_layouts",  "wgmma_rounding",     "bank_conflicts",
      "wgmma_bfloat16",
      "dependent_launch"};
  return names;
}

}  // namespace xtrace::interp_test
