// Runs a decoded kernel over its grid. Deterministic: CTAs in order, warps of a CTA in turns, paths of a warp
// in turns; a CTA that spins lets the next one start. CTAs of a cluster start together.
#pragma once

#include <optional>

#include "base/status.h"
#include "replay/interp/memory_map.h"
#include "replay/interp/program.h"
#include "replay/interp/witness.h"

namespace xtrace::replay::interp {

struct EngineOptions {
  uint64_t instruction_limit = 4'000'000'000;  // instructions of warps; then the launch counts as hung
  WitnessSink* witness = nullptr;
  bool late = false;  // results come as late as the control bits allow (late.h)
};

struct EngineResult {
  uint64_t warp_instructions = 0, lane_instructions = 0;
  uint64_t cycles = 0;  // modelled, of the longest SM
};

// unsupported or bad_input when the clusters of a launch can not be modelled.
Status check_cluster(const bundle::LaunchRecord& record);

// device error: the kernel did something that hardware would stop too, or it hangs. unsupported: it reached
// what is not implemented. Both name kernel, pc, instruction, warp and lane.
Result<EngineResult> execute(const Program& program, const LaunchImage& launch, MemoryMap& memory,
                             const EngineOptions& options);

}  // namespace xtrace::replay::interp
