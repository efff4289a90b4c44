// Slots of address records that end where they should not, and maps that contradict themselves.
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "trace/mem_trace.h"

namespace xtrace::trace::mem_decode_test {
namespace {

constexpr uint64_t base = 0x400000000;
constexpr uint32_t line = wire::mem_line;

// One block with records of one line, one access with everything in the record's first words.
wire::AddressMap map_of(uint32_t slot_bytes) {
  wire::AddressMap map;
  map.blocks.resize(2);
  map.blocks[0].record_bytes = line;
  wire::Access access;
  access.bytes = 4;
  access.uniform_low = 8;
  map.accesses = {access};
  map.layout.slots = base;
  map.layout.slot_bytes = slot_bytes;
  map.layout.lead_bytes = line;
  map.layout.warps = map.layout.warps_per_cta = 1;
  return map;
}

struct Counter : MemVisitor {
  Status block(uint32_t, uint32_t) override { return ++blocks, Status(); }
  Status access(uint32_t, uint32_t, const LaneAddresses&) override { return {}; }
  Status operands(uint32_t, uint32_t, std::span<const uint32_t>) override { return {}; }
  Status warp(const MemWarp& w) override { return warps.push_back(w), Status(); }
  uint32_t blocks = 0;
  std::vector<MemWarp> warps;
};

Result<DecodeSummary> decode(const wire::AddressMap& map, uint32_t records, Counter& c) {
  Bytes bytes(map.layout.slot_bytes);
  write_at(std::span(bytes), 0, uint32_t{77});
  for (uint32_t k = 1; k <= records; ++k) write_at(std::span(bytes), uint64_t{k} * line, wire::word0(wire::RecordKind::mem, 0));
  return decode_mem(map, buffer_reader(base, bytes), {}, {}, c);
}

TEST(MemTrace, SlotsThatEndTooEarly) {
  const struct {
    uint32_t slot_bytes, records, kept;
    uint64_t written;
    bool lost;
  } rows[] = {
      {3 * line, 1, 1, line, false},
      {2 * line + 4, 1, 1, line, false},      // just the zero behind it
      {2 * line, 1, 1, line, true},           // no room for that
      {2 * line + 64, 2, 1, 2 * line, true},  // half of a record
      {3 * line, 2, 2, 2 * line, true},
  };
  for (const auto& row : rows) {
    Counter c;
    const auto summary = decode(map_of(row.slot_bytes), row.records, c);
    ASSERT_TRUE(summary);
    EXPECT_EQ(c.blocks, row.kept) << row.slot_bytes;
    EXPECT_EQ(summary->bytes_written, row.written) << row.slot_bytes;
    EXPECT_EQ(summary->bytes_written - summary->bytes_dropped, uint64_t{row.kept} * line) << row.slot_bytes;
    EXPECT_EQ(summary->losses.count(Loss::guard_overrun), row.lost ? 1u : 0u) << row.slot_bytes;
  }
}

TEST(MemTrace, MapsAndLayoutsThatAreRefused) {
  const auto refused = [](auto change) {
    wire::AddressMap map = map_of(3 * line);
    change(map, map.accesses[0]);
    Counter c;
    return !decode(map, 1, c);
  };
  EXPECT_FALSE(refused([](auto&, auto&) {}));
  EXPECT_TRUE(refused([](auto& map, auto&) { map.layout.wraps = true; }));
  EXPECT_TRUE(refused([](auto& map, auto&) { map.layout.headers = base; }));
  EXPECT_TRUE(refused([](auto&, auto& access) { access.block = 2; }));
  EXPECT_TRUE(refused([](auto&, auto& access) { access.high_is_known = true; }));   // by nothing
  EXPECT_TRUE(refused([](auto&, auto& access) { access.uniform_low = line - 3; }));
  EXPECT_FALSE(refused([](auto&, auto& access) { access.uniform_low = line - 4; }));
  EXPECT_TRUE(refused([](auto&, auto& access) { access.low = 4; }));
  const auto numbers = [&](uint32_t of, size_t count) {
    return refused([&](auto& map, auto& access) { access.numbers = of, map.lane_numbers = {std::vector<uint32_t>(count)}, map.layout.warps_per_cta = 2, map.layout.warps = 2; });
  };
  EXPECT_TRUE(numbers(1, 32));    // there is one list
  EXPECT_TRUE(numbers(0, 33));
  EXPECT_TRUE(numbers(0, 31));
}

}  // namespace
}  // namespace xtrace::trace::mem_decode_test
