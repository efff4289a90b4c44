#include "trace/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "encoder.h"

namespace xtrace::trace {
namespace {

using testing::all;
using testing::Buffer;
using testing::diamond_loop;
using testing::Event;
using testing::events_of;
using testing::fill_others;
using ::testing::HasSubstr;

TEST(Decode, BlockRecordsOfEveryWarp) {
  Buffer b(diamond_loop(TraceKind::block));
  b.start(0, 0x1'0000'0000 - 4, 777, 3);
  b.block(0, 0, all, 0x1'0000'0002);
  b.block(0, 1, 0x0000ffff, 0x1'0000'0010);
  b.block(0, 2, 0xffff0000, 0x2'0000'0000);  // a 64-bit clock: a long pause is kept
  b.exit(0, 0x2'0000'0009);
  fill_others(b, TraceKind::block);
  std::vector<WarpTrace> t;
  const auto s = b.decode(TraceKind::block, t);
  ASSERT_TRUE(s) << s.error().to_string();
  ASSERT_EQ(t.size(), 4u);
  EXPECT_EQ(events_of(t[0]), b.events[0]);
  EXPECT_EQ(events_of(t[3]), b.events[3]);
  EXPECT_EQ(t[0].sm, 3u);
  EXPECT_EQ(t[0].start_time, 777u);
  EXPECT_EQ(t[0].exit_clock, 0x2'0000'0009u);
  EXPECT_EQ(t[3].cta, 1u);
  EXPECT_EQ(t[3].warp_in_cta, 1u);
  EXPECT_EQ(s->records, 3u + 3 * 4);
  EXPECT_EQ(s->bytes_written, 16u * 15);
  EXPECT_EQ(s->bytes_kept, 16u * 15);
  EXPECT_TRUE(s->losses.none());
}

TEST(Decode, InstRecordsOfEveryLengthAcrossTheTurnOfThe32BitClock) {
  wire::AddressMap map = diamond_loop(TraceKind::inst);
  map.blocks.clear();
  for (uint32_t n = 1; n <= 12; ++n) {
    wire::Block blk;
    blk.first_pc = 0x1000 * n;
    blk.instructions = blk.clocks = n;
    blk.record_bytes = wire::inst_record_bytes(n);
    map.blocks.push_back(blk);
  }
  map.layout.warps = map.layout.warps_per_cta = 1;
  Buffer b(map);
  uint64_t clock = 0x7'ffff'ff80;
  b.start(0, clock);
  for (uint32_t i = 0; i < 12; ++i) b.inst_run(0, i, all >> i, clock, 5);
  b.exit(0, clock + 6);
  EXPECT_GT(clock, 0x8'0000'0000u);
  std::vector<WarpTrace> t;
  const auto s = b.decode(TraceKind::inst, t);
  ASSERT_TRUE(s) << s.error().to_string();
  EXPECT_EQ(events_of(t[0]), b.events[0]);
  EXPECT_EQ(t[0].exit_clock, clock + 6);
  EXPECT_TRUE(s->losses.none());
  EXPECT_EQ(s->clocks, 78u);
}

TEST(Decode, PairsAndEdges) {
  Buffer b(diamond_loop(TraceKind::pair));
  for (uint32_t w = 0; w < 4; ++w) b.start(w, 100);
  b.pair(0, 0, all, 110, 150);
  b.edge(0, true, 1, all, 160);
  b.edge(0, false, 1, 0xff, 170);
  b.edge(0, false, 1, ~0xffu, 0x9'0000'0300);  // edges carry 64 bits
  b.pair(0, 0, all, 0x9'0000'0400, 0x9'0000'0410);
  for (uint32_t w = 0; w < 4; ++w) b.exit(w, 0x9'0000'0500);
  std::vector<WarpTrace> t;
  const auto s = b.decode(TraceKind::pair, t);
  ASSERT_TRUE(s);
  EXPECT_EQ(events_of(t[0]), b.events[0]);
  EXPECT_EQ(t[1].records(), 0u);  // a warp that never met the site lost nothing
  EXPECT_TRUE(s->losses.none());
}

TEST(Decode, SlotTable) {
  wire::AddressMap map = diamond_loop(TraceKind::block);
  map.layout.table = 0x1234;
  map.layout.slot_bytes = 0;
  Buffer b(map);
  b.set_slots({128, 512, 128, 256});
  fill_others(b, TraceKind::block, 0);
  std::vector<WarpTrace> t;
  const auto s = b.decode(TraceKind::block, t);
  ASSERT_TRUE(s) << s.error().to_string();
  for (int w = 0; w < 4; ++w) EXPECT_EQ(events_of(t[w]), b.events[w]) << w;
  EXPECT_TRUE(s->losses.none());
}

TEST(Decode, SamplingVisitsOnlySampledCtas) {
  wire::AddressMap map = diamond_loop(TraceKind::block);
  map.layout.warps = 64;
  map.layout.one_in = 4;
  map.layout.seed = 99;
  Buffer b(map);
  std::vector<uint32_t> expected;
  for (uint32_t w = 0; w < 64; ++w) {
    if (!wire::cta_is_sampled(w / 2, 4, 99)) continue;
    expected.push_back(w);
    b.start(w, 10);
    b.block(w, 0, all, 20);
    b.exit(w, 30);
  }
  ASSERT_GT(expected.size(), 4u);
  ASSERT_LT(expected.size(), 40u);
  std::vector<WarpTrace> t;
  auto s = b.decode(TraceKind::block, t);
  ASSERT_TRUE(s);
  std::vector<uint32_t> visited;
  for (const auto& w : t) visited.push_back(w.warp);
  EXPECT_EQ(visited, expected);
  EXPECT_EQ(s->unsampled_warps, 64 - expected.size());
  EXPECT_TRUE(s->losses.none());
}

// Random runs in wrapping slots of every size: what is kept must be the newest of what was written, event by
// event, and written = kept + dropped. Warps write in random interleaving, so that neighbours fight over the
// shared bytes.
TEST(DecodeWrap, KeepsTheNewestRecordsWhateverTheNeighboursDo) {
  std::mt19937 rng(7);
  uint64_t contested = 0, wrapped = 0, untouched = 0;
  for (int round = 0; round < 400; ++round) {
    const TraceKind kind = round % 4 == 0 ? TraceKind::block : TraceKind::inst;
    wire::AddressMap map = diamond_loop(kind);
    map.layout.wraps = true;
    map.layout.table = round % 2;
    map.layout.slot_bytes = 256;
    Buffer b(map);
    if (map.layout.table) b.set_slots({128, 256, 512, 128});
    std::vector<uint64_t> clock(4, 1'000'000);
    std::vector<uint32_t> left(4);
    for (uint32_t w = 0; w < 4; ++w) {
      b.start(w, clock[w]);
      left[w] = 1 + rng() % (round % 8 == 7 ? 3 : 60);
    }
    while (left[0] + left[1] + left[2] + left[3] != 0) {
      const uint32_t w = rng() % 4;
      if (left[w] == 0) continue;
      --left[w];
      const uint32_t block = rng() % 5;
      if (kind == TraceKind::inst) b.inst_run(w, block, 1 + rng(), clock[w]);
      if (kind == TraceKind::block) b.block(w, block, 1 + rng(), clock[w] += 7);
    }
    for (uint32_t w = 0; w < 4; ++w) b.exit(w, clock[w] + 1);
    std::vector<WarpTrace> t;
    const auto s = b.decode(kind, t);
    ASSERT_TRUE(s) << s.error().to_string();
    for (uint32_t w = 0; w < 4; ++w) {
      SCOPED_TRACE(::testing::Message() << "round " << round << " warp " << w);
      const std::vector<Event>& wrote = b.events[w];
      const std::vector<Event> kept = events_of(t[w]);
      // Kept events are a subsequence of those written (clocks make each unique), complete but at the gaps.
      size_t at = wrote.size() - kept.size();
      if (t[w].gaps.empty() || (t[w].gaps.size() == 1 && t[w].front_missing() && !kept.empty())) {
        for (size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(kept[i], wrote[at + i]);
      } else {
        at = 0;
        for (const Event& e : kept) {
          while (at < wrote.size() && !(wrote[at] == e)) ++at;
          ASSERT_LT(at, wrote.size()) << "an event that was never written";
          ++at;
        }
      }
      uint64_t total = 0, kept_bytes = 0;
      for (const Event& e : wrote) total += e.bytes;
      for (uint32_t i = 0; i < t[w].records(); ++i) kept_bytes += b.map.blocks[t[w].index[i]].record_bytes;
      EXPECT_EQ(t[w].bytes_written, total);
      EXPECT_EQ(t[w].bytes_kept, kept_bytes);
      EXPECT_EQ(t[w].bytes_dropped, total - kept_bytes);
      uint64_t marked = 0;
      for (const LossMark& m : t[w].marks) marked += m.bytes;
      EXPECT_EQ(marked, total - kept_bytes) << "lost bytes that no loss accounts for";
      // At most the slot's size is kept, and at least all but the parts that can not be told apart.
      const uint64_t size = b.size[w];
      EXPECT_GE(kept_bytes + 3 * 64, std::min(total, size));
      if (kind == TraceKind::block) {
        EXPECT_EQ(kept_bytes, std::min(total, size));
      }
      if (total <= size - 64) {
        EXPECT_TRUE(t[w].gaps.empty());
        ++untouched;
      }
    }
    contested += s->losses.count(Loss::neighbour_overwrote);
    wrapped += s->losses.count(Loss::wrapped);
  }
  EXPECT_GT(contested, 100u);
  EXPECT_GT(wrapped, 500u);
  EXPECT_GT(untouched, 50u);
}

TEST(DecodeWrap, FirstClockBehindDroppedRecordsMayBeFarFromTheStart) {
  wire::AddressMap map = diamond_loop(TraceKind::pair);
  map.layout.wraps = true;
  map.layout.slot_bytes = 64;
  map.layout.lead_bytes = 16;
  map.layout.warps = map.layout.warps_per_cta = 1;
  Buffer b(map);
  b.start(0, 100);
  uint64_t c = 200;
  for (int i = 0; i < 6; ++i, c += 0x3000'0000) b.pair(0, 0, all, c, c + 5);
  b.exit(0, c);
  std::vector<WarpTrace> t;
  ASSERT_TRUE(b.decode(TraceKind::pair, t));
  ASSERT_EQ(t[0].records(), 4u);
  EXPECT_EQ(events_of(t[0])[0], b.events[0][2]);
  EXPECT_EQ(events_of(t[0])[3], b.events[0][5]);
}

TEST(DecodeSalvage, AStoppedWarpShowsWhatItWroteUnlessItWrapped) {
  for (const bool wrap : {false, true}) {
    wire::AddressMap map = diamond_loop(TraceKind::inst);
    map.layout.wraps = true;
    map.layout.slot_bytes = 256;
    Buffer b(map);
    fill_others(b, TraceKind::inst);
    uint64_t c = 100;
    b.start(0, c);
    const int turns = wrap ? 12 : 2;
    b.inst_run(0, 0, all, c);
    for (int i = 0; i < turns; ++i) b.inst_run(0, 1, all, c), b.inst_run(0, 3, all, c);
    std::vector<WarpTrace> t;
    const auto s = b.decode(TraceKind::inst, t);
    ASSERT_TRUE(s);
    EXPECT_EQ(s->losses.count(Loss::not_exited), 1u);
    EXPECT_EQ(t[0].records(), wrap ? 0u : 5u);
    EXPECT_TRUE(t[0].tail_missing());
    DecodeOptions off;
    off.salvage = false;
    ASSERT_TRUE(b.decode(TraceKind::inst, t, off));
    EXPECT_EQ(t[0].records(), 0u);
  }
}

// Any bytes at all: no crash, and the accounting holds.
TEST(DecodeFuzz, GarbageIsCountedNeverTrusted) {
  std::mt19937 rng(3);
  for (int round = 0; round < 300; ++round) {
    const TraceKind kind = static_cast<TraceKind>(round % 3);
    wire::AddressMap map = diamond_loop(kind);
    map.layout.wraps = round & 4;
    map.layout.slot_bytes = 256;
    Buffer b(map);
    fill_others(b, kind, 0);
    for (int i = 0; i < 40; ++i) b.memory[rng() % b.memory.size()] = static_cast<std::byte>(rng() & 0x2f);
    for (auto& h : b.headers)
      if (rng() % 4 == 0) h.bytes = rng() % 2 ? rng() : rng() % 600;
    if (rng() % 4 == 0) b.memory.resize(rng() % b.memory.size());
    std::vector<WarpTrace> t;
    const auto s = b.decode(kind, t);
    if (!s) {  // a slot that lies outside the buffer altogether
      EXPECT_THAT(s.error().message, HasSubstr("outside the trace buffer"));
      continue;
    }
    for (const WarpTrace& w : t) {
      EXPECT_EQ(w.bytes_written, (w.exited ? w.bytes_kept : 0) + w.bytes_dropped);
    }
  }
}

TEST(DecodeMap, ContradictionsAreBadInput) {
  struct Case {
    std::function<void(wire::AddressMap&)> change;
    const char* message;
  };
  const Case cases[] = {
      {[](auto& m) { m.layout.warps = 0; }, "0 warps in CTAs of 2"},
      {[](auto& m) { m.layout.warps = 3; }, "3 warps in CTAs of 2"},
      {[](auto& m) { m.layout.slot_bytes = 1000; }, "slots of 1000 bytes: expected a power of two"},
      {[](auto& m) { m.layout.lead_bytes = 8; }, "a lead of 8 bytes"},
      {[](auto& m) {
         m.layout.table = 1;
         m.layout.warps = 8;
       },
       "8 warps need"},
      {[](auto& m) { m.blocks[2].clocks = 6; }, "block 2 with 7 instructions under inst has 6 clocks"},
      {[](auto& m) { m.blocks[2].record_bytes = 64; }, "in 64 bytes: expected 7 in 48"},
      {[](auto& m) { m.blocks[0].successors = {9}; }, "block 0 has successor 9, there are 5"},
      {[](auto& m) {
         m.layout.wraps = true;
         m.layout.lead_bytes = 48;
       },
       "block 4 has records of 64 bytes"},
      {[](auto& m) { m.blocks.clear(); }, "without blocks"},
  };
  for (const Case& c : cases) {
    Buffer b(diamond_loop(TraceKind::inst));
    c.change(b.map);
    std::vector<WarpTrace> t;
    const auto s = b.decode(TraceKind::inst, t);
    ASSERT_FALSE(s) << c.message;
    EXPECT_EQ(s.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(s.error().message, HasSubstr(c.message));
  }
}

TEST(DecodeMap, WhatIsHandedOverIsTooShort) {
  Buffer b(diamond_loop(TraceKind::block));
  fill_others(b, TraceKind::block, 0);
  const auto message = [&](TraceKind kind, ByteView headers, DecodeOptions options = {}) {
    const auto s = decode(b.map, kind, headers, buffer_reader(testing::buffer_base, b.memory), options, [](const WarpTrace&) -> Status { return {}; });
    return s ? std::string() : s.error().message;
  };
  const auto headers = b.header_bytes();
  EXPECT_EQ(message(TraceKind::block, headers), "");
  EXPECT_THAT(message(TraceKind::block, ByteView(headers).first(headers.size() - 1)), HasSubstr("truncated warp headers"));
  const std::vector<uint64_t> counted(b.map.layout.warps - 1);
  DecodeOptions options;
  options.counted_bytes = counted;
  EXPECT_THAT(message(TraceKind::block, headers, options), HasSubstr("counted bytes: "));
  EXPECT_THAT(message(TraceKind::pair, headers), HasSubstr("a pair trace without sites"));
  EXPECT_THAT(message(TraceKind::mem, headers), HasSubstr("a decoder of their own"));
  EXPECT_THAT(message(TraceKind::point, headers), HasSubstr("a decoder of their own"));
  std::vector<wire::SlotEntry> table(b.map.layout.warps, wire::SlotEntry{testing::buffer_base, 24 - 1, 0});
  options = {};
  options.table = table;
  b.map.layout.table = 1;
  EXPECT_THAT(message(TraceKind::block, headers, options), HasSubstr("slot table: a slot of 24 bytes"));
}

TEST(BufferReader, GivesWhatIsInTheBuffer) {
  const Bytes buffer(64);
  const DeviceReader read = buffer_reader(0x1000, buffer);
  EXPECT_EQ(read(0x1000, 64)->size(), 64u);
  EXPECT_EQ(read(0x1030, 64)->size(), 16u);   // up to its end
  EXPECT_EQ(read(0x1040, 8)->size(), 0u);
  EXPECT_FALSE(read(0xfff, 8));
  EXPECT_FALSE(read(0x1041, 8));
}

TEST(DecodeMap, ErrorsOfReaderAndVisitorStop) {
  Buffer b(diamond_loop(TraceKind::block));
  fill_others(b, TraceKind::block, 0);
  const auto nothing = [](const WarpTrace&) -> Status { return {}; };
  auto s = decode(
      b.map, TraceKind::block, b.header_bytes(),
      [](uint64_t, uint64_t) -> Result<ByteView> { return device("copy failed"); }, {}, nothing);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().kind, ErrorKind::device);
  EXPECT_THAT(s.error().to_string(), HasSubstr("slot of warp 0"));
  int visits = 0;
  s = decode(b.map, TraceKind::block, b.header_bytes(), buffer_reader(testing::buffer_base, b.memory), {},
             [&](const WarpTrace&) -> Status {
               if (++visits == 2) return environment("disk full");
               return {};
             });
  ASSERT_FALSE(s);
  EXPECT_EQ(visits, 2);
}

}  // namespace
}  // namespace xtrace::trace
