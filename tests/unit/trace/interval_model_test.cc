#include "trace/interval_model.h"

#include <gtest/gtest.h>

#include "trace/stretch.h"

namespace xtrace::trace {
namespace {

// A site whose samples all exceed its stall count by `excess` cycles.
SiteTimes site(uint32_t pc, uint32_t stall, uint32_t excess, bool waits = false) {
  SiteTimes s{pc, stall, waits, static_cast<double>(stall + excess), 0.1, {}};
  if (excess < SiteTimes::shown) s.excess[excess] = 1;
  return s;
}

// Alone on its scheduler: a clock costs what the pipes say, and nothing where the instruction waits for a scoreboard meanwhile.
TEST(IntervalModel, ClocksOfAWarpByItself) {
  BlockTimes b;
  b.executions = 1;
  b.sites = {site(0x00, 4, 1), site(0x10, 4, 2), site(0x20, 4, 20, true), site(0x30, 2, 1, true)};
  b.body = StretchTimes{4 + 4 + 24 + 2 + 2, 0.5, 0};   // a clock and its move
  const double inserted = inserted_cycles(std::span(&b, 1));
  EXPECT_NEAR(inserted, 1, 0.06);
  const BlockIntervals i = intervals_of(b, inserted);
  ASSERT_EQ(i.sites.size(), 4u);
  EXPECT_NEAR(i.sites[0].cycles, 4, 0.1);
  EXPECT_NEAR(i.sites[1].cycles, 4, 0.1);
  EXPECT_NEAR(i.sites[2].cycles, 24, 0.1);
  EXPECT_NEAR(i.sites[3].cycles, 2, 0.1);
  EXPECT_NEAR(i.together, 34, 0.3);
  EXPECT_FALSE(i.last);
}

// Many warps: each instruction waits 6 cycles for its turn, and so does each clock. What the stretch says is found out.
TEST(IntervalModel, ClocksOfManyWarps) {
  std::vector<BlockTimes> blocks(3);
  for (BlockTimes& b : blocks) {
    b.executions = 2;
    for (uint32_t k = 0; k < 10; ++k) b.sites.push_back(site(16 * k, 2, 6 + 6));   // its own turn and the clock's
    b.body = StretchTimes{10 * 8 + 2 * 6, 0.5, 0};
    b.block = StretchTimes{10 * 8 + 2 * 6 + 15, 0.5, 0};
  }
  const double inserted = inserted_cycles(blocks);
  EXPECT_NEAR(inserted, 6, 0.1);
  const BlockIntervals i = intervals_of(blocks[0], inserted);
  for (const Interval& k : i.sites) EXPECT_NEAR(k.cycles, 8, 0.1);
  ASSERT_TRUE(i.last);
  EXPECT_NEAR(i.last->cycles, 15, 0.1);   // what clocks add is in both stretches
  EXPECT_NEAR(i.together, 95, 1);
}

// What the pairs lack goes to the intervals that are known least; none falls below its stall count.
TEST(IntervalModel, TheStretchDecidesTheSum) {
  BlockTimes b;
  b.executions = 1;
  b.sites = {site(0x00, 4, 1), site(0x10, 4, 96, true), site(0x20, 4, 1)};
  b.sites[1].error = 30;
  b.body = StretchTimes{4 + 120 + 4 + 2, 0.5, 0};
  const BlockIntervals i = intervals_of(b, 1);
  EXPECT_NEAR(i.together, 128, 0.5);
  EXPECT_NEAR(i.sites[1].cycles, 120, 0.5);
  EXPECT_NEAR(i.sites[0].cycles, 4, 0.1);
  b.body = StretchTimes{20, 0.5, 0};
  for (const Interval& k : intervals_of(b, 1).sites) EXPECT_GE(k.cycles, 4);
}

// A site that was refused has no interval; the block's sum has its time.
TEST(IntervalModel, UnknownSitesAreInTheSum) {
  BlockTimes b;
  b.executions = 1;
  b.sites = {site(0x00, 4, 1)};
  b.unknown = 1;
  b.body = StretchTimes{30 + 2, 0.5, 0};
  const BlockIntervals i = intervals_of(b, 1);
  EXPECT_EQ(i.sites.size(), 1u);
  EXPECT_NEAR(i.sites[0].cycles, 4, 0.1);
  EXPECT_NEAR(i.together, 30, 0.1);
  b.body.reset();
  EXPECT_NEAR(intervals_of(b, 1).together, 4, 0.1);
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
