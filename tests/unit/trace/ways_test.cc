// Regions in which lanes number their ways: what follows from the numbers in the record of the block behind, and from those of lanes that ended.
#include <gtest/gtest.h>

#include "tests/unit/trace/slot_buffer.h"

namespace xtrace::trace {
namespace {

// 0 leads to a region: 1 to 2 and 4, 2 ends or leads to 3, 3 leads to 4 and 5, 4 to 5, and 5 to 6, which has the numbers and leads back.
PlainBuffer with_region() {
  PlainBuffer b(1, 1024);
  b.map.blocks.resize(7);
  b.make_short(2);
  b.map.layout.index_bits = 3;
  const std::vector<std::vector<uint32_t>> successors{{1}, {2, 4}, {3}, {4, 5}, {5}, {6}, {0}};
  for (uint32_t k = 0; k < 7; ++k) {
    wire::Block& block = b.map.blocks[k];
    block.successors = successors[k];
    block.least_cycles = 10;
    block.instructions = 4;
    block.exits = k == 2 || k == 6;
    block.implied = block.numbered = k != 0 && k != 6;
    if (block.implied) block.record_bytes = 0;
  }
  b.map.blocks[1].way_number = 1;
  b.map.blocks[3].way_number = 2;
  b.map.blocks[4].way_adds = 10;
  b.map.blocks[6].has_ways = true;
  b.map.blocks[6].rounds_at = 8;
  b.map.blocks[6].record_bytes = 8 + wire::column_bytes;
  b.map.layout.ends_at = sizeof(wire::SlotHead);
  b.head(0, 0, 0, 1, 5);
  return b;
}

struct Numbered {
  PlainShortRecords record;
  explicit Numbered(PlainBuffer& b) : record{b, sizeof(wire::SlotHead) + wire::column_bytes} {}
  void from(uint32_t mask, uint32_t clock) { record(0, mask, clock); }
  void to(uint32_t mask, uint32_t clock, const std::vector<uint32_t>& numbers) {   // of lanes from 0 on
    record(6, mask, clock);
    for (uint32_t lane = 0; lane < numbers.size(); ++lane) record.buffer.put(0, record.at + 4 * lane, numbers[lane]);
    record.at += wire::column_bytes;
  }
  void end(uint32_t lane, uint32_t number) { record.buffer.put(0, sizeof(wire::SlotHead) + 4 * lane, number); }
};

TEST(Ways, OfEachLane) {
  PlainBuffer b = with_region();
  Numbered lanes(b);
  lanes.from(0xff, 100);
  lanes.to(0x3f, 300, {11, 11, 12, 12, 2, 2, 77});   // lane 6 is not there
  lanes.end(6, 1);
  lanes.end(7, 1);
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  const WarpTrace& t = d.warps[0];
  // Of two ways that by the block with the lower number first. Lanes that come to a block by several are there several times.
  EXPECT_EQ(t.index, (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 5, 4, 5, 6}));
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{0xff, 0xff, 0xfc, 0x3c, 0x0c, 0x0c, 0x30, 0x03, 0x03, 0x3f}));
  // 80 stall cycles between 110, when block 0 is over, and 300.
  std::vector<uint64_t> clocks;
  for (uint64_t c : t.clock) clocks.push_back(c - t.clock[0] + 100);
  EXPECT_EQ(clocks, (std::vector<uint64_t>{100, 110, 134, 158, 182, 205, 229, 253, 277, 300}));
  EXPECT_TRUE(d.summary.losses.none());
}

// The others leave a place without a number, which a lane does not read.
TEST(Ways, AgainAndUntilAllHaveEnded) {
  PlainBuffer b = with_region();
  Numbered lanes(b);
  lanes.from(0x7, 100);
  lanes.to(0x6, 200, {0, 2, 12});
  lanes.end(0, 1);
  lanes.from(0x6, 300);
  lanes.end(1, 1);
  lanes.end(2, 1);
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  const WarpTrace& t = d.warps[0];
  EXPECT_EQ(t.index, (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 5, 6, 0, 1, 2}));
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{7, 7, 7, 6, 4, 4, 2, 6, 6, 6, 6}));
  EXPECT_EQ(t.clock[10] - t.clock[8], 20u);   // nothing follows: as early as can be
  EXPECT_TRUE(d.summary.losses.none());
}

// Where the first record stands beside the head the column is behind that.
TEST(Ways, ColumnBehindTheFirstRecord) {
  PlainBuffer b = with_region();
  b.map.layout.ends_at = sizeof(wire::SlotHead) + 8;
  PlainShortRecords record{b};
  record(0, 0x3, 100);
  record.at += wire::column_bytes;
  for (uint32_t lane : {0u, 1u}) b.put(0, b.map.layout.ends_at + 4 * lane, 1u);
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  EXPECT_EQ(d.warps[0].index, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_TRUE(d.summary.losses.none());
}

// A slot with room for its head and a record alone: its warp has been in no region.
TEST(Ways, SlotsWithoutTheColumn) {
  PlainBuffer b(1, 32);
  b.map = with_region().map;
  b.map.layout.slot_bytes = 32;
  b.map.layout.ends_at = sizeof(wire::SlotHead) + 8;
  b.head(0, 0, 0, 1, 5);
  PlainShortRecords record{b};
  record(0, 0x3, 100);
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  EXPECT_EQ(d.warps[0].index, (std::vector<uint32_t>{0}));
  EXPECT_TRUE(d.summary.losses.none());
}

TEST(Ways, NumbersOfNoWay) {
  for (const uint32_t number : {0u, 1u, 3u, 10u, 13u, ~0u}) {
    PlainBuffer b = with_region();
    Numbered lanes(b);
    lanes.from(0x3, 100);
    lanes.to(0x3, 300, {2, number});
    EXPECT_FALSE(b.decoded(TraceKind::block).summary.losses.none()) << number;
  }
  for (const uint32_t number : {2u, 11u, ~0u}) {
    PlainBuffer b = with_region();
    Numbered lanes(b);
    lanes.from(0x3, 100);
    lanes.to(0x1, 300, {2});
    lanes.end(1, number);
    EXPECT_FALSE(b.decoded(TraceKind::block).summary.losses.none()) << number;
  }
}
// Who has come behind the region did not end in it; who was not in front of it came by no way.
TEST(Ways, OfLanesThatWereNotThere) {
  PlainBuffer b = with_region();
  Numbered lanes(b);
  lanes.from(0x1, 100);
  lanes.to(0x1, 300, {2});
  lanes.end(0, 1);
  EXPECT_FALSE(b.decoded(TraceKind::block).summary.losses.none());
  b = with_region();
  Numbered others(b);
  others.from(0x1, 100);
  others.to(0x3, 300, {2, 2});
  EXPECT_FALSE(b.decoded(TraceKind::block).summary.losses.none());
}

}  // namespace
}  // namespace xtrace::trace
