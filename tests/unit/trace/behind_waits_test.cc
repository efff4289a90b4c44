// A block without a record behind a loop that waits for others and leaves none.
#include <gtest/gtest.h>

#include "tests/unit/trace/slot_buffer.h"

namespace xtrace::trace {
namespace {

// 0 leads to the loop of 1 and 2, which lanes leave for 3, or for 6; 3, without a record, goes on to 4, without one either, and that to 5, which
// goes round and ends.
PlainBuffer behind_a_wait() {
  PlainBuffer b(1, 256);
  b.map.blocks.resize(7);
  b.make_short(2);
  b.map.layout.index_bits = 3;
  const std::vector<std::vector<uint32_t>> successors{{1}, {2, 3}, {1, 6}, {4}, {5}, {0, 5}, {3}};
  for (uint32_t k = 0; k < 7; ++k) {
    wire::Block& block = b.map.blocks[k];
    block.successors = successors[k];
    block.least_cycles = 10 + k;
    block.instructions = 4;
    block.exits = k == 5;
    block.full = true;
    if (k == 0 || k == 5 || k == 6) continue;
    block.record_bytes = 0;
    block.full = false;
    block.unrecorded = k == 1 || k == 2;
    block.implied = k == 3 || k == 4;
    block.gathered = k == 3;
  }
  b.head(0, 0, 0, 1, 5);
  return b;
}

TEST(BehindWaits, AllLanesCameThrough) {
  PlainBuffer b = behind_a_wait();
  PlainShortRecords record{b};
  record(0, ~0u, 100);
  record(5, ~0u, 500);
  record(5, ~0u, 600);
  record(0, ~0u, 700);
  record(6, ~0u, 800);
  record(5, ~0u, 900);
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  const WarpTrace& t = d.warps[0];
  EXPECT_EQ(t.index, (std::vector<uint32_t>{0, 3, 4, 5, 5, 0, 6, 3, 4, 5}));
  EXPECT_EQ(t.mask, std::vector<uint32_t>(10, ~0u));
  // As late as the next clock allows.
  EXPECT_EQ(t.clock[3] - t.clock[0], 400u);
  EXPECT_EQ(t.clock[3] - t.clock[2], 14u);
  EXPECT_EQ(t.clock[2] - t.clock[1], 13u);
  EXPECT_TRUE(d.summary.losses.none());
}

}  // namespace
}  // namespace xtrace::trace
