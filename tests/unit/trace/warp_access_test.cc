// Accesses that are made once for the warp: records, the file, what is moved, and what can not be. Expected numbers are worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>


#include "tests/json_document.h"
#include "trace/mem_analysis.h"
#include "trace/mem_columns.h"

namespace xtrace::trace::warp_access_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::Access;
using enum wire::Access::Role;

constexpr uint64_t base = 0x400000000;

// Block 0: a copy to two CTAs; block 1: a box of two dimensions.
wire::AddressMap copies() {
  wire::AddressMap map;
  map.blocks.resize(2);
  map.blocks[0].record_bytes = 32;
  map.blocks[1].record_bytes = 32;
  Access copy;
  copy.pc = 0x10;
  copy.form = Access::Form::bulk;
  copy.operands = {{shared, 8}, {barrier, 12}, {global_low, 16}, {global_high, 20}, {size_ctas, 24}};
  Access box;
  box.pc = 0x110;
  box.block = 1;
  box.form = Access::Form::tensor;
  box.operands = {{map_low, 8}, {map_high, 12}, {shared, 16}, {barrier, Access::none}, {coordinate, 20}, {coordinate, 24}};
  map.accesses = {copy, box};
  map.layout.slots = base;
  map.layout.slot_bytes = 512;
  map.layout.lead_bytes = 16;
  map.layout.warps = map.layout.warps_per_cta = 1;
  return map;
}

struct Seen {
  uint32_t access = 0, active = 0;
  std::vector<uint32_t> words;
  bool operator==(const Seen&) const = default;
};
struct Collector : MemVisitor {
  Status block(uint32_t, uint32_t) override { return {}; }
  Status access(uint32_t, uint32_t, const LaneAddresses&) override { return internal("no lane has an address"); }
  Status operands(uint32_t k, uint32_t active, std::span<const uint32_t> words) override {
    return seen.push_back({k, active, {words.begin(), words.end()}}), Status();
  }
  Status warp(const MemWarp&) override { return {}; }
  std::vector<Seen> seen;
};

// A copy, two boxes.
Bytes slot(const wire::AddressMap& map) {
  Bytes bytes(map.layout.slot_bytes);
  write_at(std::span(bytes), 0, uint32_t{77});
  uint64_t at = map.layout.lead_bytes;
  const auto record = [&](uint32_t block, uint32_t active, std::initializer_list<uint32_t> words) {
    uint64_t next = at;
    for (uint32_t v : {wire::word0(wire::RecordKind::mem, block), active}) write_at(std::span(bytes), next, v), next += 4;
    for (uint32_t v : words) write_at(std::span(bytes), next, v), next += 4;
    at += map.blocks[block].record_bytes;
  };
  record(0, 0x1, {0x1000400, 0x1002400, 0x10000, 0x7f, 3u << 16 | 0x100});
  record(1, 0x4, {0x280, 0x7ff4, 0x800, static_cast<uint32_t>(-8), 16});
  record(1, 0x8, {0x280, 0x7ff4, 0x1000, 24, 16});
  return bytes;
}
std::vector<Seen> expected() {
  return {{0, 0x1, {0x1000400, 0x1002400, 0x10000, 0x7f, 3u << 16 | 0x100}},
          {1, 0x4, {0x280, 0x7ff4, 0x800, 0, static_cast<uint32_t>(-8), 16}},
          {1, 0x8, {0x280, 0x7ff4, 0x1000, 0, 24, 16}}};
}

TEST(WarpAccess, WordsOfRecords) {
  const wire::AddressMap map = copies();
  Collector c;
  ASSERT_TRUE(decode_mem(map, buffer_reader(base, slot(map)), {}, {}, c));
  EXPECT_EQ(c.seen, expected());
  wire::AddressMap broken = map;
  broken.accesses[0].operands[2].place = 32;
  EXPECT_THAT(decode_mem(broken, buffer_reader(base, slot(map)), {}, {}, c).error().message, HasSubstr("access 0 has a word at 32 in a record of 32 bytes"));
}

TEST(WarpAccess, TheFileGivesThemBack) {
  const wire::AddressMap map = copies();
  MemEncoder encoder(map);
  std::string out;
  for (const Seen& s : expected()) {
    encoder.block(s.access, s.active);
    encoder.operands(s.access, s.active, s.words);
  }
  EXPECT_EQ(encoder.finish({}, out), 3u);
  const size_t one = out.size();
  encoder.block(1, 0x4);   // of the next warp: nothing of the last one's words is left
  encoder.operands(1, 0x4, expected()[1].words);
  EXPECT_EQ(encoder.finish({}, out), 1u);
  const auto ranges = accesses_by_block(map);
  ASSERT_TRUE(ranges);
  Collector c;
  VarintReader in(out);
  EXPECT_EQ(decode_mem_warp(in, map, *ranges, c).value(), 3u);
  EXPECT_EQ(c.seen, expected());
  EXPECT_EQ(decode_mem_warp(in, map, *ranges, c).value(), 1u);
  EXPECT_TRUE(in.ok() && in.at_end());
  EXPECT_EQ(c.seen.back(), expected()[1]);
  for (size_t n = 0; n < one; ++n) {
    VarintReader cut(std::string_view(out).substr(0, n));
    ASSERT_TRUE(decode_mem_warp(cut, map, *ranges, c));
    EXPECT_FALSE(cut.ok()) << n;
  }
}

// A uniform predicate keeps the copy from being made: a word says so, in the record and in the file.
TEST(WarpAccess, NotMade) {
  wire::AddressMap map = copies();
  map.accesses[0].mask = 28;
  Bytes bytes = slot(map);
  const auto seen = [&] {
    Collector c;
    EXPECT_TRUE(decode_mem(map, buffer_reader(base, bytes), {}, {}, c));
    return c.seen;
  };
  EXPECT_EQ(seen()[0].active, 0u);
  MemAnalysis analysis(map, {});
  ASSERT_TRUE(decode_mem(map, buffer_reader(base, bytes), {}, {}, analysis));
  EXPECT_EQ(analysis.accesses()[0].executions, 1u);
  EXPECT_EQ(analysis.accesses()[0].requests, 0u);
  EXPECT_EQ(analysis.accesses()[0].moved.bytes, 0u);
  write_at(std::span(bytes), map.layout.lead_bytes + 28, uint32_t{1});
  EXPECT_EQ(seen()[0].active, 1u);
  MemEncoder encoder(map);
  std::string out;
  for (const uint32_t active : {0u, 1u}) {
    encoder.block(0, 1);
    encoder.operands(0, active, expected()[0].words);
  }
  encoder.finish({}, out);
  const auto ranges = accesses_by_block(map);
  Collector c;
  VarintReader in(out);
  EXPECT_EQ(decode_mem_warp(in, map, *ranges, c).value(), 2u);
  ASSERT_EQ(c.seen.size(), 2u);
  EXPECT_EQ(c.seen[0].active, 0u);
  EXPECT_EQ(c.seen[1], expected()[0]);
}

TEST(WarpAccess, WhatTheWordsSay) {
  const wire::AddressMap map = copies();
  const WarpAccess copy = warp_access(map.accesses[0], expected()[0].words), box = warp_access(map.accesses[1], expected()[1].words);
  EXPECT_EQ(copy.global, 0x7f00010000u);
  EXPECT_EQ(copy.bytes, 4096u);
  EXPECT_EQ(copy.ctas, 3u);
  EXPECT_EQ(rank_of(*copy.shared), 1u);
  EXPECT_EQ(offset_of(*copy.barrier), 0x2400u);
  EXPECT_FALSE(copy.shared_from);
  EXPECT_EQ(box.map, 0x7ff400000280u);
  EXPECT_EQ(box.dimensions, 2u);
  EXPECT_EQ(box.at[0], -8);
  EXPECT_EQ(box.at[1], 16);
  EXPECT_EQ(box.bytes, 0u);
}

TEST(WarpAccess, SectorsOfRanges) {
  EXPECT_EQ(sectors_of_ranges({}), 0u);
  EXPECT_EQ(sectors_of_ranges({{0x10, 0x20}}), 1u);
  EXPECT_EQ(sectors_of_ranges({{0x10, 0x30}}), 2u);
  EXPECT_EQ(sectors_of_ranges({{0x00, 0x10}, {0x10, 0x20}, {0x40, 0x80}}), 3u);
}

TEST(WarpAccess, HoldsOverNeighbours) {
  const std::vector<MemoryRange> memory{{0x100, 0x200}, {0x200, 0x300}, {0x400, 0x500}};
  EXPECT_TRUE(holds(memory, 0x180, 0x280));
  EXPECT_TRUE(holds(memory, 0x100, 0x300));
  EXPECT_FALSE(holds(memory, 0x280, 0x301));
  EXPECT_FALSE(holds(memory, 0x280, 0x480));
  EXPECT_FALSE(holds(memory, 0xf0, 0x110));
  EXPECT_TRUE(holds(memory, 0x400, 0x500));
  EXPECT_FALSE(holds({}, 0x400, 0x401));
}

// Rows of 16 bytes, 64 apart, from 0x7f00010000 on; of the box at a negative coordinate only one is inside.
struct Maps : TensorMaps {
  Found box(const Access&, const WarpAccess& what) override {
    if (what.map != 0x7ff400000280u) return NotKnown{"nobody recorded it"};
    if (what.dimensions != 2) return Impossible{"another rank"};
    Box b{32, 64, {}};
    for (uint64_t row = what.at[0] < 0 ? 1 : 0; row < 2; ++row) b.rows.push_back({0x7f00010000u + 64 * row, 0x7f00010010u + 64 * row});
    return b;
  }
  std::string text(uint64_t) override { return "2D of u32"; }
};

const std::vector<MemoryRange> memory{{0x7f00010000, 0x7f00011000}};

struct Analysed {
  explicit Analysed(const wire::AddressMap& map, SharedMemory shared = {0x3000, 2}) : analysis(map, memory) { analysis.set_moved(shared, &maps); }
  Maps maps;
  MemAnalysis analysis;
};

TEST(WarpAccess, WhatIsMoved) {
  const wire::AddressMap map = copies();
  Analysed a(map);
  ASSERT_TRUE(decode_mem(map, buffer_reader(base, slot(map)), {}, {}, a.analysis));
  EXPECT_EQ(a.analysis.impossible(), 0u) << a.analysis.first_impossible();
  EXPECT_EQ(a.analysis.checked(), 3u + 2 * 3);
  const AccessStats& copy = a.analysis.accesses()[0];
  EXPECT_EQ(copy.requests, 1u);
  EXPECT_EQ(copy.sectors, 128u);
  EXPECT_EQ(copy.moved.bytes, 4096u);
  EXPECT_EQ(copy.moved.copies, 2u);
  EXPECT_EQ(copy.moved.global, (Extent{0x7f00010000, 0x7f00011000}));
  EXPECT_EQ(copy.moved.shared, (Extent{0x400, 0x1400}));
  const AccessStats& box = a.analysis.accesses()[1];
  EXPECT_EQ(box.requests, 2u);
  EXPECT_EQ(box.sectors, 3u);
  EXPECT_EQ(box.moved.bytes, 64u);
  EXPECT_EQ(box.moved.outside, 16u);
  EXPECT_EQ(box.moved.copies, 2u);
  EXPECT_EQ(box.moved.global, (Extent{0x7f00010000, 0x7f00010050}));
  EXPECT_EQ(box.moved.shared, (Extent{0x800, 0x1040}));
  EXPECT_THAT(box.moved.maps, ElementsAre(std::pair<const uint64_t, uint64_t>(0x7ff400000280, 2)));

  std::vector<AccessRow> rows{{map.accesses[0], copy, "UBLKCP", "a.cu:1"}, {map.accesses[1], box, "UTMALDG.2D", "a.cu:2", {{0x7ff400000280, "2D of u32"}}}};
  const std::string text = render_text(rows);
  EXPECT_THAT(text, HasSubstr("bulk load     4096"));
  EXPECT_THAT(text, HasSubstr("0x7f00010000:0x7f00010050"));
  EXPECT_THAT(text, HasSubstr("2D of u32"));
  EXPECT_THAT(render_csv(rows), HasSubstr("0x110,1,global,load,,2,2,,,3,,,tensor,64,16,2,0x7f00010000,0x7f00010050,0x800,0x1040,1,0,a.cu:2,UTMALDG.2D\n"));
  const auto json = JsonDocument(render_json(rows));
  EXPECT_EQ(json.at("/0/moved/copies"), "2");
  EXPECT_EQ(json.text("/1/moved/maps/0/text"), "2D of u32");
  EXPECT_EQ(json.at("/1/sectors_per_request"), "1.5");
  EXPECT_EQ(json.at("/1/lanes"), "null");
}

TEST(WarpAccess, WhatCanNotBe) {
  const wire::AddressMap map = copies();
  const auto why = [&](size_t access, size_t word, uint32_t value, SharedMemory shared_memory = {0x3000, 2}) {
    Analysed a(map, shared_memory);
    std::vector<uint32_t> words = expected()[access].words;
    words[word] = value;
    EXPECT_TRUE(a.analysis.operands(static_cast<uint32_t>(access), 1, words));
    EXPECT_EQ(a.analysis.impossible(), a.analysis.first_impossible().empty() ? 0u : 1u);
    return a.analysis.first_impossible();
  };
  EXPECT_EQ(why(0, 0, 0x1000400), "");
  EXPECT_EQ(why(0, 0, 0x1000408), "bulk load at 0x10: a piece at 0x1000408 of shared memory, not aligned to 16 bytes");
  EXPECT_EQ(why(0, 0, 0x2000400), "bulk load at 0x10: a piece at 0x2000400 of shared memory: CTA 2 of a cluster of 2");
  EXPECT_EQ(why(0, 0, 0x1002010), "bulk load at 0x10: a piece of 4096 bytes at 0x2010 of shared memory, which has 0x3000");
  EXPECT_EQ(why(0, 0, 0x1002010, {}), "") << "nothing is known of it";
  EXPECT_EQ(why(0, 1, 0x1002404), "bulk load at 0x10: a barrier at 0x1002404 of shared memory, not aligned to 8 bytes");
  EXPECT_EQ(why(0, 2, 0x10010), "bulk load at 0x10: 4096 bytes at 0x7f00010010, outside the memory of the launch");
  EXPECT_EQ(why(0, 2, 0x10008), "bulk load at 0x10: 4096 bytes at 0x7f00010008, not aligned to 16");
  EXPECT_EQ(why(0, 4, 3u << 16), "bulk load at 0x10: no bytes");
  EXPECT_EQ(why(0, 4, 5u << 16 | 0x100), "bulk load at 0x10: CTAs 0x5 of a cluster of 2");
  EXPECT_EQ(why(1, 0, 0x2a0), "tensor load at 0x110: a tensor map at 0x7ff4000002a0, not aligned to 64 bytes");
  EXPECT_EQ(why(1, 2, 0x440), "tensor load at 0x110: a box at 0x440 of shared memory, not aligned to 128 bytes");
  EXPECT_EQ(why(1, 3, 0x9000), "tensor load at 0x110: a barrier of 8 bytes at 0x9000 of shared memory, which has 0x3000");
}

TEST(WarpAccess, MapsThatNobodyKnows) {
  const wire::AddressMap map = copies();
  Analysed a(map);
  std::vector<uint32_t> words = expected()[1].words;
  words[0] = 0x2c0;
  ASSERT_TRUE(a.analysis.operands(1, 1, words));
  const AccessStats& s = a.analysis.accesses()[1];
  EXPECT_EQ(s.moved.not_known, 1u);
  EXPECT_EQ(a.analysis.impossible(), 0u);
  const std::vector<AccessRow> rows{{map.accesses[1], s, "UTMALDG.2D", ""}};
  EXPECT_THAT(render_text(rows), HasSubstr("1 of 1 not known: nobody recorded it"));
  EXPECT_EQ(JsonDocument(render_json(rows)).at("/0/sectors"), "null");
}

}  // namespace
}  // namespace xtrace::trace::warp_access_test
