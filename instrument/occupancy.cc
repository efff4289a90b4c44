#include "instrument/occupancy.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"

namespace xtrace::instrument {
namespace {

struct Limits {
  unsigned sm;
  uint32_t warps, ctas, shared_bytes;
};
// [CUDA C++ programming guide, technical specifications per compute capability]
constexpr std::array limits = {
    Limits{75, 32, 16, 64 << 10},  Limits{80, 64, 32, 164 << 10}, Limits{86, 48, 16, 100 << 10},
    Limits{87, 48, 16, 164 << 10}, Limits{89, 48, 24, 100 << 10}, Limits{90, 64, 32, 228 << 10},
    Limits{100, 64, 32, 228 << 10}, Limits{103, 64, 32, 228 << 10}, Limits{120, 48, 24, 100 << 10},
    Limits{121, 48, 24, 100 << 10},
};
constexpr uint32_t sm_registers = 65536, allocation_unit = 256, partitions = 4, max_registers = 255;
constexpr uint32_t reserved_shared_per_cta = 1024, shared_unit = 128;   // sm_80 and later

// Of a CTA. From sm_90 on .nv.shared.<kernel> begins with what is reserved: variables stand at 0x400 and behind.
// [nvcc 13.0; measured H200: 13 CTAs of 16 KiB an SM]
uint64_t shared_of(unsigned sm, uint64_t static_shared, uint64_t dynamic_shared) {
  if (sm >= 90) return std::max<uint64_t>(static_shared, reserved_shared_per_cta) + dynamic_shared;
  return static_shared + dynamic_shared + (sm >= 80 ? reserved_shared_per_cta : 0);
}

const Limits& limits_of(unsigned sm) {
  const Limits* best = &limits.front();
  for (const Limits& l : limits)
    if (l.sm <= sm) best = &l;
  return *best;
}

}  // namespace

uint32_t ctas_per_sm(unsigned sm, const LaunchShape& shape, uint32_t registers, uint32_t static_shared) {
  const Limits& l = limits_of(sm);
  const auto warps = static_cast<uint32_t>((shape.block.count() + 31) / 32);
  if (warps == 0 || registers > max_registers) return 0;
  const auto per_warp = static_cast<uint32_t>(align_up(uint64_t{registers} * 32, allocation_unit));
  const uint32_t by_registers = per_warp == 0 ? l.warps : partitions * (sm_registers / partitions / per_warp);
  const auto shared = static_cast<uint32_t>(
      align_up(shared_of(sm, static_shared, shape.dynamic_shared_bytes), shared_unit));
  uint32_t ctas = std::min({l.ctas, l.warps / warps, by_registers / warps});
  if (shared != 0) ctas = std::min(ctas, l.shared_bytes / shared);
  return ctas;
}

uint32_t free_register_count(unsigned sm, const LaunchShape& shape, uint32_t registers, uint32_t static_shared) {
  const uint32_t now = ctas_per_sm(sm, shape, registers, static_shared);
  uint32_t best = registers;
  for (uint32_t r = registers + 1; r <= max_registers && ctas_per_sm(sm, shape, r, static_shared) == now; ++r) best = r;
  return best;
}

uint32_t launchable_register_count(unsigned sm, const LaunchShape& shape) {
  uint32_t best = 0;
  for (uint32_t r = 1; r <= max_registers; ++r)
    if (ctas_per_sm(sm, shape, r, 0) > 0) best = r;
  return best;
}

}  // namespace xtrace::instrument
