// Loops of one block that takes a fixed time: lanes count their rounds, each in a register of its own, and nothing is recorded until they
// leave. The record of the block that they leave it for has what each of them counted. Who comes there another way has counted none, so
// the counter is 0 wherever one goes to the loop or past it.
//
// Lanes that come to such a loop together must go round together until they leave, and nobody may join them. That is so where all lanes
// of the warp always came, went round and left together. Else those that leave wait at a BSYNC at once, before they can part or come
// to the loop again: while others are still in it, nobody else goes on [measured H200: docs/isa.md, "How lanes part and meet"]. Lanes that
// left after different rounds may meet there, so that each of them has a word of its own.
#pragma once

#include <vector>

#include "instrument/blocks.h"

namespace xtrace::instrument {

// By block: a conditional branch leads back to itself or on to one other block, which is no such loop; it takes a fixed time; how often
// it goes round does not depend on other warps; and lanes stay together as above. Loops that went round no more often than anybody came
// to the block behind are none, nor twice as often where each lane has a word of its own: such counts cost more than they save.
// `executions`, and `full`, the blocks that no counted execution missed a lane of: by block, or empty.
std::vector<bool> countable_loops(const Code& code, const Blocks& blocks, const std::vector<uint64_t>& executions, const std::vector<bool>& full);
// The block that lanes leave this loop for.
uint32_t behind_loop(const Blocks& blocks, uint32_t loop);
// By block: at its end the counter must be set to 0. `loops`: by block, the loops whose rounds are counted.
std::vector<bool> blocks_before_loops(const Blocks& blocks, const std::vector<bool>& loops);

}  // namespace xtrace::instrument
