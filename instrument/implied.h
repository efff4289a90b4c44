// Blocks that need no record because the records around them tell of every execution. A lane goes from one record R to its next
// record C, or to its end; where only one way through blocks without records leads there, it went that way. Lanes that leave R
// together and go the same way stay together, unless they pass a place where lanes wait for each other: behind such a place there is
// a record, but where all lanes of the warp came to it together, or where all of them went on together however they came (a gathered
// block). How often they did is how often any of them did. A lane that returns goes on behind its last call that it has not returned
// from: from a record that returns, one way is told for each of these places.
//
// A loop of one such block has no record a round where its lanes count: the record of the block that they leave it for says how many
// rounds each of them did, which is none for those that came there another way. Round k was executed together by the lanes that did k or more,
// of those that came to the loop together (rounds.h).
//
// A region in which lanes number their ways has no records either (way_numbers.h): those of the blocks in front of it and behind it tell all of it.
//
// What such a block lacks is a clock of its own. So it holds nothing that takes a variable time: no wait for a scoreboard, no barrier but a
// last BSYNC or WARPSYNC, only instructions of fixed latency and branches, and of those that go through a queue (clocks.h) a few; and
// from one record to the next the stall counts of the blocks between sum up to 96 cycles at most. When it began then follows from the next
// clock, but for cycles in which other warps issued.
#pragma once

#include <vector>

#include "instrument/blocks.h"
#include "instrument/way_numbers.h"

namespace xtrace::instrument {

// By block; the entry is none of them. `recorded`: blocks that are to have records whatever they are. Blocks with more `executions`
// come first where not all can be implied. `full`: no counted execution missed a lane. `queued`: instructions that go through queues behind
// the last clock in its record. `loops`: whose lanes could count their rounds; those of them that are implied have to. All by block, and
// may be empty. `regions`: in which lanes number their ways.
std::vector<bool> implied_blocks(const Code& code, const Blocks& blocks, const std::vector<bool>& recorded,
                                 const std::vector<uint64_t>& executions, const std::vector<bool>& full,
                                 const std::vector<unsigned>& queued = {}, const std::vector<bool>& loops = {},
                                 const std::vector<WayRegion>& regions = {});

// Of these, the ones that are known because they are full: lanes come to the place in front one after another.
std::vector<bool> gathered_blocks(const Code& code, const Blocks& blocks, const std::vector<bool>& implied, const std::vector<bool>& full);

// Whether all of a block is known to take the time that its stall counts say, but for cycles in which other warps issue.
bool takes_fixed_time(const Code& code, const ProbeBlock& block);

}  // namespace xtrace::instrument
