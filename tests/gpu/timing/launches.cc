#include "tests/gpu/timing/launches.h"

#include "tests/gpu/timing/cubin.h"

namespace xtrace::replay {
namespace {

constexpr uint64_t base = 0x7e0000000000;   // 1 GiB apart

void add_region(LaunchImage& launch, uint64_t bytes) {
  bundle::Region r;
  r.kind = bundle::RegionKind::device;
  r.address = {base + (uint64_t{launch.before.size()} << 30)};
  r.size = bytes;
  launch.record.regions.push_back(std::move(r));
  launch.before.emplace_back(bytes);
}

// The regions' addresses and a number.
void set_params(LaunchImage& launch, uint32_t n) {
  Bytes& block = launch.record.param_block;
  const auto add = [&](auto value) {
    launch.record.params.push_back({static_cast<uint32_t>(block.size()), sizeof value});
    append(block, value);
  };
  for (const bundle::Region& r : launch.record.regions) add(r.address.value);
  add(n);
}

LaunchImage make(const char* kernel, uint32_t ctas, uint32_t threads, std::vector<uint64_t> regions, uint32_t n) {
  LaunchImage launch;
  launch.record.kernel = kernel;
  launch.record.grid = {ctas, 1, 1};
  launch.record.block = {threads, 1, 1};
  const ByteView code = timing_cubin();
  launch.code.assign(code.begin(), code.end());
  for (uint64_t bytes : regions) add_region(launch, bytes);
  set_params(launch, n);
  return launch;
}

}  // namespace

unsigned known_warps(TimedLaunch which) { return known_ctas * (which == TimedLaunch::crowd ? 32 : 2); }

LaunchImage timed_launch(TimedLaunch which) {
  constexpr uint64_t floats = 528 * 128 * 4;
  LaunchImage launch;
  switch (which) {
    case TimedLaunch::chain: launch = make("chain", 528, 128, {floats}, 400); break;
    case TimedLaunch::stream: launch = make("stream", 528, 512, {18ull << 20, 18ull << 20}, 1 << 20); break;
    case TimedLaunch::in_place: launch = make("in_place", 528, 128, {floats}, 1000); break;
    case TimedLaunch::two_modes: launch = make("two_modes", 528, 128, {floats, 4096}, 400); break;
    case TimedLaunch::drifting: launch = make("drifting", 528, 128, {floats, 4096}, 400); break;
    case TimedLaunch::burn: launch = make("burn", 528, 256, {2 * floats}, 60'000); break;
    case TimedLaunch::known:
    case TimedLaunch::crowd:
      launch = make("known", known_ctas, 32 * known_warps(which) / known_ctas,
                    {4096, 8 << 17, known_warps(which) * known_words * sizeof(uint64_t)}, 0);
      break;
    case TimedLaunch::ring:
      launch = make("ring", ring_ctas, 32, {4096, ring_hops * sizeof(Hop)}, ring_hops);
      launch.record.dynamic_shared_bytes = 200 << 10;   // one CTA an SM
      break;
  }
  if (which == TimedLaunch::known || which == TimedLaunch::crowd) {
    const auto fill = [&](size_t region, uint32_t words, uint32_t step) {
      auto* p = reinterpret_cast<uint64_t*>(launch.before[region].data());
      for (uint32_t i = 0; i < words; ++i) p[i] = launch.record.regions[region].address.value + (i + step) % words * sizeof *p;
    };
    fill(0, 16, 1);          // one line
    fill(1, 1 << 17, 16);    // from line to line
  }
  launch.record.ordinal = static_cast<uint64_t>(which);
  return launch;
}

}  // namespace xtrace::replay
