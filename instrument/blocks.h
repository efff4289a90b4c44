// Probe blocks: maximal runs of instructions that one set of lanes executes together and in a row. A block ends where
// control may leave (branch, call, return, exit), where somebody may enter, and where a diverged warp may go on with
// another path (BSYNC, WARPSYNC, BAR, ...): a record may not span such a point, because the other path moves the
// warp's cursor.
#pragma once

#include <vector>

#include "instrument/code.h"

namespace xtrace::instrument {

// Longest block, in instructions: bounds the size of an `inst` record to 1 KiB. Longer runs are cut.
constexpr uint32_t max_block_instructions = 254;

struct ProbeBlock {
  InstIndex first = 0;
  uint32_t count = 0;
  uint32_t number = 0;                // of the block
  InstIndex last() const { return first + count - 1; }
};

struct Blocks {
  static constexpr uint32_t none = 0xffffffff;
  std::vector<ProbeBlock> blocks;     // in code order, reachable code only
  std::vector<uint32_t> block_of;     // by instruction; none for unreachable
  std::vector<std::vector<uint32_t>> successors;
  std::vector<uint32_t> loop_weight;  // 8^(number of retreating edges that span the block), capped: a static guess of
                                      // how hot it is
  // Where a lane goes on that returns from the function that it called at the end of a block (none: no call), and whether a block returns:
  // to behind the last call that the lane has not returned from. Without any where some call or return has a guard.
  std::vector<uint32_t> behind_call;
  std::vector<bool> returns;
  // The kernel's entry, when nothing jumps back to it: every warp executes it exactly once.
  bool runs_once(uint32_t block) const;
  // Some way leads from there back to it; else each lane executes it once at most.
  bool may_repeat(uint32_t block) const;
  bool cyclic = false;                // some block can reach itself (a loop, or a function called from two places)
};

Blocks find_blocks(const Code& code);

// By instruction: whether its block is among the full ones (by block; empty: none is).
std::vector<bool> whole_instructions(const Blocks& blocks, const std::vector<bool>& full_blocks);

}  // namespace xtrace::instrument
