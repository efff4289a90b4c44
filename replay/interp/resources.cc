#include "replay/interp/resources.h"

#include <algorithm>

#include "base/bytes.h"

namespace xtrace::replay::interp {
namespace {

constexpr uint32_t warps_per_sm = 64, most_ctas = 32, shared_of_sm = 228u << 10;
constexpr uint32_t partitions = 4, registers_of_partition = 16384, register_unit = 256;
constexpr uint32_t reserved_shared = 1024, shared_unit = 128;

}  // namespace

uint32_t ctas_per_sm(const Dim3& block, uint32_t registers, uint32_t shared_bytes) {
  const auto warps = static_cast<uint32_t>((block.count() + 31) / 32);
  if (warps == 0) return 0;
  const auto per_warp =
      static_cast<uint32_t>(align_up(uint64_t{std::max(registers, 1u)} * 32, register_unit));
  const uint32_t by_registers = partitions * (registers_of_partition / per_warp);
  const auto shared = static_cast<uint32_t>(align_up(uint64_t{std::max(shared_bytes, reserved_shared)}, shared_unit));
  return std::min({most_ctas, warps_per_sm / warps, by_registers / warps, shared_of_sm / shared});
}

}  // namespace xtrace::replay::interp
