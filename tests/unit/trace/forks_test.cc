// Records that say who falls through to the next block.
#include <gtest/gtest.h>

#include "tests/unit/trace/slot_buffer.h"

namespace xtrace::trace {
namespace {

// 0 forks to 1, or to 2, where all wait; 3 ends.
PlainBuffer with_fork() {
  PlainBuffer b(1, 256);
  b.map.blocks.resize(4);
  b.make_short(2);
  b.map.layout.index_bits = 3;
  const std::vector<std::vector<uint32_t>> successors{{1, 2}, {2}, {3}, {0}};
  for (uint32_t k = 0; k < 4; ++k) {
    wire::Block& block = b.map.blocks[k];
    block.successors = successors[k];
    block.least_cycles = 10;
    block.instructions = 4;
    block.exits = k == 3;
    block.implied = k == 2;
    if (k == 1 || k == 2) block.record_bytes = 0;
  }
  b.map.blocks[0].full = b.map.blocks[0].forks = true;
  b.map.blocks[0].fork_cycles = 7;
  b.map.blocks[1].placed = true;
  b.head(0, 0, 0, 1, 5);
  return b;
}

TEST(Forks, WhoFellThrough) {
  PlainBuffer b = with_fork();
  PlainShortRecords record{b};
  record(0, 0xff, 100);   // the second word: of 32 lanes these fell through
  record(3, ~0u, 200);
  record(0, 0, 300);
  record(3, ~0u, 400);
  record(0, ~0u, 500);
  record(3, ~0u, 600);
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  const WarpTrace& t = d.warps[0];
  EXPECT_EQ(t.index, (std::vector<uint32_t>{0, 2, 1, 2, 3, 0, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{~0u, ~0xffu, 0xff, 0xff, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u}));
  EXPECT_EQ(t.clock[2] - t.clock[0], 107u - 100);
  EXPECT_EQ(t.clock[4] - t.clock[0], 100u);
  EXPECT_EQ(t.clock[9] - t.clock[8], 7u);
  EXPECT_TRUE(d.summary.losses.none());
}

TEST(Forks, NobodyFallsThroughWhoWasNotThere) {
  PlainBuffer b = with_fork();
  b.map.layout.last_lanes = 16;
  PlainShortRecords record{b};
  record(0, 0x1ffff, 100);
  record(3, 0xffff, 200);
  EXPECT_FALSE(b.decoded(TraceKind::block).summary.losses.none());
}

}  // namespace
}  // namespace xtrace::trace
