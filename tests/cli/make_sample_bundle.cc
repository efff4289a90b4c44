// Makes the bundle that tests/cli looks at: the same bytes every time.
//   make_sample_bundle DIRECTORY [incomplete]
#include <cstdio>
#include <cstring>

#include "capture/bundle/bundle_writer.h"

namespace xtrace::bundle {
namespace {

// Does not compress: the size of the pack must not depend on the version of zstd.
Bytes noise(uint64_t size, uint64_t seed) {
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

Environment environment_of_sample() {
  Environment e;
  e.gpu_name = "NVIDIA H200";
  e.gpu_uuid = "GPU-00112233";
  e.sm = 90;
  e.sm_count = 132;
  e.memory_bytes = 150'754'820'096;
  e.l2_bytes = 62'914'560;
  e.sm_clock_khz = 1'980'000;
  e.memory_clock_khz = 3'201'000;
  e.driver_version = 13000;
  e.kernel_driver = "580.159.04";
  e.toolkit_version = 13010;
  e.hostname = "node7";
  e.started_at = "2026-01-02T03:04:05Z";
  e.command = {"./app", "--size", "two words", "\x1b[31m"};
  return e;
}

Result<Region> region(BundleWriter& writer, RegionKind kind, uint64_t address, const Bytes& before,
                      const Bytes& after) {
  Region r;
  r.kind = kind;
  r.address = {address};
  r.size = before.size();
  XT_TRY(r.before, writer.put_memory(before));
  if (!after.empty()) {
    XT_TRY(r.after, writer.put_memory(after));
  }
  return r;
}

constexpr uint64_t input = 0x7f1000000000, output = 0x7f1000400000, table = 0x7f1000800000;

// out[i] += in[i], with a pointer to the middle of `in`, one past the end of `out`, and a struct.
Result<LaunchRecord> vector_add(BundleWriter& writer, uint64_t ordinal) {
  LaunchRecord l;
  l.ordinal = ordinal;
  l.kernel = "_Z9vectorAddIfLi4EEvPKT_PS0_i6Limits";
  XT_TRY(l.code, writer.put_code(noise(5000, 1)));
  l.api = "cuLaunchKernelEx";
  l.grid = {4096, 2, 1};
  l.block = {256, 1, 1};
  l.cluster = {2, 1, 1};
  l.dynamic_shared_bytes = 49152;
  l.stream = 0x5566;
  Bytes cluster(64);
  const uint32_t dims[] = {2, 1, 1};
  std::memcpy(cluster.data(), dims, sizeof dims);
  l.attributes = {{4, "cluster_dimension", cluster}};
  l.function.registers = 40;
  l.function.max_threads = 1024;
  l.function.static_shared = 16;
  l.params = {{0, 8}, {8, 8}, {16, 4}, {24, 32}};
  l.param_block.resize(56);
  const uint64_t pointers[] = {input + 0x1000, output};
  std::memcpy(l.param_block.data(), pointers, sizeof pointers);
  const int32_t n = 1048576;
  std::memcpy(l.param_block.data() + 16, &n, sizeof n);
  const uint64_t limits[] = {7, table + 8, output + 3 * chunk_bytes, 9};
  std::memcpy(l.param_block.data() + 24, limits, sizeof limits);
  const Bytes in = noise(2 * chunk_bytes + 1000, 2);
  Bytes out_before = noise(3 * chunk_bytes, 3 + ordinal), out_after = out_before;
  out_after[chunk_bytes + 17] ^= std::byte{1};
  XT_TRY(Region first, region(writer, RegionKind::device, input, in, in));
  XT_TRY(Region second, region(writer, RegionKind::async_pool, output, out_before, out_after));
  XT_TRY(Region third, region(writer, RegionKind::constant, table, noise(256, 4), noise(256, 4)));
  third.symbol = "_ZN2ns5tableE";
  l.regions = {first, second, third};
  l.snapshot_seconds = 0.0125;
  return l;
}

Status make(const char* directory, bool finish) {
  WriterOptions options;
  options.compression_threads = 1;
  XT_TRY(const auto writer, BundleWriter::create(directory, environment_of_sample(), options));
  XT_TRY(const LaunchRecord first, vector_add(*writer, 0));
  XT_TRY_STATUS(writer->add_launch(first));

  LaunchRecord skipped;
  skipped.ordinal = 3;
  skipped.status = LaunchStatus::skipped;
  skipped.kernel = "triton_poi_fused_add_0";
  skipped.skip_reason = "its memory is shared with another process";
  skipped.grid = {7, 1, 1};
  skipped.block = {128, 1, 1};
  XT_TRY_STATUS(writer->add_launch(skipped));

  XT_TRY(LaunchRecord failed, vector_add(*writer, 12));
  for (Region& r : failed.regions) r.after.clear();
  failed.api = "cuLaunchCooperativeKernel";
  failed.cooperative = true;
  failed.cluster = {0, 0, 0};
  failed.attributes.clear();
  failed.kernel =
      "_ZN7cutlass6KernelINS_4gemm6kernel4GemmINS1_11threadblock13MmaMultistageINS1_"
      "9GemmShapeILi128ELi128ELi64EEEEE"
      "EEEEvNT_6ParamsE";
  XT_TRY_STATUS(writer->add_launch(failed));
  if (!finish) return {};
  BundleInfo info;
  info.launches_seen = 15;
  info.application_exit_status = 2;
  info.warnings = {"the stack limit of the context was changed while it ran"};
  return writer->finish(info);
}

}  // namespace
}  // namespace xtrace::bundle

int main(int argc, char** argv) {
  if (argc < 2) return xtrace::exit_usage;
  const auto status = xtrace::bundle::make(argv[1], !(argc > 2 && std::strcmp(argv[2], "incomplete") == 0));
  if (status) return 0;
  std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  return xtrace::exit_code(status.error().kind);
}
