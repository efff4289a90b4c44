// Which instructions have a clock of their own under `inst`. An instruction that waits for nothing issues as many cycles behind the
// one in front of it as that one's stall count says, unless another warp has the slot: its clock is implied by the clocks around it.
#pragma once

#include <vector>

#include "instrument/blocks.h"

namespace xtrace::instrument {

// When the instruction behind one may issue.
enum class Pace : uint8_t {
  fixed,    // when its stall count is over
  queued,   // the same, unless a queue or pipe is full that several instructions go through: memory, MUFU, special registers, tensor cores [guess]
  waits,    // when the stall count is over, but itself it waits for scoreboards or for other lanes and warps first
};
Pace pace_of(const CodeInst& inst);
constexpr unsigned most_queued = 4;   // between two clocks

// Of a block: by instruction, whether it has a clock. The first one has, each behind one that waits, and each in front of which
// more than `most_cycles` stall cycles or several queued instructions would pass without. most_cycles 0: all have.
std::vector<bool> clock_places(const Code& code, const ProbeBlock& block, unsigned most_cycles);

}  // namespace xtrace::instrument
