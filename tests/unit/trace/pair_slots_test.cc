#include "trace/pair_slots.h"

#include <gtest/gtest.h>

#include "trace/plain_slots.h"
#include "trace/stretch.h"

namespace xtrace::trace {
namespace {

using wire::RecordKind;

// One slot without a head, its words in order.
struct Slot {
  wire::AddressMap map;
  std::vector<uint32_t> words;
  Slot(bool short_pairs, bool edge) {
    map.layout.slots = 0x100000000000;
    map.layout.warps = map.layout.warps_per_cta = 1;
    map.layout.headless = true;
    map.layout.short_pairs = short_pairs;
    map.sites.push_back({0x40, edge, 0, 1});
    map.blocks.resize(1);
    map.blocks[0].instructions = 8;
  }
  void chunk(RecordKind kind, uint32_t mask, uint32_t a, uint32_t b) {
    words.insert(words.end(), {wire::word0(kind, 0), mask, a, b});
  }

  std::vector<uint64_t> in_place(PairsOf what, bool& ended) const {
    std::vector<uint64_t> cycles;
    ended = for_each_pair_in(std::as_bytes(std::span(words)), map.layout.short_pairs, what, [&](uint64_t c) { cycles.push_back(c); });
    return cycles;
  }
  std::vector<uint64_t> decoded(PairsOf what, uint64_t& lost) {
    map.layout.slot_bytes = static_cast<uint32_t>(words.size() * 4);
    const auto view = view_plain_slots(map, buffer_reader(map.layout.slots, std::as_bytes(std::span(words))), {});
    EXPECT_TRUE(view) << (view ? "" : view.error().to_string());
    std::vector<uint64_t> cycles;
    const auto add = [&](uint64_t c) { cycles.push_back(c); };
    const auto summary = decode(view->map, TraceKind::pair, view->headers, view->read, {view->table, false, {}}, [&](const WarpTrace& t) -> Status {
      what == PairsOf::stretch ? for_each_stretch(t, add) : for_each_pair(t, add);
      return {};
    });
    EXPECT_TRUE(summary) << (summary ? "" : summary.error().to_string());
    lost = summary ? summary->losses.count(LossSeverity::lost) : 0;
    return cycles;
  }
  // Both ways alike.
  std::vector<uint64_t> cycles(PairsOf what) {
    words.resize(words.size() + 4);
    bool ended = false;
    uint64_t lost = 0;
    const auto here = in_place(what, ended);
    EXPECT_TRUE(ended);
    EXPECT_EQ(here, decoded(what, lost));
    EXPECT_EQ(lost, 0u);
    return here;
  }
};
using Cycles = std::vector<uint64_t>;

TEST(PairSlots, ShortPairs) {
  Slot s(true, false);
  s.words = {100, 130, 0xfffffff0, 8, 0x20, 0x24};   // the second over the end of 32 bits
  EXPECT_EQ(s.cycles(PairsOf::instruction), (Cycles{30, 0x18, 4}));
}

TEST(PairSlots, PairsInChunks) {
  Slot s(false, false);
  s.chunk(RecordKind::pair, ~0u, 100, 130);
  s.chunk(RecordKind::pair, 0xff, 200, 200);   // no time: none
  s.chunk(RecordKind::pair, 0xff, 300, 290);   // nor backwards
  s.chunk(RecordKind::pair, 0xff, 400, 405);
  EXPECT_EQ(s.cycles(PairsOf::instruction), (Cycles{30, 5}));
}

// A half whose other half belongs to other lanes, or does not follow at once, is no pair.
TEST(PairSlots, Edges) {
  Slot s(false, true);
  s.chunk(RecordKind::edge_begin, 0xff, 100, 0);
  s.chunk(RecordKind::edge_end, 0xff, 130, 0);
  s.chunk(RecordKind::edge_end, 0xff, 150, 0);
  s.chunk(RecordKind::edge_begin, 0x0f, 200, 0);
  s.chunk(RecordKind::edge_end, 0xf0, 230, 0);
  s.chunk(RecordKind::edge_begin, 0x0f, 300, 0);
  s.chunk(RecordKind::edge_begin, 0xf0, 310, 0);
  s.chunk(RecordKind::edge_end, 0xf0, 0xfffffff0, 0);
  s.chunk(RecordKind::edge_begin, 0xf0, 0xfffffff5, 0);
  s.chunk(RecordKind::edge_end, 0xf0, 4, 1);
  EXPECT_EQ(s.cycles(PairsOf::instruction), (Cycles{30, 0xfffffff0 - 310, 15}));
}

TEST(PairSlots, Stretches) {
  for (const bool short_pairs : {true, false}) {
    Slot s(short_pairs, false);
    const auto put = [&](uint32_t begin, uint32_t end) {
      if (short_pairs)
        s.words.insert(s.words.end(), {begin, end});
      else
        s.chunk(RecordKind::pair, ~0u, begin, end);
    };
    put(100, 130);
    put(wire::no_begin, 140);   // came from elsewhere
    put(200, 210);              // in front of an EXIT that some lanes take ...
    put(200, 260);              // ... and where the others go on
    put(300, 300);
    put(0xfffffff0, 8);
    EXPECT_EQ(s.cycles(PairsOf::stretch), (Cycles{30, 60, 0, 0x18})) << short_pairs;
  }
}

// Records up to the very end of a slot: there may have been more. Anything else in it is no record.
TEST(PairSlots, LossesAreSeen) {
  for (const bool short_pairs : {true, false}) {
    Slot s(short_pairs, false);
    for (uint32_t k = 1; k < 5; ++k) s.words.insert(s.words.end(), {short_pairs ? 100 * k : wire::word0(RecordKind::pair, 0), 100 * k + 7});
    bool ended = true;
    s.in_place(PairsOf::instruction, ended);
    EXPECT_FALSE(ended);
    uint64_t lost = 0;
    s.decoded(PairsOf::instruction, lost);
    EXPECT_GT(lost, 0u);
  }
  Slot s(false, false);
  s.chunk(RecordKind::block, ~0u, 100, 130);
  s.words.resize(8);
  bool ended = true;
  EXPECT_TRUE(s.in_place(PairsOf::instruction, ended).empty());
  EXPECT_FALSE(ended);
}

}  // namespace
}  // namespace xtrace::trace
