// Regions without records in which each lane numbers the way that it takes: unrolled loops and the like, whose lanes leave one after another
// for one block, or end. The numbers stand in a register above the kernel's that costs no occupancy. The block that all ways lead to
// records them, one of each lane; a lane that ends leaves its own in its warp's slot, under the guard of its EXIT. A lane ends once, so that there is
// one place for it, whatever else the warp records meanwhile.
//
// Such a region is entered from one block with a record, `from`, alone; nothing leads back in it, so that its blocks follow in an order; and
// nothing leads out of it but to one block, `to`, which is entered from there alone. It holds nothing that takes a variable time, nothing that goes
// through a queue, and no place where lanes wait for each other but the last before `to`. So lanes that come from `from` together and go the same way stay
// together, and what each block's executions were follows from the lanes' ways.
#pragma once

#include <vector>

#include "instrument/blocks.h"

namespace xtrace::instrument {

struct WayRegion {
  struct Part {
    uint32_t block = 0;
    uint32_t number = 0;   // the lane's number from its end on; 0: what it was
    uint32_t adds = 0;     // and so much more than it was
  };
  uint32_t from = 0, to = 0;
  uint32_t start = 0;        // the lane's number from the end of `from` on; 0: none is needed
  std::vector<Part> parts;   // each behind those that lead to it
};

constexpr uint32_t most_way_steps = 512;   // blocks on all ways through a region, one way after the other: what a decoder has to look at

// Those that pay, apart from each other, with as few numbers as tell the ways. `implied`: blocks that need no record as it is; `recorded`: those that are to
// have one whatever they are. `executions`: how often each block was executed: without these there are none. `full`: no lane was missing. All by block.
std::vector<WayRegion> way_regions(const Code& code, const Blocks& blocks, const std::vector<bool>& recorded, const std::vector<bool>& implied,
                                   const std::vector<uint64_t>& executions, const std::vector<bool>& full);

// Whether the numbers that lanes have in the end tell which way they came: to `to`, and to where they end.
bool tells_ways(const Code& code, const Blocks& blocks, const WayRegion& region);

// It may stand in a region.
bool may_number(const Code& code, const Blocks& blocks, uint32_t block);
// Lanes may end at the end of the block.
bool may_end(const Code& code, const ProbeBlock& block);

}  // namespace xtrace::instrument
