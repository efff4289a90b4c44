// Blocks behind loops that wait for others, where these loops leave no records. All lanes of the warp come out of the loop and execute the
// block together, in every counted execution, and go on together to one block with a record. So its executions follow from that
// record, and its clock as well, where it takes a fixed time. Had lanes come out one by one, they would come one by one to that record too, as
// they meet nowhere before: there would be more executions of it than were counted.
#pragma once

#include <vector>

#include "instrument/blocks.h"

namespace xtrace::instrument {

// As records see the blocks: in place of those in `unrecorded` the blocks that lanes come out of them for. Those themselves lead nowhere.
Blocks past_unrecorded(const Blocks& blocks, const std::vector<bool>& unrecorded);

// By block: entered from blocks in `unrecorded`, of fixed time, and no counted execution missed a lane (`full`).
std::vector<bool> blocks_behind_waits(const Code& code, const Blocks& blocks, const std::vector<bool>& unrecorded, const std::vector<bool>& full);

// Whether the executions of such a block follow from those of the next block with a record. `seen`: past_unrecorded().
bool told_by_next_record(const Code& code, const Blocks& seen, const std::vector<bool>& implied, const std::vector<bool>& full,
                         const std::vector<uint64_t>& executions, uint32_t block);

}  // namespace xtrace::instrument
