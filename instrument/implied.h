// Blocks that need no record because the records around them tell of every execution: P -> S -> C, where no lane can get from P
// to C, or to the end of the warp, but through S, and P does not end where lanes wait for each other. A lane whose record of P is followed by one of C was in S. What such a block
// lacks is a clock of its own: only blocks of at most two instructions that wait for nothing.
#pragma once

#include <vector>

#include "instrument/blocks.h"

namespace xtrace::instrument {

// By block. Every predecessor and the successor of an implied block have records, and an implied block has at most one successor.
// What comes next tells the ways out of a predecessor apart: its own successors, the successors of implied blocks, and the end.
// `recorded`: blocks that are to have records whatever they are. Where only one of two can be implied it is the one with more
// `executions` (by block; may be empty).
std::vector<bool> implied_blocks(const Code& code, const Blocks& blocks, const std::vector<bool>& recorded,
                                 const std::vector<uint64_t>& executions);

}  // namespace xtrace::instrument
