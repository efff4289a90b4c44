// What the inserted code of a spliced kernel costs the device, counted: issue slots and cycles of the memory pipe. Costs of single
// instructions: [measured H200, docs/performance.md "What a store costs"].
#pragma once

#include <cstdint>
#include <span>

#include "instrument/instrument.h"

namespace xtrace::instrument {

struct ProbeCost {
  uint64_t issue_slots = 0;    // of a warp: one an instruction, two for a clock of 64 bits; what decides whether it is traced, in all warps
  uint64_t store_cycles = 0;   // of an SM: one a store and one for each register it hands over; four for a line of 32 words
  uint64_t stored_bytes = 0;
  uint64_t partial_stores = 0; // of a warp, of less than whole sectors: all but those of 32 words, and but what
                               // SlotLayout::whole_sectors says
  uint64_t kernel_slots = 0;   // issue slots of the kernel's own instructions, in traced warps
  uint64_t warp_cycles = 0;    // of a warp: stall counts and waits for scoreboards, which delay what stands behind, unless it would wait anyway
};

// Of a launch of so many warps, of which `traced` are, with `executions[b]` executions of each block by a traced warp.
struct LaunchWarps {
  uint64_t all = 0, traced = 0;
};
Result<ProbeCost> probe_cost(const Spliced& spliced, std::string_view kernel, std::span<const uint64_t> executions, LaunchWarps warps);

}  // namespace xtrace::instrument
