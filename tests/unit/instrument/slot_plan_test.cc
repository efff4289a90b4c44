#include "instrument/slot_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

namespace xtrace::instrument {
namespace {

TEST(SlotPlan, EqualSlotsInStrideMode) {
  const std::vector<uint32_t> bytes(100, 160);
  SlotPlan p = plan_slots(bytes, 16, true, {}, 1 << 20);
  EXPECT_EQ(p.layout.table, 0u);
  EXPECT_EQ(p.layout.slot_bytes, 256u);   // 16 + 160 + 16, rounded up to a power of two
  place(p, 0x100000000000);
  EXPECT_EQ(p.layout.slots % 256, 0u);
  EXPECT_GE(p.layout.slots, p.layout.headers + 100 * sizeof(wire::WarpHeader));
  EXPECT_LE(p.layout.slots + 100 * 256 + 16, 0x100000000000 + p.total_bytes);
}

TEST(SlotPlan, UnequalSlotsByTable) {
  std::vector<uint32_t> bytes(1000, 64);
  bytes[500] = 4 << 20;
  bytes[7] = 0;
  SlotPlan p = plan_slots(bytes, 1024, true, {}, 1 << 20);
  ASSERT_EQ(p.entries.size(), 1000u);
  place(p, 0x100000200000);
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (size_t w = 0; w < bytes.size(); ++w) {
    const wire::SlotEntry& e = p.entries[w];
    const uint64_t size = uint64_t{e.mask} + 1;
    EXPECT_TRUE(std::has_single_bit(size));
    EXPECT_EQ(e.address % size, 0u) << w;
    if (bytes[w] == 0) continue;
    EXPECT_GT(size, uint64_t{bytes[w]} + 1024);
    ranges.push_back({e.address, e.address + size});
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) EXPECT_LE(ranges[i - 1].second, ranges[i].first);
  EXPECT_GE(ranges.front().first, p.layout.table + 1000 * sizeof(wire::SlotEntry));
  EXPECT_LE(ranges.back().second + 1024, 0x100000200000 + p.total_bytes);
}

TEST(SlotPlan, PlainSlotsCarryTheirHeads) {
  const std::vector<uint32_t> bytes(100, 32);
  SlotPlan p = plan_slots(bytes, 16, false, {}, 1 << 20);
  EXPECT_EQ(p.layout.slot_bytes, 64u);   // head, two records, the zero chunk
  EXPECT_EQ(p.layout.lead_bytes, wire::chunk_bytes);
  place(p, 0x100000000000);
  EXPECT_EQ(p.layout.headers, 0u);
  EXPECT_NE(p.layout.slots, 0u);
  EXPECT_LE(p.layout.slots + 100 * 64, 0x100000000000 + p.total_bytes);
}

TEST(SlotPlan, WholeSectors) {
  const std::vector<uint32_t> bytes(100, 64);
  SlotPlan p = plan_slots(bytes, 16, false, {.whole_sectors = true}, 1 << 20);
  EXPECT_TRUE(p.layout.whole_sectors);
  EXPECT_EQ(p.layout.lead_bytes, wire::sector_bytes);
  EXPECT_EQ(p.layout.slot_bytes, 4 * wire::sector_bytes);   // head, two records, the zero behind
  place(p, 0x100000200000);
  EXPECT_EQ(p.layout.slots % wire::sector_bytes, 0u);
}

// Records of point probes: in sectors where some have columns, whatever is left out of others; the slots with them.
TEST(SlotPlan, SectorsForPoints) {
  wire::Point scalars, column;
  scalars.values = {{wire::Value::Kind::clock}, {wire::Value::Kind::uniform, 4}};
  column.values = {{wire::Value::Kind::vector, 5}};
  for (const std::vector<wire::Point>& points : {std::vector{scalars}, {scalars, column}}) {
    const RecordForm form = form_of(points);
    EXPECT_EQ(form.sectors, points.size() == 2);
    EXPECT_FALSE(form.lines || form.whole_sectors || form.short_records || form.headless);
  }
  SlotPlan p = plan_slots(std::vector<uint32_t>(100, 160), 160, false, {.sectors = true}, 1 << 20);
  EXPECT_FALSE(p.layout.whole_sectors);
  EXPECT_EQ(p.layout.lead_bytes, wire::sector_bytes);
  EXPECT_EQ(p.layout.slot_bytes, 224u);   // head, a record, the zero behind
  place(p, 0x100000200000);
  EXPECT_EQ(p.layout.slots % wire::sector_bytes, 0u);
}

TEST(SlotPlan, LinesForAddresses) {
  const std::vector<uint32_t> bytes(100, 256);
  SlotPlan p = plan_slots(bytes, 256, false, {.lines = true}, 1 << 20);
  EXPECT_EQ(p.layout.lead_bytes, wire::mem_line);
  EXPECT_EQ(p.layout.slot_bytes, 4 * wire::mem_line);   // head, two lines of records, the zero behind
  place(p, 0x100000200000);
  EXPECT_EQ(p.layout.slots % wire::mem_line, 0u);
}

// Probes move the low word of their address alone.
TEST(SlotPlan, NoSlotLiesAcrossAMultipleOf4GiB) {
  constexpr uint64_t window = 1ull << 32;
  for (const bool lines : {false, true})
    for (const uint32_t each : {1040u, 3u << 12, 65552u})
      for (const uint64_t below : {2ull << 20, 6ull << 20, 64ull << 20}) {
        const std::vector<uint32_t> bytes(20'000, each);
        SlotPlan p = plan_slots(bytes, 512, false, {.lines = lines}, 8ull << 30);
        const uint64_t address = 0x7f00'0000'0000 - below;
        place(p, address);
        const wire::SlotLayout& l = p.layout;
        ASSERT_GT(l.slot_bytes, each);
        for (uint64_t w = 0; w < bytes.size(); ++w) {
          const uint64_t begin = l.slots + w * l.slot_bytes, end = begin + l.slot_bytes;
          ASSERT_EQ(begin / window, (end - 1) / window) << each << " " << below << " warp " << w;
        }
        EXPECT_GE(l.slots, address);
        EXPECT_LE(l.slots + bytes.size() * l.slot_bytes, address + p.total_bytes);
      }
  // More than a window: powers of two.
  const std::vector<uint32_t> many(100'000, 60'000);
  EXPECT_EQ(plan_slots(many, 512, false, {}, 8ull << 30).layout.slot_bytes, 65536u);
}

TEST(SlotPlan, Counters) {
  SlotPlan p = plan_counters(10, 3);
  place(p, 0x200000);
  EXPECT_EQ(p.layout.headers, 0x200000u);
  EXPECT_GE(p.layout.counters, 0x200000 + 10 * sizeof(wire::WarpHeader));
  EXPECT_EQ(p.layout.counter_copies, 8u);   // no more than warps
  EXPECT_GE(p.layout.copy_bytes, 3 * sizeof(wire::BlockCount));
  EXPECT_EQ(p.layout.counters + 8 * p.layout.copy_bytes, 0x200000 + p.total_bytes);
  const SlotPlan alone = plan_counters(10, 3, false);
  EXPECT_LT(alone.layout.counters, p.layout.counters - p.layout.headers);
  EXPECT_NE(alone.layout.counters, 0u) << "it would mean that there are none";
  EXPECT_EQ(plan_counters(1 << 20, 3).layout.counter_copies, 4096u);
  EXPECT_EQ(plan_counters(1 << 20, 1 << 20).layout.counter_copies, 1u) << "counters of 16 MiB";
}

TEST(SlotPlan, CopiesOfCountersAreAddedUp) {
  wire::AddressMap map;
  map.blocks.resize(2);
  map.blocks[1].packed_count = true;
  map.layout.counter_copies = 2;
  map.layout.copy_bytes = 4 * sizeof(wire::BlockCount);   // those of last warps behind the others
  const std::vector<wire::BlockCount> copies{{1, 20}, {(3ull << 32) | 70, 0}, {1, 2}, {(1ull << 32) | 5, 0},
                                             {2, 40}, {(4ull << 32) | 90, 0}, {0, 0}, {0, 0}};
  const std::vector<wire::BlockCount> sums = sum_counters(map, std::as_bytes(std::span(copies)));
  EXPECT_EQ(sums, (std::vector<wire::BlockCount>{{3, 60}, {7, 160}, {1, 2}, {1, 5}}));
}

TEST(SlotPlan, NarrowOnesToo) {
  wire::AddressMap map;
  map.blocks.resize(2);
  map.blocks[0].narrow_count = map.blocks[1].narrow_count = map.blocks[1].packed_count = true;
  map.layout.counter_copies = 2;
  map.layout.copy_bytes = 2 * sizeof(wire::BlockCount);
  constexpr uint64_t most = wire::narrow_packed_executions - 1;
  const std::vector<wire::BlockCount> copies{{1, 20}, {3 << 18 | 70, 0}, {2, 40}, {most << 18 | 32 * most, 0}};
  EXPECT_LT(copies[3].warps, 1ull << 32);
  const std::vector<wire::BlockCount> sums = sum_counters(map, std::as_bytes(std::span(copies)));
  EXPECT_EQ(sums, (std::vector<wire::BlockCount>{{3, 60}, {3 + most, 70 + 32 * most}}));
}

}  // namespace
}  // namespace xtrace::instrument
