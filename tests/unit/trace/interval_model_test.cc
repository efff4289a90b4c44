#include "trace/interval_model.h"

#include <gtest/gtest.h>

#include "trace/stretch.h"

namespace xtrace::trace {
namespace {

// A site whose samples all exceed its stall count by `excess` cycles.
SiteTimes site(uint32_t pc, uint32_t stall, uint32_t excess, bool waits = false) {
  SiteTimes s{pc, stall, waits, static_cast<double>(stall + excess), 0.1, {}, {}};
  if (excess < SiteTimes::shown) s.excess[excess] = 1;
  return s;
}
StretchTimes stretch(double cycles, double pause = 0) { return {cycles, 0.5, pause, Scattered{pause + 4, 0}}; }

// As an H200 has it where a warp is alone on its scheduler: chains of the kernel `known`, two links of each, and what pairs around
// both read. An FFMA takes 4 cycles, a LOP3 4, a DFMA 8, an LDS 23.
TEST(IntervalModel, ClocksOfAWarpByItself) {
  struct Chain {
    uint32_t stall;
    double single, both, truth;
    bool waits;
  };
  const Chain chains[] = {{4, 5, 9, 4, false}, {4, 6, 10, 4, false}, {8, 9, 17, 8, false}, {4, 23, 46, 23, true}, {4, 34, 68, 34, true}};
  BlockTimes b;
  b.executions = 1;
  for (const Chain& c : chains)
    for (int link = 0; link < 2; ++link) {
      SiteTimes s = site(static_cast<uint32_t>(16 * b.sites.size()), c.stall, static_cast<uint32_t>(c.single) - c.stall, c.waits);
      if (link == 1) s.added = Scattered{2 * c.single - c.both, 0};
      b.sites.push_back(s);
    }
  const AddedCycles added(std::span(&b, 1));
  const BlockIntervals i = intervals_of(b, added);
  for (size_t k = 0; k < b.sites.size(); ++k)
    EXPECT_NEAR(i.sites[k].cycles, chains[k / 2].truth, k % 2 == 0 ? 0.5 : 0.1) << k;   // of the first one it is what its kind has
  EXPECT_FALSE(i.last);
}

// Many warps: each instruction waits 6 cycles for its turn, and so does each clock.
TEST(IntervalModel, ClocksOfManyWarps) {
  std::vector<BlockTimes> blocks(3);
  for (BlockTimes& b : blocks) {
    b.executions = 2;
    for (uint32_t k = 0; k < 10; ++k) {
      b.sites.push_back(site(16 * k, 2, 6 + 6));   // its own turn and the clock's
      if (k != 0) b.sites.back().added = Scattered{6.2 - 0.4 * (k % 2), 0.3};
    }
    b.body = stretch(10 * 8 + 9, 5);
    b.last = StretchTimes{15 + 12, 0.5, 5, Scattered{12, 0.2}};
    b.last_stall = 5;
  }
  const AddedCycles added(blocks);
  EXPECT_NEAR(added.where_nothing_waits(), 6, 0.3);
  const BlockIntervals i = intervals_of(blocks[0], added);
  for (const Interval& k : i.sites) EXPECT_NEAR(k.cycles, 8, 0.5);
  ASSERT_TRUE(i.last);
  EXPECT_NEAR(i.last->cycles, 15, 0.2);
  EXPECT_NEAR(i.body, 80, 0.5);
  EXPECT_NEAR(i.together(blocks[0]), 95, 0.7);
  blocks[0].last_share = 0.5;   // half of the warps leave in its place
  EXPECT_NEAR(i.together(blocks[0]), 87.5, 0.7);
}

// What chance moves far says little: then a clock adds what it does elsewhere.
TEST(IntervalModel, WhatScattersIsNotBelieved) {
  BlockTimes b;
  b.executions = 1;
  for (uint32_t k = 0; k < 12; ++k) {
    b.sites.push_back(site(16 * k, 4, 1));
    if (k != 0) b.sites.back().added = Scattered{1, 0.1};
  }
  b.sites[5].cycles = 700;
  b.sites[5].added = Scattered{12, 30};
  b.sites[6].cycles = 9;
  b.sites[6].added = Scattered{5, 0.1};   // and what does not, is
  const BlockIntervals i = intervals_of(b, AddedCycles(std::span(&b, 1)));
  EXPECT_NEAR(i.sites[5].cycles, 699, 1);
  EXPECT_NEAR(i.sites[6].cycles, 4, 0.5);
}

// What the pairs lack goes to the intervals that are known least; none falls below its stall count.
TEST(IntervalModel, TheStretchDecidesTheSum) {
  BlockTimes b;
  b.executions = 1;
  b.sites = {site(0x00, 4, 1), site(0x10, 4, 96, true), site(0x20, 4, 1)};
  b.sites[1].error = 30;
  b.body = stretch(4 + 120 + 4 + 4);
  const AddedCycles added(std::span(&b, 1));
  const BlockIntervals i = intervals_of(b, added);
  EXPECT_NEAR(i.body, 128, 0.5);
  EXPECT_NEAR(i.sites[1].cycles, 120, 0.5);
  EXPECT_NEAR(i.sites[0].cycles, 4, 0.1);
  b.body = stretch(20);
  for (const Interval& k : intervals_of(b, added).sites) EXPECT_GE(k.cycles, 4);
}

// A record takes from the waits of a stretch that comes round again: with two of them it was shorter (`device_calls` on an H200).
TEST(IntervalModel, RecordsMayTakeFromALongStretch) {
  BlockTimes b;
  b.executions = 16;
  b.sites = {site(0x00, 4, 1), site(0x10, 4, 2000, true)};
  b.sites[1].error = 30;
  b.body = StretchTimes{2778, 10, 0, Scattered{-61, 4}};
  const BlockIntervals i = intervals_of(b, AddedCycles(std::span(&b, 1)));
  EXPECT_NEAR(i.body, 2778 + 61, 4);
  b.body->added->deviation = 300;   // chance: what it is elsewhere
  EXPECT_NEAR(intervals_of(b, AddedCycles(std::span(&b, 1))).body, 2778 - 4, 4);
}

// A site that was refused has no interval; the block's sum has its time.
TEST(IntervalModel, UnknownSitesAreInTheSum) {
  BlockTimes b;
  b.executions = 1;
  b.sites = {site(0x00, 4, 1)};
  b.unknown = 1;
  b.body = stretch(30 + 4);
  const AddedCycles added(std::span(&b, 1));
  const BlockIntervals i = intervals_of(b, added);
  EXPECT_EQ(i.sites.size(), 1u);
  EXPECT_NEAR(i.sites[0].cycles, 4, 0.1);
  EXPECT_NEAR(i.body, 30, 0.1);
  b.body.reset();
  EXPECT_NEAR(intervals_of(b, added).body, 4, 0.1);
}

WarpTrace records(const std::vector<std::pair<uint64_t, uint64_t>>& pairs) {
  WarpTrace t;
  for (const auto& [begin, end] : pairs) {
    t.kind.push_back(wire::RecordKind::pair);
    t.index.push_back(0);
    t.mask.push_back(~0u);
    t.clock.insert(t.clock.end(), {begin, end});
    t.clock_begin.push_back(static_cast<uint32_t>(t.clock.size()));
  }
  return t;
}

TEST(Stretch, CountsFromItsBeginningToItsLastEnd) {
  const uint64_t epoch = 1ull << 33, wrap = 1ull << 32;
  std::vector<uint64_t> seen;
  for_each_stretch(records({{epoch + 100, epoch + 130},          // one
                            {wire::no_begin, epoch + 140},       // came from elsewhere
                            {epoch + 200, epoch + 210},          // in front of an EXIT that some lanes take ...
                            {epoch + 200, epoch + 260},          // ... and where the others go on
                            {epoch + wrap - 5, epoch + wrap + 7}}),
                   [&](uint64_t d) { seen.push_back(d); });
  EXPECT_EQ(seen, (std::vector<uint64_t>{30, 60, 12}));
}

}  // namespace
}  // namespace xtrace::trace
