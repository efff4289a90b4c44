// Blocks and clocks that no record holds: they follow from the records around them.
#include <gtest/gtest.h>

#include "tests/unit/trace/slot_buffer.h"
#include "trace/invariants.h"

namespace xtrace::trace {
namespace {

// 0 leads to 1 itself, and to 2 through 3; in 3 and 2 lanes may end.
TEST(PlainSlots, ImpliedBlocksFollowFromTheirNeighbours) {
  PlainBuffer b(1, 128);
  b.map.blocks.resize(4);
  b.make_short(2);
  b.map.layout.index_bits = 3;
  b.map.blocks[0].successors = {1, 3};
  b.map.blocks[1].successors = {0};
  b.map.blocks[1].exits = false;
  b.map.blocks[2].exits = true;
  b.map.blocks[3].instructions = 1;
  b.map.blocks[3].record_bytes = 0;
  b.map.blocks[3].least_cycles = 4;
  b.map.blocks[0].least_cycles = 7;
  b.map.blocks[3].successors = {2};
  b.map.blocks[3].exits = b.map.blocks[3].implied = true;
  b.head(0, 0, 0, 1, 5);
  PlainShortRecords record{b};
  record(0, 0xff, 10);
  record(1, 0x0f, 20);   // lanes 4..7 of the 0 before are in 3, of which 6 and 7 end
  record(0, 0x0f, 30);   // all go to 3
  record(2, 0x3f, 40);
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  const WarpTrace& t = d.warps[0];
  EXPECT_EQ(t.index, (std::vector<uint32_t>{0, 3, 1, 0, 3, 2}));
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{0xff, 0xf0, 0x0f, 0x0f, 0x0f, 0x3f}));
  ASSERT_EQ(t.clock.size(), 6u);
  EXPECT_EQ(t.clock[1] - t.clock[0], 10u - 4);   // as late as the next clock allows
  EXPECT_EQ(t.clock[4] - t.clock[3], 10u - 4);
  EXPECT_EQ(t.clock[5] - t.clock[3], 10u);
  EXPECT_EQ(d.summary.losses.count(LossSeverity::lost), 0u);

  record(0, 0x100, 50);   // and a last one: its end is in 3
  const auto ended = b.decoded(TraceKind::block);
  EXPECT_EQ(ended.warps[0].index.back(), 3u);
  EXPECT_EQ(ended.warps[0].mask.back(), 0x100u);
  EXPECT_EQ(ended.warps[0].clock[7] - ended.warps[0].clock[6], 7u);   // as early as the clock before allows
  EXPECT_EQ(ended.summary.losses.count(LossSeverity::distrust), 0u);
}

// 0 leads to 1, to 2 through 3, to 4 through 3 and 5, and lanes end in 5.
TEST(PlainSlots, ImpliedBlocksInARow) {
  PlainBuffer b(1, 128);
  b.map.blocks.resize(6);
  b.make_short(2);
  b.map.layout.index_bits = 3;
  const std::vector<std::vector<uint32_t>> successors{{1, 3}, {}, {}, {2, 5}, {}, {4}};
  for (uint32_t k = 0; k < 6; ++k) {
    wire::Block& block = b.map.blocks[k];
    block.successors = successors[k];
    block.least_cycles = 5;
    block.exits = k != 0 && k != 3;
    block.implied = k == 3 || k == 5;
    block.instructions = 1;
    block.record_bytes = block.implied ? 0 : 8;
  }
  b.head(0, 0, 0, 1, 5);
  PlainShortRecords record{b};
  record(0, 0xffff, 100);
  record(2, 0x00f0, 140);
  record(4, 0x0f00, 150);
  record(1, 0x000f, 160);   // lanes 12 to 15 end in 5
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  const WarpTrace& t = d.warps[0];
  EXPECT_EQ(t.index, (std::vector<uint32_t>{0, 3, 5, 2, 4, 1}));
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{0xffff, 0xfff0, 0xff00, 0x00f0, 0x0f00, 0x000f}));
  ASSERT_EQ(t.clock.size(), 6u);
  EXPECT_EQ(t.clock[1] - t.clock[0], 30u);
  EXPECT_EQ(t.clock[2] - t.clock[0], 35u);
  EXPECT_EQ(d.summary.losses.count(LossSeverity::lost), 0u);

  // Where time is too short for them all they begin with their record, and never before it.
  b.put(0, sizeof(wire::SlotHead), 137u << 3 | 1);
  const auto squeezed = b.decoded(TraceKind::block);
  EXPECT_EQ(squeezed.warps[0].clock[2], squeezed.warps[0].clock[0]);
  EXPECT_EQ(squeezed.warps[0].clock[1], squeezed.warps[0].clock[0]);
}

// Packed inst records of which some clocks were not read: halves at the end of the block, the next record behind it.
TEST(PlainSlots, ImpliedClocksLieBetweenThoseThatWereRead) {
  PlainBuffer b(1, 128);
  b.make_inst();
  b.map.layout.index_bits = 4;
  using P = wire::ClockPlace;
  b.map.blocks[1].instructions = b.map.blocks[1].clocks = 6;
  b.map.blocks[1].record_bytes = 16;
  b.map.blocks[1].full = true;
  b.map.blocks[1].clock_at = {{0, P::in_head, 4}, {0, P::implied, 4, true}, {4, 2, 4}, {0, P::implied, 4}, {6, 2, 5}, {0, P::implied, 4}};
  b.head(0, 0, 0, 1, 0x0001fff0);
  b.put(0, 16, wire::Chunk{{0x0001fff8u << 4 | 2, 0x0030u << 16 | 0x0010, 0, 0}});
  b.put(0, 32, wire::Chunk{{0x00020040u << 4 | 2, 0x0060u << 16 | 0x0050, 0, 0}});
  const auto d = b.decoded(TraceKind::inst);
  const WarpTrace& t = d.warps[0];
  std::vector<uint32_t> low;
  for (uint64_t c : t.clock) low.push_back(static_cast<uint32_t>(c));
  EXPECT_EQ(low, (std::vector<uint32_t>{0x1fff8, 0x1fffc, 0x20010, 0x20020, 0x20030, 0x20035,   //
                                        0x20040, 0x20044, 0x20050, 0x20058, 0x20060, 0x20065}));
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{~0u, ~0u}));
  EXPECT_EQ(b.view().doubtful_clocks, 0u);
  EXPECT_EQ(b.headers()[0].exit_clock_lo, 0x20065u);
  EXPECT_TRUE(d.summary.losses.none());
  // The last clock that was read is a half: behind it 65,536 cycles may have passed at once.
  b.put(0, 32, wire::Chunk{{0x00070040u << 4 | 2, 0x0060u << 16 | 0x0050, 0, 0}});
  EXPECT_EQ(b.view().doubtful_clocks, 1u);
}

// The same 0, 1, 2 and 3 as above in inst records: 3 has none.
TEST(PlainSlots, ImpliedBlocksHaveImpliedClocks) {
  PlainBuffer b(1, 256);
  using P = wire::ClockPlace;
  b.map.blocks.resize(4);
  const std::vector<std::vector<uint32_t>> successors{{1, 3}, {0}, {}, {2}};
  for (uint32_t k = 0; k < 4; ++k) {
    wire::Block& block = b.map.blocks[k];
    block.successors = successors[k];
    block.instructions = block.clocks = 2;
    block.least_cycles = 8;
    block.exits = k >= 2;
    block.implied = k == 3;
    block.record_bytes = block.implied ? 0 : 16;
    for (uint32_t i = 0; i < 2; ++i) block.clock_at.push_back({static_cast<uint16_t>(8 + 4 * i), block.implied ? P::implied : uint8_t{4}, 4});
  }
  b.head(0, 0, 0, 1, 5);
  uint32_t at = 16;
  const auto record = [&](uint32_t block, uint32_t mask, uint32_t first, uint32_t second) {
    b.put(0, at, wire::Chunk{{wire::word0(wire::RecordKind::inst, block), mask, first, second}});
    at += 16;
  };
  record(0, 0xff, 10, 14);
  record(1, 0x0f, 40, 44);   // lanes 4..7 of the 0 before are in 3, of which 6 and 7 end
  record(0, 0x0f, 50, 54);   // all go to 3
  record(2, 0x3f, 59, 63);   // too soon for all of it
  const auto d = b.decoded(TraceKind::inst);
  ASSERT_EQ(d.warps.size(), 1u);
  const WarpTrace& t = d.warps[0];
  EXPECT_EQ(t.index, (std::vector<uint32_t>{0, 3, 1, 0, 3, 2}));
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{0xff, 0xf0, 0x0f, 0x0f, 0x0f, 0x3f}));
  std::vector<uint32_t> low;
  for (uint64_t c : t.clock) low.push_back(static_cast<uint32_t>(c));
  EXPECT_EQ(low, (std::vector<uint32_t>{10, 14, 32, 36, 40, 44, 50, 54, 54, 58, 59, 63}));
  EXPECT_TRUE(d.summary.losses.none());
  const auto view = b.view();
  InvariantChecker order(view.map, TraceKind::inst);   // 54 twice is no step back
  order.check(t);
  EXPECT_EQ(order.result().violations(), 0u);
  WarpTrace back = t;
  back.clock[8] = 53;
  InvariantChecker broken(view.map, TraceKind::inst);
  broken.check(back);
  EXPECT_EQ(broken.result().row(Invariant::clock_order).violated, 1u);
  WarpTrace equal = t;   // clocks that were read are never the same
  equal.clock[1] = equal.clock[0];
  InvariantChecker read(view.map, TraceKind::inst);
  read.check(equal);
  EXPECT_EQ(read.result().row(Invariant::clock_order).violated, 1u);

  record(0, 0x100, 80, 84);   // and a last one: its end is in 3
  const auto ended = b.decoded(TraceKind::inst);
  EXPECT_EQ(ended.warps[0].index.back(), 3u);
  EXPECT_EQ(ended.warps[0].clock.back() - ended.warps[0].clock[12], 12u);   // as early as the clock before allows
  EXPECT_EQ(ended.summary.losses.count(LossSeverity::distrust), 0u);
}

// 0 leads to 1 and past it, both ways meet in 2, from where all lanes go on together: to 0, or through 3 to the end.
TEST(PlainSlots, LanesOfAGatheredBlockComeByDifferentWays) {
  PlainBuffer b(1, 256);
  b.map.blocks.resize(4);
  b.make_short(2);
  b.map.layout.index_bits = 3;
  const std::vector<std::vector<uint32_t>> successors{{1, 2}, {2}, {0, 3}, {}};
  for (uint32_t k = 0; k < 4; ++k) {
    wire::Block& block = b.map.blocks[k];
    block.successors = successors[k];
    block.least_cycles = 5;
    block.exits = k == 3;
    block.implied = k > 1;
    block.gathered = k == 2;
    block.instructions = 1;
    block.record_bytes = block.implied ? 0 : 8;
  }
  b.head(0, 0, 0, 1, 5);
  PlainShortRecords record{b};
  record(0, ~0u, 100);
  record(1, 0x000000ff, 120);   // some take the longer way
  record(0, ~0u, 150);          // nobody does
  record(0, ~0u, 180);
  record(1, ~0u, 200);          // all do, and end
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  const WarpTrace& t = d.warps[0];
  EXPECT_EQ(t.index, (std::vector<uint32_t>{0, 1, 2, 0, 2, 0, 1, 2, 3}));
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{~0u, 0xff, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u}));
  ASSERT_EQ(t.clock.size(), 9u);
  EXPECT_EQ(t.clock[2] - t.clock[0], 45u);   // as late as the next clock allows
  EXPECT_EQ(t.clock[4] - t.clock[0], 75u);
  EXPECT_EQ(t.clock[7] - t.clock[0], 105u);  // as early as the clock before allows
  EXPECT_EQ(t.clock[8] - t.clock[0], 110u);
  EXPECT_EQ(d.summary.losses.count(LossSeverity::lost), 0u);
  EXPECT_EQ(d.summary.losses.count(LossSeverity::distrust), 0u);
}

// 0 goes on to 1 and to 2, which both call 5; it returns to 3 and to 4, from where lanes come to 6.
TEST(PlainSlots, LanesReturnBehindTheirOwnCalls) {
  PlainBuffer b(1, 256);
  b.map.blocks.resize(7);
  b.make_short(2);
  b.map.layout.index_bits = 3;
  const std::vector<std::vector<uint32_t>> successors{{1, 2}, {5}, {5}, {6}, {6}, {3, 4}, {}};
  for (uint32_t k = 0; k < 7; ++k) {
    wire::Block& block = b.map.blocks[k];
    block.successors = successors[k];
    block.implied = k == 3 || k == 4;
    block.record_bytes = block.implied ? 0 : 8;
    block.least_cycles = 5;
  }
  b.map.blocks[1].behind_call = 3;
  b.map.blocks[2].behind_call = 4;
  b.map.blocks[5].returns = true;
  b.map.blocks[6].exits = true;
  b.head(0, 0, 0, 1, 5);
  const std::vector<std::pair<uint32_t, uint32_t>> records{{0, ~0u}, {1, 0xff}, {2, ~0xffu}, {5, ~0u}, {6, ~0u}};
  for (uint32_t k = 0; k < records.size(); ++k) {
    b.put(0, sizeof(wire::SlotHead) + 8 * k, (10 + 20 * k) << 3 | (records[k].first + 1));
    b.put(0, sizeof(wire::SlotHead) + 8 * k + 4, records[k].second);
  }
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  EXPECT_EQ(d.warps[0].index, (std::vector<uint32_t>{0, 1, 2, 5, 3, 4, 6}));
  EXPECT_EQ(d.warps[0].mask, (std::vector<uint32_t>{~0u, 0xff, ~0xffu, ~0u, 0xff, ~0xffu, ~0u}));
  EXPECT_EQ(d.summary.losses.count(LossSeverity::distrust), 0u);
}

}  // namespace
}  // namespace xtrace::trace
