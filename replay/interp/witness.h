// The interpreter's own log of what it executed, to hold against traces decoded from instrumented code.
#pragma once

#include <cstdint>

#include "instrument/sass/effects.h"

namespace xtrace::replay::interp {

struct WitnessSink {
  virtual ~WitnessSink() = default;
  // One instruction of one warp, in the order of its execution. `warp` counts over the launch:
  // cta_linear * warps_per_cta + warp of the CTA. `active` are the lanes that execute together at this pc,
  // `executed` those of them whose guard holds.
  virtual void executed(uint32_t warp, uint32_t pc, uint32_t active, uint32_t executed) = 0;
  // One lane of that instruction accesses memory: the address as the instruction forms it. Lanes in ascending order.
  virtual void accessed(sass::MemSpace, uint32_t /*lane*/, uint64_t /*address*/, uint32_t /*bytes*/) {}
};

}  // namespace xtrace::replay::interp
