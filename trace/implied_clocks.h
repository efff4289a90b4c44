// Clocks that nobody read. An instruction issues no earlier than the stall count of the one in front of it allows, so between two
// clocks that were read only the sum of what came on top is known.
#pragma once

#include <cstdint>
#include <span>

#include "trace/wire/address_map.h"

namespace xtrace::trace {

// `clocks`: of the instructions of one execution of `block`, those that were read (Block::has_clock) filled in. Fills in the others:
//   in front of the first one read, as late as it allows; behind the last one as early;
//   between two, where an instruction waits: up to the first that does as early, behind it as late as the stall counts allow;
//   where none does: other warps had the slot in between, and each stall count is stretched alike.
// They never pass the clock behind them.
void place_clocks(const wire::Block& block, std::span<uint64_t> clocks);
// The same for a block of which none was read: the first as late as `next` allows, and not before `from`; each behind the other by
// its stall count, and none behind `next`.
void place_clocks(const wire::Block& block, uint64_t from, uint64_t next, std::span<uint64_t> clocks);

}  // namespace xtrace::trace
