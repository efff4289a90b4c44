// The interpreter's own log of what it executed, to hold against traces decoded from instrumented code.
#pragma once

#include <cstdint>

namespace xtrace::replay::interp {

struct WitnessSink {
  virtual ~WitnessSink() = default;
  // One instruction of one warp, in the order of its execution. `warp` counts over the launch:
  // cta_linear * warps_per_cta + warp of the CTA. `active` are the lanes that execute together at this pc,
  // `executed` those of them whose guard holds.
  virtual void executed(uint32_t warp, uint32_t pc, uint32_t active, uint32_t executed) = 0;
};

}  // namespace xtrace::replay::interp
