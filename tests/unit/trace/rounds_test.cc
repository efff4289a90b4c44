// Loops whose rounds are counted: what follows from the counts in the records of the block behind.
#include <gtest/gtest.h>

#include "tests/unit/trace/slot_buffer.h"

namespace xtrace::trace {
namespace {

// 0 leads to the loop 2 through 1, and past it to 3, where lanes come from the loop; 4 ends.
PlainBuffer with_loop() {
  PlainBuffer b(1, 1024);
  b.map.blocks.resize(5);
  b.make_short(2);
  b.map.layout.index_bits = 3;
  const std::vector<std::vector<uint32_t>> successors{{1, 3}, {2}, {2, 3}, {4}, {}};
  const std::vector<uint32_t> cycles{10, 5, 20, 5, 5};
  for (uint32_t k = 0; k < 5; ++k) {
    wire::Block& block = b.map.blocks[k];
    block.successors = successors[k];
    block.least_cycles = cycles[k];
    block.instructions = 4;
    block.exits = k == 4;
    block.implied = k == 1 || k == 2;
    block.loop = k == 2;
    if (block.implied) block.record_bytes = 0;
  }
  b.map.blocks[3].rounds_at = 8;
  b.map.blocks[3].record_bytes = 8 + 4 * 32;
  b.head(0, 0, 0, 1, 5);
  return b;
}

struct Counted {
  PlainShortRecords& record;
  void operator()(uint32_t mask, uint32_t clock, const std::vector<uint32_t>& rounds) {   // of lanes from 0 on
    record(3, mask, clock);
    for (uint32_t lane = 0; lane < rounds.size(); ++lane) record.buffer.put(0, record.at + 4 * lane, rounds[lane]);
    record.at += 4 * 32;
  }
};

TEST(Rounds, StandInFrontOfTheFirstThatDidSoMany) {
  PlainBuffer b = with_loop();
  PlainShortRecords record{b};
  Counted leave{record};
  record(0, 0xff, 100);
  leave(0x0f, 181, {2, 2, 3, 0, 77});        // lane 3 went past the loop, and lane 4 is not there
  leave(0xf0, 260, {9, 9, 9, 9, 1, 1, 5, 5});
  record(4, 0xff, 300);
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  const WarpTrace& t = d.warps[0];
  EXPECT_EQ(t.index, (std::vector<uint32_t>{0, 1, 2, 2, 2, 3, 2, 2, 3, 4}));
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{0xff, 0xf7, 0xf7, 0xc7, 0xc4, 0x0f, 0xc0, 0xc0, 0xf0, 0xff}));
  // Evenly between what could be over and the next clock; block 1 as late as that allows.
  std::vector<uint64_t> clocks;
  for (uint64_t c : t.clock) clocks.push_back(c - t.clock[0] + 100);
  EXPECT_EQ(clocks, (std::vector<uint64_t>{100, 110, 115, 137, 159, 181, 186, 223, 260, 300}));
  EXPECT_TRUE(d.summary.losses.none());
}

// The loop again, by lanes that have waited for each other: a count of its own.
TEST(Rounds, OfEachTimeThatLanesComeToTheLoop) {
  PlainBuffer b = with_loop();
  b.map.blocks[4].successors = {0};
  PlainShortRecords record{b};
  Counted leave{record};
  for (uint32_t time : {0u, 1000u}) {
    record(0, 0x3, 100 + time);
    leave(0x1, 150 + time, {1});
    leave(0x2, 200 + time, {0, 2});
    record(4, 0x3, 300 + time);
  }
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  EXPECT_EQ(d.warps[0].index, (std::vector<uint32_t>{0, 1, 2, 3, 2, 3, 4, 0, 1, 2, 3, 2, 3, 4}));
  EXPECT_EQ(d.warps[0].mask, (std::vector<uint32_t>{3, 3, 3, 1, 2, 2, 3, 3, 3, 3, 1, 2, 2, 3}));
  EXPECT_TRUE(d.summary.losses.none());
}

TEST(Rounds, OfLanesThatAlwaysLeaveTogether) {
  PlainBuffer b = with_loop();
  for (wire::Block& block : b.map.blocks) block.full = !block.implied;
  b.map.blocks[3].rounds_at = 4;
  b.map.blocks[3].rounds_alike = true;
  b.map.blocks[3].record_bytes = 8;
  PlainShortRecords record{b};
  record(0, 0, 100);     // no masks
  record(3, 3, 200);     // a count
  record(4, 0, 300);
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  EXPECT_EQ(d.warps[0].index, (std::vector<uint32_t>{0, 1, 2, 2, 2, 3, 4}));
  for (uint32_t mask : d.warps[0].mask) EXPECT_EQ(mask, ~0u);
}

// Counts that can not be are a loss: more rounds than there was time for, and rounds of lanes that did not come from in front of the loop.
TEST(Rounds, CanNotBeAnyNumber) {
  for (const bool far : {false, true}) {
    PlainBuffer b = with_loop();
    PlainShortRecords record{b};
    Counted leave{record};
    record(0, 0x3, 100);
    leave(0x1, 180, {far ? 1u : 21u});   // 80 cycles for 4 instructions a round
    if (far) leave(0x1, 400, {1});
    record(4, 0x3, 500);
    const auto d = b.decoded(TraceKind::block);
    EXPECT_GT(d.summary.losses.count(LossSeverity::lost), 0u) << far;
  }
  for (const uint32_t lane : {0u, 1u}) {   // who counted rounds and was nowhere before
    PlainBuffer b = with_loop();
    PlainShortRecords record{b};
    Counted leave{record};
    record(0, 0x1, 100);
    leave(0x3, 400, lane == 0 ? std::vector<uint32_t>{1, 0} : std::vector<uint32_t>{0, 1});
    record(4, 0x3, 500);
    EXPECT_EQ(b.decoded(TraceKind::block).summary.losses.count(LossSeverity::lost) != 0, lane == 1);
  }
  PlainBuffer b = with_loop();
  PlainShortRecords record{b};
  Counted leave{record};
  record(0, 0x1, 100);
  leave(0x1, 180, {20});
  record(4, 0x1, 500);
  EXPECT_TRUE(b.decoded(TraceKind::block).summary.losses.none());
}

}  // namespace
}  // namespace xtrace::trace
