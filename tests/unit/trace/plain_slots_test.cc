#include "trace/plain_slots.h"

#include <gtest/gtest.h>

#include "tests/unit/trace/slot_buffer.h"

namespace xtrace::trace {
namespace {

wire::Chunk block_record(uint32_t block, uint32_t clock) {
  return {{wire::word0(wire::RecordKind::block, block), 0xffffffff, clock, 7}};
}
uint32_t short_record(uint32_t block, uint32_t clock) { return clock << 2 | (block + 1); }

TEST(PlainSlots, RecordsEndAtTheZeroChunk) {
  PlainBuffer b(3, 128);
  b.head(0, 12, 5, 1000, 0x100);
  b.put(0, 16, block_record(0, 0x110));
  b.put(0, 32, block_record(1, 0x120));
  b.head(1, 12, 0x85, 1010, 0x200);   // bit 7 of the slot is not part of it
  const auto h = b.headers();
  EXPECT_EQ(h[0].bytes, 32u);
  EXPECT_EQ(h[0].exit_clock_lo, 0x120u);
  EXPECT_EQ(h[0].sm, 12u);
  EXPECT_EQ(h[0].hardware_slot, 5u);
  EXPECT_EQ(h[1].hardware_slot, 5u);
  EXPECT_EQ(h[1].start_clock - h[0].start_clock, 0x100u);
  EXPECT_EQ(h[1].start_time - h[0].start_time, 2560u);   // 256 ns each
  EXPECT_EQ(h[1].bytes, 0u);
  EXPECT_EQ(h[2].start_clock, 0u);   // never started
}

TEST(PlainSlots, InstRecordsAreStepsOfTheirOwnSize) {
  PlainBuffer b(1, 128);
  b.make_inst();
  b.head(0, 0, 0, 1, 1);
  // The second chunk of a record may begin with any clock, also with zero.
  b.put(0, 16, wire::Chunk{{wire::word0(wire::RecordKind::inst, 1), 1, 10, 20}});
  b.put(0, 32, wire::Chunk{{0, 40, 50, 99}});
  const auto h = b.headers();
  EXPECT_EQ(h[0].bytes, 32u);
  EXPECT_EQ(h[0].exit_clock_lo, 50u);   // the fifth clock
}

TEST(PlainSlots, PackedInstRecordsAreUnpacked) {
  PlainBuffer b(1, 128);
  b.make_inst();
  b.map.blocks[1].full = true;
  b.map.blocks[1].clock_at = {{8, 4}, {16, 4}, {24, 4}, {4, 4}, {12, 4}};   // two registers, four groups
  b.head(0, 0, 0, 1, 1);
  b.put(0, 16, wire::Chunk{{wire::word0(wire::RecordKind::inst, 0), 0xff, 10, 11}});
  b.put(0, 32, wire::Chunk{{12, 0, 0, 0}});
  b.put(0, 48, wire::Chunk{{wire::word0(wire::RecordKind::inst, 1), 50, 20, 60}});
  b.put(0, 64, wire::Chunk{{30, 77, 40, 77}});
  const auto d = b.decoded(TraceKind::inst);
  ASSERT_EQ(d.warps.size(), 1u);
  const WarpTrace& t = d.warps[0];
  EXPECT_EQ(t.index, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{0xff, 0xffffffff}));
  std::vector<uint32_t> low;
  for (uint64_t c : t.clock) low.push_back(static_cast<uint32_t>(c));
  EXPECT_EQ(low, (std::vector<uint32_t>{10, 11, 12, 20, 30, 40, 50, 60}));
  EXPECT_TRUE(d.summary.losses.none());
}

TEST(PlainSlots, PlainShortRecordsOfOneWord) {
  PlainBuffer b(1, 64);
  b.make_short(1);
  b.map.blocks[0].full = b.map.blocks[1].full = true;
  b.head(0, 3, 2, 1, 0x3ffffff0);
  b.put(0, 8, short_record(0, 0x3ffffff8));
  b.put(0, 12, short_record(1, 0x3fffffff));
  b.put(0, 16, short_record(1, 0x10));   // the 30 bits of clock came round
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 1u);
  const WarpTrace& t = d.warps[0];
  EXPECT_EQ(t.index, (std::vector<uint32_t>{0, 1, 1}));
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{~0u, ~0u, ~0u}));
  EXPECT_EQ(t.clock[1] - t.clock[0], 7u);
  EXPECT_EQ(t.clock[2] - t.clock[1], 0x11u);
  EXPECT_EQ(t.clock[0] - t.start_clock, 8u);
  EXPECT_TRUE(d.summary.losses.none());
  EXPECT_EQ(b.view().stored_bytes, 8u + 3 * 4);
}

TEST(PlainSlots, PlainShortRecordsOfTwoWords) {
  PlainBuffer b(1, 64);
  b.make_short(2);
  b.map.blocks[0].full = true;
  b.head(0, 3, 2, 1, 0x100);
  b.put(0, 8, short_record(0, 0x110));   // its mask word stays zero
  b.put(0, 16, short_record(1, 0x120));
  b.put(0, 20, 0x0000ffffu);
  const auto d = b.decoded(TraceKind::block);
  EXPECT_EQ(d.warps[0].mask, (std::vector<uint32_t>{~0u, 0xffff}));
  EXPECT_TRUE(d.summary.losses.none());
}

TEST(PlainSlots, AChainIsOneRecord) {
  PlainBuffer b(1, 64);
  b.make_short(1);
  b.map.blocks.resize(3);
  b.map.blocks[0] = {};
  b.map.blocks[0].full = b.map.blocks[1].full = b.map.blocks[2].full = true;
  b.map.blocks[0].record_bytes = 16;
  b.map.blocks[0].chain = {1, 2};
  b.map.blocks[1].record_bytes = b.map.blocks[2].record_bytes = 0;
  b.map.blocks[0].successors = {1};
  b.map.blocks[1].successors = {2};
  b.map.blocks[2].successors = {0};
  b.map.blocks[2].exits = true;
  b.head(0, 3, 2, 1, 0x100);
  for (uint32_t round = 0; round < 2; ++round) {
    b.put(0, 8 + 16 * round, short_record(0, 0x110 + 0x100 * round));
    b.put(0, 12 + 16 * round, 0x120 + 0x100 * round);
    b.put(0, 16 + 16 * round, 0x130 + 0x100 * round);
    b.put(0, 20 + 16 * round, 0x130 + 0x100 * round);   // the fourth lane group's, nobody's
  }
  const auto d = b.decoded(TraceKind::block);
  const WarpTrace& t = d.warps[0];
  EXPECT_EQ(t.index, (std::vector<uint32_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(t.clock[2] - t.clock[0], 0x20u);
  EXPECT_EQ(t.clock[3] - t.clock[2], 0xe0u);
  EXPECT_TRUE(d.summary.losses.none());
}

TEST(PlainSlots, HalvesInHeadAndAbsentClocks) {
  PlainBuffer b(1, 128);
  b.make_inst();
  b.map.layout.index_bits = 4;
  using P = wire::ClockPlace;
  // Six clocks: the first not read, the second in the head, a half, none, two halves.
  b.map.blocks[1].instructions = b.map.blocks[1].clocks = 6;
  b.map.blocks[1].record_bytes = 16;
  b.map.blocks[1].clock_at = {{0, P::absent}, {0, P::in_head}, {8, 2}, {0, P::absent, 1, true}, {10, 2}, {12, 2}};
  b.head(0, 0, 0, 1, 0x0001fff0);
  b.put(0, 16, wire::Chunk{{0x0001fff8u << 4 | 2, 0xffff, 0x0008u << 16 | 0xfffe, 0x0010}});
  const auto d = b.decoded(TraceKind::inst);
  const WarpTrace& t = d.warps[0];
  std::vector<uint32_t> low;
  for (uint64_t c : t.clock) low.push_back(static_cast<uint32_t>(c));
  EXPECT_EQ(low, (std::vector<uint32_t>{0x1fff7, 0x1fff8, 0x1fffe, 0x1ffff, 0x20008, 0x20010}));
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{0xffff}));
  EXPECT_EQ(b.view().doubtful_clocks, 0u);
}

TEST(PlainSlots, APauseThatHalvesCanNotPlaceIsCounted) {
  PlainBuffer b(1, 128);
  b.make_inst();
  b.map.blocks[1].instructions = b.map.blocks[1].clocks = 2;
  b.map.blocks[1].record_bytes = 16;
  b.map.blocks[1].clock_at = {{8, 4}, {12, 2}};
  b.head(0, 0, 0, 1, 0x100);
  const uint32_t word0 = wire::word0(wire::RecordKind::inst, 1);
  b.put(0, 16, wire::Chunk{{word0, ~0u, 0x110, 0x120}});
  b.put(0, 32, wire::Chunk{{word0, ~0u, 0x50120, 0x0130}});
  EXPECT_EQ(b.view().doubtful_clocks, 1u);
}

TEST(PlainSlots, ShortPairsWithoutHeads) {
  PlainBuffer b(2, 32);
  b.map.layout.headless = b.map.layout.short_pairs = true;
  b.map.layout.lead_bytes = 0;
  b.map.sites.resize(1);
  b.put(0, 0, 0xfffffff0u);
  b.put(0, 4, 0x8u);   // over the end of 32 bits
  b.put(0, 8, 0x20u);
  b.put(0, 12, 0x24u);
  const auto d = b.decoded(TraceKind::pair);
  ASSERT_EQ(d.warps.size(), 2u);
  const WarpTrace& t = d.warps[0];
  ASSERT_EQ(t.records(), 2u);
  EXPECT_EQ(t.clocks(0)[1] - t.clocks(0)[0], 0x18u);
  EXPECT_EQ(t.clocks(1)[0] - t.clocks(0)[1], 0x18u);
  EXPECT_EQ(t.clocks(1)[1] - t.clocks(1)[0], 4u);
  EXPECT_EQ(t.mask, (std::vector<uint32_t>{~0u, ~0u}));
  EXPECT_EQ(d.warps[1].records(), 0u);   // did not come past the site
  EXPECT_EQ(d.summary.losses.count(LossSeverity::lost), 0u);
  EXPECT_EQ(b.view().stored_bytes, 16u);
}

TEST(PlainSlots, TheEntryBlockIsInTheHead) {
  PlainBuffer b(2, 64);
  b.make_short(1);
  b.map.blocks[0].full = b.map.blocks[1].full = true;
  b.map.layout.entry_in_head = true;
  b.head(0, 3, 2, 1, 0x100);
  b.put(0, 8, short_record(1, 0x120));
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 2u);
  EXPECT_EQ(d.warps[0].index, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(d.warps[0].clock[0], d.warps[0].start_clock);
  EXPECT_EQ(d.warps[1].index.size(), 0u);   // never started: no entry either
  EXPECT_EQ(d.summary.losses.count(LossSeverity::lost), 1u);
}

TEST(PlainSlots, AnUnknownBlockIsALoss) {
  PlainBuffer b(1, 64);
  b.make_short(1);
  b.head(0, 0, 0, 1, 1);
  b.put(0, 8, uint32_t{3});   // block 2 of 2
  EXPECT_GT(b.decoded(TraceKind::block).summary.losses.count(LossSeverity::lost), 0u);
}

// The zero that ends the records has its place in every slot: where it is missing somebody wrote over it.
TEST(PlainSlots, AFullSlotIsALoss) {
  PlainBuffer b(2, 64);
  b.head(0, 0, 0, 1, 1);
  for (uint64_t at = 16; at < 64; at += 16) b.put(0, at, block_record(0, 5));
  b.head(1, 0, 0, 1, 1);
  const auto d = b.decoded(TraceKind::block);
  EXPECT_EQ(d.warps[0].index.size(), 3u);
  EXPECT_GT(d.summary.losses.count(LossSeverity::lost), 0u);
}

// A slot that ends inside of a record, of each form: what is there of it is no record, and nothing behind the slot is read.
TEST(PlainSlots, HalfARecordIsALoss) {
  for (const char* form : {"chunks", "short", "inst"}) {
    const bool inst = form == std::string("inst"), is_short = form == std::string("short");
    PlainBuffer b(1, is_short ? 8 + 8 + 4 : inst ? 16 + 32 + 16 : 16 + 16 + 8);
    if (is_short) b.make_short(2);
    if (inst) b.make_inst();
    b.head(0, 0, 0, 1, 1);
    const uint32_t word = inst ? wire::word0(wire::RecordKind::inst, 0) : is_short ? short_record(0, 10) : wire::word0(wire::RecordKind::block, 0);
    const uint32_t at = b.map.layout.lead_bytes;
    for (const uint32_t k : {0u, is_short ? 8u : inst ? 32u : 16u}) {
      b.put(0, at + k, word);
      if (at + k + 8 <= b.bytes.size()) b.put(0, at + k + 4, uint32_t{1});   // its mask
    }
    const auto d = b.decoded(inst ? TraceKind::inst : TraceKind::block);
    EXPECT_EQ(d.warps.at(0).index.size(), 1u) << form;
    EXPECT_GT(d.summary.losses.count(LossSeverity::lost), 0u) << form;
  }
}

TEST(PlainSlots, AnInstRecordOfABlockWithoutIsALoss) {
  for (const uint32_t block : {1u, 2u}) {
    PlainBuffer b(1, 128);
    b.make_inst();
    b.map.blocks[1].record_bytes = 0;
    b.head(0, 0, 0, 1, 1);
    b.put(0, 16, wire::Chunk{{wire::word0(wire::RecordKind::inst, 0), 1, 10, 20}});
    b.put(0, 48, wire::Chunk{{wire::word0(wire::RecordKind::inst, block), 1, 10, 20}});
    const auto d = b.decoded(TraceKind::inst);
    EXPECT_EQ(d.warps.at(0).index, std::vector<uint32_t>{0}) << block;
    EXPECT_GT(d.summary.losses.count(LossSeverity::lost), 0u) << block;
  }
}

TEST(PlainSlots, ATableWithoutEveryWarpIsRefused) {
  PlainBuffer b(2, 64);
  b.map.layout.table = plain_base;
  const std::vector<wire::SlotEntry> table = {{plain_base, 63, 0}, {plain_base + 64, 63, 0}};
  EXPECT_TRUE(view_plain_slots(b.map, buffer_reader(plain_base, b.bytes), table));
  EXPECT_FALSE(view_plain_slots(b.map, buffer_reader(plain_base, b.bytes), std::span(table).first(1)));
}

TEST(PlainSlots, ShortTimesAreExtended) {
  // One warp in 800,000 clocks for 32 ms at 2 GHz: the 16 bits of time come round once.
  constexpr uint32_t warps = 81;
  PlainBuffer b(warps, 64);
  for (uint32_t w = 0; w < warps; ++w)
    b.head(w, 7, 0, static_cast<uint16_t>((w * 400'000) >> 8), 0xfffffff0u + w * 800'000);
  const auto h = b.headers();
  for (uint32_t w = 1; w < warps; ++w) {
    EXPECT_EQ(h[w].start_clock - h[0].start_clock, w * 800'000ull);
    EXPECT_NEAR(static_cast<double>(h[w].start_time - h[0].start_time), w * 400'000.0, 256) << w;
  }
}

TEST(PlainSlots, ALongPauseIsBridgedByTheClock) {
  PlainBuffer b(3, 64);
  b.head(0, 7, 0, 0, 1);
  b.head(1, 7, 0, static_cast<uint16_t>(3'000'000 >> 8), 6'000'001);                      // 2 GHz
  b.head(2, 7, 0, static_cast<uint16_t>(uint32_t{100'000'000} >> 8), 200'000'001);
  const auto h = b.headers();
  EXPECT_NEAR(static_cast<double>(h[2].start_time - h[0].start_time), 100e6, 512);
}

TEST(PlainSlots, OtherSmsAreRelativeToTheFirst) {
  PlainBuffer b(2, 64);
  b.head(0, 4, 0, 10, 0x900);
  b.head(1, 9, 0, 0xfff8, 0x12345678);   // 18 steps before
  const auto h = b.headers();
  EXPECT_EQ(h[0].start_time - h[1].start_time, 18u * 256);
}

TEST(PlainSlots, UnsampledCtasThatWroteAreKnownByTheirBytes) {
  PlainBuffer b(64, 64);
  b.map.layout.one_in = 4;
  for (uint32_t w = 0; w < 64; ++w) b.head(w, 0, 0, 1, 1);
  const auto h = b.headers();
  for (uint32_t w = 0; w < 64; ++w) EXPECT_EQ(h[w].start_clock != 0, wire::cta_is_sampled(w, 4, 0)) << w;
  for (uint32_t w = 0; w < 64; ++w) EXPECT_EQ(h[w].start_clock == 0 && h[w].bytes != 0, !wire::cta_is_sampled(w, 4, 0)) << w;
  PlainBuffer untouched(64, 64);
  untouched.map.layout.one_in = 4;
  for (const auto& none : untouched.headers()) EXPECT_EQ(none.bytes, 0u);
}

// Packed inst records in whole sectors: the head four times, words of lane groups twice each, a single one eight times.
TEST(PlainSlots, WholeSectors) {
  PlainBuffer b(1, 128);
  b.make_inst();
  b.map.layout.index_bits = 4;
  b.map.layout.whole_sectors = true;
  b.map.layout.lead_bytes = wire::sector_bytes;
  constexpr uint8_t in_head = wire::ClockPlace::in_head;
  b.map.blocks[0].full = b.map.blocks[1].full = true;
  b.map.blocks[0].clock_at = {{0, in_head}, {8, 4}, {16, 4}};
  b.map.blocks[1].clock_at = {{0, in_head}, {4, wire::ClockPlace::implied}, {0, wire::ClockPlace::implied}, {0, wire::ClockPlace::implied}, {0, wire::ClockPlace::implied}};
  for (uint32_t k = 0; k < 4; ++k) b.put(0, 8 * k, wire::SlotHead{5, 1});
  for (uint32_t k = 0; k < 2; ++k) {
    b.put(0, 32 + 4 * k, 100u << 4 | 1);
    b.put(0, 40 + 4 * k, 110u);
    b.put(0, 48 + 4 * k, 130u);
    b.put(0, 56 + 4 * k, 0xdeadbeefu);   // of a lane group that has no word
  }
  for (uint32_t k = 0; k < 8; ++k) b.put(0, 64 + 4 * k, 200u << 4 | 2);
  const auto d = b.decoded(TraceKind::inst);
  ASSERT_EQ(d.warps.size(), 1u);
  EXPECT_EQ(d.warps[0].index, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(d.warps[0].mask, (std::vector<uint32_t>{~0u, ~0u}));
  ASSERT_EQ(d.warps[0].clock.size(), 8u);
  EXPECT_EQ(d.warps[0].clock[1] - d.warps[0].clock[0], 10u);
  EXPECT_EQ(d.warps[0].clock[2] - d.warps[0].clock[0], 30u);
  EXPECT_EQ(d.warps[0].clock[3] - d.warps[0].clock[0], 100u);
  EXPECT_EQ(d.summary.losses.count(LossSeverity::lost), 0u);
  EXPECT_EQ(b.view().stored_bytes, 96u);
}

TEST(PlainSlots, WrappingSlotsAreNotForThis) {
  PlainBuffer b(1, 64);
  b.map.layout.wraps = true;
  EXPECT_FALSE(view_plain_slots(b.map, buffer_reader(plain_base, b.bytes), {}));
}

// CTAs of 40 threads: their second warp has 8, and records of full blocks stand for these.
TEST(PlainSlots, FullBlocksOfAWarpWithFewerLanes) {
  PlainBuffer b(2, 128);
  b.map.blocks.resize(2);
  b.make_short(1);
  b.map.layout.index_bits = 3;
  b.map.layout.warps_per_cta = 2;
  b.map.layout.last_lanes = 8;
  for (wire::Block& block : b.map.blocks) {
    block.full = true;
    block.record_bytes = 4;
    block.exits = true;
  }
  for (uint32_t w = 0; w < 2; ++w) {
    b.head(w, 0, 0, 1, 5);
    b.put(w, sizeof(wire::SlotHead), 10u << 3 | 1);
    b.put(w, sizeof(wire::SlotHead) + 4, 20u << 3 | 2);
  }
  const auto d = b.decoded(TraceKind::block);
  ASSERT_EQ(d.warps.size(), 2u);
  EXPECT_EQ(d.warps[0].mask, (std::vector<uint32_t>{~0u, ~0u}));
  EXPECT_EQ(d.warps[1].mask, (std::vector<uint32_t>{0xff, 0xff}));
}

}  // namespace
}  // namespace xtrace::trace
