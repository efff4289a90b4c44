// Invariants, counts, times: on traces that are right, and on traces sabotaged one record at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "encoder.h"
#include "trace/aggregate.h"
#include "trace/invariants.h"

namespace xtrace::trace {
namespace {

using testing::all;
using testing::Buffer;
using testing::diamond_loop;
using ::testing::HasSubstr;

constexpr uint32_t low = 0x0000ffff, high = 0xffff0000;

struct Step {
  uint32_t block, mask;
};
// Diverges twice: at the branch, and because the low lanes leave the loop one turn before the others.
const std::vector<Step> divergent = {{0, all},  {1, low}, {2, high}, {3, all},  {1, high},
                                     {3, high}, {4, low}, {1, high}, {3, high}, {4, high}};

WarpTrace trace_of(TraceKind kind, const std::vector<Step>& steps, uint64_t step = 3) {
  wire::AddressMap map = diamond_loop(kind);
  map.layout.warps = map.layout.warps_per_cta = 1;
  Buffer b(map);
  uint64_t clock = 0xffff'fff0;
  b.start(0, clock);
  for (const Step& s : steps) {
    if (kind == TraceKind::block) b.block(0, s.block, s.mask, clock += step);
    if (kind == TraceKind::inst) b.inst_run(0, s.block, s.mask, clock, step);
  }
  b.exit(0, clock + 5);
  std::vector<WarpTrace> t;
  const auto s = b.decode(kind, t);
  EXPECT_TRUE(s);
  EXPECT_TRUE(s->losses.none());
  return t.at(0);
}

InvariantResult check(const WarpTrace& t, TraceKind kind, const wire::AddressMap& map) {
  InvariantChecker c(map, kind);
  c.check(t);
  return c.result();
}

TEST(Invariants, HoldUnderDivergence) {
  for (TraceKind kind : {TraceKind::block, TraceKind::inst}) {
    const InvariantResult r = check(trace_of(kind, divergent), kind, diamond_loop(kind));
    EXPECT_EQ(r.violations(), 0u);
    EXPECT_EQ(r.row(Invariant::entry).checked, 1u);
    EXPECT_EQ(r.row(Invariant::exit).checked, 1u);        // all lanes end in B4
    EXPECT_EQ(r.row(Invariant::successor).checked, 10u);  // B3 is entered from two blocks at once
  }
}

void erase_record(WarpTrace& t, uint32_t i) {
  const uint32_t from = t.clock_begin[i], n = t.clock_begin[i + 1] - from;
  t.clock.erase(t.clock.begin() + from, t.clock.begin() + from + n);
  t.clock_begin.erase(t.clock_begin.begin() + i);
  for (size_t k = i; k < t.clock_begin.size(); ++k) t.clock_begin[k] -= n;
  t.kind.erase(t.kind.begin() + i);
  t.index.erase(t.index.begin() + i);
  t.mask.erase(t.mask.begin() + i);
}

struct Sabotage {
  const char* what;
  Invariant broken;
  uint32_t record;
  const char *expected, *found;
  std::function<void(WarpTrace&)> change;
};

TEST(Invariants, SabotageIsFoundForTheRightReason) {
  const Sabotage cases[] = {
      {"dropped", Invariant::successor, 3, "B3 after B2", "B1 (lanes 0xffff0000)",
       [](auto& t) { erase_record(t, 3); }},
      {"first dropped", Invariant::entry, 0, "B0 first", "B1", [](auto& t) { erase_record(t, 0); }},
      {"last dropped", Invariant::exit, 8, "a block that can end the warp",
       "B3 as the last block of lanes 0xffff0000", [](auto& t) { erase_record(t, 9); }},
      {"doubled", Invariant::successor, 2, "B3 after B1", "B1 (lanes 0xffff)",
       [](auto& t) {
         t.index.insert(t.index.begin() + 1, t.index[1]);
         t.mask.insert(t.mask.begin() + 1, t.mask[1]);
         t.kind.insert(t.kind.begin() + 1, t.kind[1]);
         t.clock.insert(t.clock.begin() + 1, t.clock[1]);
         t.clock_begin.push_back(t.clock_begin.back() + 1);
       }},
      {"doubled, by its clock", Invariant::clock_order, 2, "a clock above", "(clock 0 of the record)",
       [](auto& t) {
         t.index.insert(t.index.begin() + 1, t.index[1]);
         t.mask.insert(t.mask.begin() + 1, t.mask[1]);
         t.kind.insert(t.kind.begin() + 1, t.kind[1]);
         t.clock.insert(t.clock.begin() + 1, t.clock[1]);
         t.clock_begin.push_back(t.clock_begin.back() + 1);
       }},
      {"swapped", Invariant::clock_order, 5, "a clock above", "",
       [](auto& t) {
         std::swap(t.clock[4], t.clock[5]);
         std::swap(t.index[4], t.index[5]);
       }},
      {"mask lost", Invariant::mask, 5, "at least one active lane", "mask 0x0",
       [](auto& t) { t.mask[5] = 0; }},
      {"one lane too many", Invariant::successor, 4, "B1 or B4 after B3", "B2 (lanes 0x80000000)",
       [](auto& t) {
         t.index[4] = 2;
         t.mask[4] = 0x80000000;
       }},
      {"back from the exit", Invariant::successor, 9, "nothing after B4", "B4 (lanes 0x1)",
       [](auto& t) { t.mask[9] |= 1; }},
  };
  for (const Sabotage& c : cases) {
    SCOPED_TRACE(c.what);
    WarpTrace t = trace_of(TraceKind::block, divergent);
    c.change(t);
    const InvariantResult r = check(t, TraceKind::block, diamond_loop(TraceKind::block));
    const auto& row = r.row(c.broken);
    ASSERT_TRUE(row.first);
    EXPECT_GE(row.violated, 1u);
    EXPECT_EQ(row.first->record, c.record);
    EXPECT_THAT(row.first->expected, HasSubstr(c.expected));
    EXPECT_THAT(row.first->found, HasSubstr(c.found));
  }
}

TEST(Invariants, NothingIsClaimedAcrossGapsAndStoppedWarps) {
  WarpTrace t = trace_of(TraceKind::block, divergent);
  erase_record(t, 3);
  t.gaps = {3};
  EXPECT_EQ(check(t, TraceKind::block, diamond_loop(TraceKind::block)).violations(), 0u);
  erase_record(t, 0);
  t.gaps = {0, 2};
  EXPECT_EQ(check(t, TraceKind::block, diamond_loop(TraceKind::block)).violations(), 0u);
  t = trace_of(TraceKind::block, divergent);
  erase_record(t, 9);
  t.gaps = {9};
  EXPECT_EQ(check(t, TraceKind::block, diamond_loop(TraceKind::block)).violations(), 0u);
  t.gaps.clear();
  t.exited = false;
  EXPECT_EQ(check(t, TraceKind::block, diamond_loop(TraceKind::block)).violations(), 0u);
}

TEST(Invariants, TheEntryIsTheBlockWithTheLowestPc) {
  wire::AddressMap map = diamond_loop(TraceKind::block);
  map.blocks[0].first_pc = map.blocks[4].first_pc + 0x100;   // B1 is the lowest now
  EXPECT_EQ(check(trace_of(TraceKind::block, {{0, all}, {1, all}, {3, all}, {4, all}}), TraceKind::block, map).row(Invariant::entry).violated, 1u);
  EXPECT_EQ(check(trace_of(TraceKind::block, {{1, all}, {3, all}, {4, all}}), TraceKind::block, map).violations(), 0u);
}

// A clock that nobody read may equal the one in front of it; it may not lie before that, and one that was read may not.
TEST(Invariants, PlacedClocksMayEqualTheirNeighbours) {
  WarpTrace t = trace_of(TraceKind::block, divergent);
  wire::AddressMap map = diamond_loop(TraceKind::block);
  t.clock[2] = t.clock[1];   // of B2
  EXPECT_EQ(check(t, TraceKind::block, map).row(Invariant::clock_order).violated, 1u);
  for (bool wire::Block::*mark : {&wire::Block::implied, &wire::Block::placed}) {
    map = diamond_loop(TraceKind::block);
    map.blocks[2].*mark = true;
    EXPECT_EQ(check(t, TraceKind::block, map).row(Invariant::clock_order).violated, 0u);
    WarpTrace before = t;
    --before.clock[2];
    EXPECT_EQ(check(before, TraceKind::block, map).row(Invariant::clock_order).violated, 1u);
  }
}

TEST(Invariants, IndirectBranchesAllowAnySuccessor) {
  wire::AddressMap map = diamond_loop(TraceKind::block);
  const WarpTrace t = trace_of(TraceKind::block, {{0, all}, {4, all}});
  EXPECT_EQ(check(t, TraceKind::block, map).row(Invariant::successor).violated, 1u);
  map.blocks[0].successors.clear();
  map.blocks[0].indirect = true;
  EXPECT_EQ(check(t, TraceKind::block, map).violations(), 0u);
}

TEST(Invariants, BlocksWithoutProbeAreSeenThrough) {
  wire::AddressMap map = diamond_loop(TraceKind::block);
  const std::vector<Step> path = {{0, all}, {4, all}};  // B1 and B3 carry no probe
  map.blocks[1].record_bytes = map.blocks[3].record_bytes = 0;
  EXPECT_EQ(check(trace_of(TraceKind::block, path), TraceKind::block, map).violations(), 0u);
  // ... and an unprobed entry, or exit
  map = diamond_loop(TraceKind::block);
  map.blocks[0].record_bytes = map.blocks[4].record_bytes = 0;
  EXPECT_EQ(check(trace_of(TraceKind::block, {{2, all}, {3, all}}), TraceKind::block, map).violations(), 0u);
  EXPECT_EQ(
      check(trace_of(TraceKind::block, {{3, all}}), TraceKind::block, map).row(Invariant::entry).violated,
      1u);
}

// --- counts

TEST(Aggregate, CountsExecutionsLanesAndInstructions) {
  const wire::AddressMap map = diamond_loop(TraceKind::block);
  Aggregate a(map, TraceKind::block);
  a.add(trace_of(TraceKind::block, divergent));
  a.add(trace_of(TraceKind::block, {{0, 0xff}, {1, 0xff}, {3, 0xff}, {4, 0xff}}));
  const uint64_t warps[] = {2, 4, 1, 4, 3}, lanes[] = {40, 56, 16, 72, 40};
  for (int b = 0; b < 5; ++b) {
    EXPECT_EQ(a.blocks()[b].warps, warps[b]) << b;
    EXPECT_EQ(a.blocks()[b].lanes, lanes[b]) << b;
  }
  EXPECT_EQ(a.warp_instructions(), 2u * 3 + 4 * 2 + 1 * 7 + 4 * 1 + 3 * 11);
  EXPECT_EQ(a.thread_instructions(), 40u * 3 + 56 * 2 + 16 * 7 + 72 * 1 + 40 * 11);
  EXPECT_EQ(a.instructions().size(), 24u);
  EXPECT_EQ(a.instructions()[5].pc, 0x50u);
  EXPECT_EQ(a.instructions()[5].block, 2u);
  EXPECT_EQ(a.count_of(a.instructions()[5]).warps, 1u);
}

TEST(Aggregate, FingerprintAgainstTheCounters) {
  const wire::AddressMap map = diamond_loop(TraceKind::block);
  Aggregate a(map, TraceKind::block);
  a.add(trace_of(TraceKind::block, divergent));
  std::vector<wire::BlockCount> counters = a.blocks();
  auto c = compare_counts(map, counters, a.blocks());
  ASSERT_TRUE(c);
  EXPECT_TRUE(c->equal);
  EXPECT_EQ(c->text(), "equal in 5 blocks");
  counters[3].lanes += 1;  // one lane more in one execution
  counters[4].warps += 1;
  c = compare_counts(map, counters, a.blocks());
  ASSERT_TRUE(c);
  EXPECT_FALSE(c->equal);
  EXPECT_EQ(c->different_blocks, 2u);
  EXPECT_EQ(c->first->block, 3u);
  EXPECT_THAT(c->text(), HasSubstr("first B3: counted 3 executions with 65 lanes, traced 3 with 64"));
  counters.pop_back();
  EXPECT_FALSE(compare_counts(map, counters, a.blocks()));
}

TEST(Aggregate, FingerprintOfWarpsThatWait) {
  const wire::AddressMap map = diamond_loop(TraceKind::block);
  Aggregate a(map, TraceKind::block);
  a.add(trace_of(TraceKind::block, divergent));
  const std::vector<bool> waiting = {false, false, true, false, false};
  std::vector<wire::BlockCount> counters = a.blocks();
  counters[2].warps += 7;  // looked more often
  counters[2].lanes += 99;
  counters[3].warps += 1;  // and came out in other groups
  auto c = compare_counts(map, counters, a.blocks(), waiting);
  ASSERT_TRUE(c);
  EXPECT_FALSE(c->equal);
  EXPECT_TRUE(c->waited);
  EXPECT_EQ(c->text(), "equal in 5 blocks, but for how often 1 blocks of waiting loops were executed, and in which groups the lanes "
                       "of 1 others");
  EXPECT_FALSE(compare_counts(map, counters, a.blocks())->waited) << "nobody waits";
  counters[3].lanes += 1;
  c = compare_counts(map, counters, a.blocks(), waiting);
  EXPECT_FALSE(c->waited);
  EXPECT_EQ(c->first->block, 3u);
}

TEST(Aggregate, BlocksWithoutRecordsAreNotCompared) {
  wire::AddressMap map = diamond_loop(TraceKind::block);
  Aggregate a(map, TraceKind::block);
  a.add(trace_of(TraceKind::block, divergent));
  std::vector<wire::BlockCount> counters = a.blocks();
  counters[2].warps += 7;
  map.blocks[2].unrecorded = true;
  map.blocks[2].record_bytes = 0;
  const auto c = compare_counts(map, counters, a.blocks());
  ASSERT_TRUE(c);
  EXPECT_TRUE(c->equal);
  EXPECT_EQ(c->text(), "equal in 4 blocks; 1 of loops that wait for others are not recorded");
}

// B3 is where B2 would have been gone through: how long B0 and B1 took can not be told.
TEST(Aggregate, NoIntervalInFrontOfABlockWithoutRecords) {
  wire::AddressMap map = diamond_loop(TraceKind::inst);
  map.blocks[2].unrecorded = true;
  Aggregate a(map, TraceKind::inst);
  a.add(trace_of(TraceKind::inst, divergent, 4));
  for (uint32_t b = 0; b < map.blocks.size(); ++b) {
    size_t last = 0;
    while (a.instructions()[last].block != b || (last + 1 < a.instructions().size() && a.instructions()[last + 1].block == b)) ++last;
    const auto& next = map.blocks[b].successors;
    const bool leads_there = std::find(next.begin(), next.end(), 2u) != next.end();
    if (leads_there) {
      EXPECT_EQ(a.instructions()[last].ungraded.count(), 0u) << b;
      EXPECT_NE(a.instructions()[last].unattributed, 0u) << b;
    }
  }
  EXPECT_NE(a.instructions()[0].ungraded.count(), 0u) << "inside the block nothing changes";
}

// Of another part: said so, and counted apart from loops that wait.
TEST(Aggregate, BlocksOfOtherPartsAreNotCompared) {
  wire::AddressMap map = diamond_loop(TraceKind::block);
  Aggregate a(map, TraceKind::block);
  a.add(trace_of(TraceKind::block, divergent));
  std::vector<wire::BlockCount> counters = a.blocks();
  counters[2].warps += 7;
  map.sites_one_in = 8;
  map.blocks[2].unrecorded = map.blocks[2].other_part = true;
  map.blocks[2].record_bytes = 0;
  const auto c = compare_counts(map, counters, a.blocks());
  ASSERT_TRUE(c);
  EXPECT_TRUE(c->equal);
  EXPECT_EQ(c->text(), "equal in 4 blocks; 1 are not of this part (site:1/8)");
}

// Where B3 is of another part, lanes that parted may be there between any two records: nothing that does not take all lanes with it
// tells when it ended. B0 leads to B1 and B2 alone.
TEST(Aggregate, NoIntervalAcrossBlocksOfOtherParts) {
  wire::AddressMap map = diamond_loop(TraceKind::inst);
  map.blocks[3].unrecorded = map.blocks[3].other_part = true;
  const auto of_entry = [&](uint32_t lanes) {
    Aggregate a(map, TraceKind::inst);
    a.add(trace_of(TraceKind::inst, {{0, lanes}, {1, lanes}}));
    return std::pair(a.instructions()[2].ungraded.count(), a.instructions()[4].ungraded.count());
  };
  EXPECT_EQ(of_entry(~0u), (std::pair<uint64_t, uint64_t>(1, 0)));
  EXPECT_EQ(of_entry(0xff), (std::pair<uint64_t, uint64_t>(0, 0)));
}

TEST(Aggregate, UngradedIntervals) {
  const wire::AddressMap map = diamond_loop(TraceKind::inst);
  Aggregate a(map, TraceKind::inst);
  a.add(trace_of(TraceKind::inst, divergent, 4));
  const auto& inst = a.instructions();
  EXPECT_EQ(inst[0].ungraded.count(), 1u);  // inside B0
  EXPECT_EQ(inst[0].ungraded.mean(), 4.0);
  EXPECT_EQ(inst[2].ungraded.count(), 1u);  // B0 -> B1 by some of its lanes
  EXPECT_EQ(inst[4].ungraded.count(), 2u);  // B1: to B2 with other lanes once, to B3 twice
  EXPECT_EQ(inst[4].unattributed, 1u);
  EXPECT_EQ(inst[12].ungraded.count(), 2u);  // B3: to B1, to B4 with other lanes, to B4
  EXPECT_EQ(inst[12].unattributed, 1u);
  EXPECT_EQ(inst[23].ungraded.count(), 0u);  // EXIT
  EXPECT_EQ(inst[23].unattributed, 2u);
}

// --- graded times

std::vector<WarpTrace> pair_traces(const std::function<void(Buffer&)>& fill, wire::AddressMap& map) {
  map.layout.warps = map.layout.warps_per_cta = 1;
  Buffer b(map);
  b.start(0, 10);
  fill(b);
  b.exit(0, 100'000);
  std::vector<WarpTrace> t;
  EXPECT_TRUE(b.decode(TraceKind::pair, t));
  return t;
}

TEST(GradedTimes, PairsMinusTheClockRead) {
  wire::AddressMap map = diamond_loop(TraceKind::pair);
  GradedTimes g;
  g.add(map, pair_traces(
                 [](Buffer& b) {
                   uint64_t c = 100;
                   for (uint64_t d : {12, 13, 14, 15, 1000}) b.pair(0, 0, all, c, c + d), c += d + 50;
                 },
                 map)[0]);
  const auto& s = g.all().at({0x10, 1});
  EXPECT_EQ(s.cycles.count(), 5u);
  EXPECT_EQ(s.cycles.median(), 12.0);
  EXPECT_EQ(s.cycles.max(), 998u);
  EXPECT_FALSE(g.grade(0x10));
  const auto grade = g.grade(0x10, 5);
  ASSERT_TRUE(grade);
  EXPECT_EQ(grade->median, 12.0);
  EXPECT_EQ(grade->p25, 11.0);
  EXPECT_EQ(grade->p75, 13.0);
  EXPECT_EQ(grade->samples, 5u);
  EXPECT_FALSE(g.grade(0x20, 1));
}

TEST(GradedTimes, NoShorterThanTheStallCount) {
  wire::AddressMap map = diamond_loop(TraceKind::pair);
  map.sites[0].least_cycles = 4;  // clocks 5 apart: one of the two cycles of a clock read passed while it stalled
  GradedTimes g;
  g.add(map, pair_traces([](Buffer& b) { b.pair(0, 0, all, 100, 105), b.pair(0, 0, all, 200, 209); }, map)[0]);
  const auto& s = g.all().at({0x10, 1});
  EXPECT_EQ(s.cycles.min(), 4u);
  EXPECT_EQ(s.cycles.max(), 7u);
}

TEST(GradedTimes, EdgesBelongToTheLanesThatGoOnAtOnce) {
  wire::AddressMap map = diamond_loop(TraceKind::pair);  // site 1: edge at 0x40, 3 cycles of probe code
  GradedTimes g;
  g.add(map, pair_traces(
                 [](Buffer& b) {
                   b.edge(0, false, 1, all, 90);  // the join entered from elsewhere: nothing is open
                   b.edge(0, true, 1, all, 100);
                   b.edge(0, false, 1, low, 125);   // at once: 20
                   b.edge(0, false, 1, high, 405);  // after the low lanes ran: 300, deferred
                   b.edge(0, true, 1, low, 500);    // leaves the kernel
                 },
                 map)[0]);
  const auto& s = g.all().at({0x40, 1});
  EXPECT_EQ(s.cycles.count(), 1u);
  EXPECT_EQ(s.cycles.max(), 20u);
  EXPECT_EQ(s.deferred.count(), 1u);
  EXPECT_EQ(s.deferred.max(), 300u);
  EXPECT_EQ(s.unmatched_begin, 1u);
}

TEST(GradedTimes, TheSparsestSamplingGradesAndTheSpreadIsShown) {
  GradedTimes g;
  for (uint32_t one_in : {1u, 4u, 16u}) {
    wire::AddressMap map = diamond_loop(TraceKind::pair);
    map.layout.seed = 0;
    map.layout.one_in = 1;
    auto t = pair_traces(
        [&](Buffer& b) {
          for (uint64_t i = 0; i < (one_in == 16 ? 5u : 40u); ++i)
            b.pair(0, 0, all, 100 + 1000 * i, 100 + 1000 * i + (one_in == 1 ? 122 : 102));
        },
        map);
    map.layout.one_in = one_in;
    g.add(map, t[0]);
  }
  const auto grade = g.grade(0x10, 30);
  ASSERT_TRUE(grade);
  EXPECT_EQ(grade->one_in, 4u);  // 1:16 has too few
  EXPECT_EQ(grade->median, 100.0);
  EXPECT_EQ(grade->rates, 2u);
  EXPECT_NEAR(grade->rate_spread, 0.2, 1e-9);
  EXPECT_EQ(g.grade(0x10, 5)->one_in, 16u);
}

TEST(Distribution, ExactBelow512AndWithinOnePercentAbove) {
  Distribution d;
  for (uint64_t v = 1; v <= 101; ++v) d.add(v);
  EXPECT_EQ(d.median(), 51.0);
  EXPECT_EQ(d.quantile(0.9), 91.0);
  EXPECT_EQ(d.quantile(0), 1.0);
  EXPECT_EQ(d.quantile(1), 101.0);
  EXPECT_EQ(d.mean(), 51.0);
  for (uint64_t v : {511ull, 512ull, 513ull, 1023ull, 1024ull, 77'777ull, 4'000'000'000ull, ~0ull}) {
    Distribution one;
    one.add(v / 2);
    one.add(v);
    one.add(v);
    EXPECT_NEAR(one.median() / static_cast<double>(v), 1, 0.008) << v;
    EXPECT_EQ(one.quantile(1), one.median());
  }
  Distribution a, b;
  a.add(5);
  b.add(700);
  b.add(3);
  a.merge(b);
  EXPECT_EQ(a.count(), 3u);
  EXPECT_EQ(a.median(), 5.0);
  EXPECT_EQ(a.min(), 3u);
  EXPECT_EQ(a.max(), 700u);
  EXPECT_EQ(Distribution{}.median(), 0.0);
}

}  // namespace
}  // namespace xtrace::trace
