#include "trace/plain_slots.h"

#include <gtest/gtest.h>

#include <cstring>

namespace xtrace::trace {
namespace {

constexpr uint64_t base = 0x100000000000;

struct Buffer {
  wire::AddressMap map;
  Bytes bytes;

  explicit Buffer(uint32_t warps, uint32_t slot_bytes) : bytes(uint64_t{warps} * slot_bytes) {
    map.layout.slots = base;
    map.layout.slot_bytes = slot_bytes;
    map.layout.lead_bytes = sizeof(wire::SlotHead);
    map.layout.warps = warps;
    map.layout.warps_per_cta = 1;
    map.blocks.resize(2);
    map.blocks[1].instructions = map.blocks[1].clocks = 5;
    map.blocks[1].record_bytes = 32;
  }
  void head(uint32_t warp, uint32_t place, uint32_t time, uint64_t clock) {
    put(warp, 0, wire::SlotHead{place, time, clock});
  }
  template <typename T>
  void put(uint32_t warp, uint64_t offset, const T& value) {
    std::memcpy(bytes.data() + uint64_t{warp} * map.layout.slot_bytes + offset, &value, sizeof value);
  }
  std::vector<wire::WarpHeader> headers() {
    const auto read = buffer_reader(base, bytes);
    const auto result = plain_slot_headers(map, read, {});
    EXPECT_TRUE(result) << (result ? "" : result.error().to_string());
    std::vector<wire::WarpHeader> out(map.layout.warps);
    if (result) std::memcpy(out.data(), result->data(), result->size());
    return out;
  }
};

wire::Chunk block_record(uint32_t block, uint32_t clock) {
  return {{wire::word0(wire::RecordKind::block, block), 0xffffffff, clock, 7}};
}

TEST(PlainSlots, RecordsEndAtTheZeroChunk) {
  Buffer b(3, 128);
  b.head(0, 12 | 5 << 16, 1000, 0x500000100);
  b.put(0, 16, block_record(0, 0x110));
  b.put(0, 32, block_record(1, 0x120));
  b.head(1, 13, 1010, 0x500000200);
  const auto h = b.headers();
  EXPECT_EQ(h[0].bytes, 32u);
  EXPECT_EQ(h[0].exit_clock_lo, 0x120u);
  EXPECT_EQ(h[0].sm, 12u);
  EXPECT_EQ(h[0].hardware_slot, 5u);
  EXPECT_EQ(h[0].start_clock, 0x500000100u);
  EXPECT_EQ(h[1].start_time - h[0].start_time, 10u);
  EXPECT_EQ(h[1].bytes, 0u);
  EXPECT_EQ(h[2].start_clock, 0u);   // never started
}

TEST(PlainSlots, InstRecordsAreStepsOfTheirOwnSize) {
  Buffer b(1, 128);
  b.head(0, 0, 1, 1);
  // The second chunk of a record may begin with any clock, also with zero.
  b.put(0, 16, wire::Chunk{{wire::word0(wire::RecordKind::inst, 1), 1, 10, 20}});
  b.put(0, 32, wire::Chunk{{0, 40, 50, 99}});
  const auto h = b.headers();
  EXPECT_EQ(h[0].bytes, 32u);
  EXPECT_EQ(h[0].exit_clock_lo, 50u);   // the fifth clock
}

TEST(PlainSlots, AFullSlotEndsWithTheSlot) {
  Buffer b(2, 64);
  b.head(0, 0, 1, 1);
  for (uint64_t at = 16; at < 64; at += 16) b.put(0, at, block_record(0, 5));
  b.head(1, 0, 1, 1);
  EXPECT_EQ(b.headers()[0].bytes, 48u);
}

TEST(PlainSlots, TimeWrapsAreBridged) {
  Buffer b(2, 64);
  b.head(0, 0, 0xfffffff0, 1);
  b.head(1, 0, 0x10, 1);
  const auto h = b.headers();
  EXPECT_EQ(h[1].start_time - h[0].start_time, 0x20u);
}

TEST(PlainSlots, UnsampledCtasAreLeftAlone) {
  Buffer b(64, 64);
  b.map.layout.one_in = 4;
  for (uint32_t w = 0; w < 64; ++w) b.head(w, 0, 1, 1);
  const auto h = b.headers();
  for (uint32_t w = 0; w < 64; ++w) EXPECT_EQ(h[w].start_clock != 0, wire::cta_is_sampled(w, 4, 0)) << w;
}

TEST(PlainSlots, WrappingSlotsAreNotForThis) {
  Buffer b(1, 64);
  b.map.layout.wraps = true;
  const auto read = buffer_reader(base, b.bytes);
  EXPECT_FALSE(plain_slot_headers(b.map, read, {}));
}

}  // namespace
}  // namespace xtrace::trace
