#include "trace/warp_access.h"

namespace xtrace::trace {

WarpAccess warp_access(const wire::Access& access, std::span<const uint32_t> words) {
  constexpr unsigned unit_bytes = 16;
  WarpAccess w;
  for (size_t k = 0; k < access.operands.size() && k < words.size(); ++k) {
    const uint32_t v = words[k];
    using enum wire::Access::Role;
    switch (access.operands[k].role) {
      case global_low: w.global |= v; break;
      case global_high: w.global |= uint64_t{v} << 32; break;
      case shared: w.shared = v; break;
      case shared_from: w.shared_from = v; break;
      case barrier: w.barrier = v; break;
      case size: w.bytes = unit_bytes * (v & 0xffff); break;
      case size_ctas: w.bytes = unit_bytes * (v & 0xffff), w.ctas = v >> 16; break;
      case map_low: w.map |= v; break;
      case map_high: w.map |= uint64_t{v} << 32; break;
      case coordinate:
        if (w.dimensions < w.most_dimensions) w.at[w.dimensions++] = static_cast<int32_t>(v);
        break;
      case ctas: w.ctas = v >> 16, w.pixels = v & 0xffff; break;
      case pixels: w.pixels = v & 0xffff; break;
    }
  }
  return w;
}

}  // namespace xtrace::trace
