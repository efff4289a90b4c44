// Loops in which a warp waits for others: for a barrier in shared memory, a flag, a lock. How often they go round differs from
// one execution to the next, and nothing else does: a path that differs there alone is the same path.
#pragma once

#include <vector>

#include "instrument/blocks.h"

namespace xtrace::instrument {

// By block: it lies in a loop whose end depends on what others did (a barrier in shared memory tried, a load that is ordered, the
// result of an atomic, registers asked for), and that stores nothing but by such atomics.
std::vector<bool> waiting_blocks(const Code& code, const Blocks& blocks);

// Of these, the blocks of loops that do nothing but ask again: all memory they touch is what they ask. Their executions tell nothing
// of the kernel that the blocks around them do not tell.
std::vector<bool> polling_blocks(const Code& code, const Blocks& blocks);

}  // namespace xtrace::instrument
