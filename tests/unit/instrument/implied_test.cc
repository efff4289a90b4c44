// Blocks without records: that what is left tells of them, by walks through the graph that know nothing of the rules.
#include "instrument/implied.h"

#include <gtest/gtest.h>

#include <map>

#include "instrument/clocks.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument {
namespace {

struct Graph {
  Code code;
  Blocks blocks;
  bool ends(uint32_t b) const { return code.insts[blocks.blocks[b].last()].fx.flow == sass::Flow::exit; }
};

std::vector<Graph> graphs() {
  std::vector<Graph> out;
  for (const test::Kernel& k : test::fixture_kernels("sm_90")) {
    const auto image = cubin::Image::parse(k.cubin);
    const auto info = cubin::kernel_info(*image, k.name);
    auto code = read_code(*image, *info);
    if (!code) continue;
    Blocks blocks = find_blocks(*code);
    out.push_back({std::move(*code), std::move(blocks)});
  }
  return out;
}

constexpr uint32_t the_end = ~0u;

using Ways = std::map<uint32_t, std::vector<std::vector<uint32_t>>>;
// Ways of one lane from a recorded block by these of its successors to its next record (or its end): by where they lead, the implied
// blocks between.
Ways ways_by(const Graph& g, const std::vector<bool>& implied, uint32_t from, const std::vector<uint32_t>& by) {
  Ways ways;
  std::vector<std::vector<uint32_t>> open{{from}};
  while (!open.empty()) {
    const std::vector<uint32_t> way = open.back();
    open.pop_back();
    EXPECT_LE(way.size(), 40u) << "implied blocks in a row";
    if (way.size() > 40) return ways;
    const std::vector<uint32_t> between(way.begin() + 1, way.end());
    if (g.ends(way.back())) ways[the_end].push_back(between);
    for (uint32_t s : way.size() == 1 ? by : g.blocks.successors[way.back()]) {
      if (!implied[s]) {
        ways[s].push_back(between);
        continue;
      }
      open.push_back(way);
      open.back().push_back(s);
    }
  }
  return ways;
}
// From a block that returns, each time with one of the places that its caller may be at: the calls before tell it.
std::vector<Ways> ways_from(const Graph& g, const std::vector<bool>& implied, uint32_t from) {
  const std::vector<uint32_t>& successors = g.blocks.successors[from];
  if (g.code.insts[g.blocks.blocks[from].last()].fx.flow != sass::Flow::ret) return {ways_by(g, implied, from, successors)};
  std::vector<Ways> all;
  for (uint32_t s : successors) all.push_back(ways_by(g, implied, from, {s}));
  return all;
}

TEST(Implied, WhatComesNextTellsTheWay) {
  size_t found = 0;
  for (const Graph& g : graphs()) {
    const auto implied = implied_blocks(g.code, g.blocks, std::vector<bool>(g.blocks.blocks.size(), false), {}, {});
    EXPECT_FALSE(implied[0]) << g.code.kernel;
    for (uint32_t b = 0; b < implied.size(); ++b) {
      found += implied[b];
      if (implied[b]) continue;
      for (const Ways& places : ways_from(g, implied, b))
        for (const auto& [to, ways] : places) EXPECT_EQ(ways.size(), 1u) << g.code.kernel << " from B" << b << " to B" << to;
    }
  }
  EXPECT_GE(found, 100u);
}

// Lanes that came to a BSYNC one after the other execute what stands behind it together: how often, no record around it tells.
TEST(Implied, NotBehindAPlaceWhereLanesMeet) {
  size_t meetings = 0;
  for (const Graph& g : graphs()) {
    const auto implied = implied_blocks(g.code, g.blocks, std::vector<bool>(g.blocks.blocks.size(), false), {}, {});
    for (uint32_t p = 0; p < implied.size(); ++p) {
      if (g.code.insts[g.blocks.blocks[p].last()].fx.mnemonic != "BSYNC") continue;
      ++meetings;
      for (uint32_t s : g.blocks.successors[p]) EXPECT_FALSE(implied[s]) << g.code.kernel << " B" << s << " behind B" << p;
    }
  }
  EXPECT_GE(meetings, 30u);
}

// ... but all lanes that came to it together go on together.
TEST(Implied, BehindAPlaceWhereAllLanesCameTogether) {
  size_t behind = 0;
  for (const Graph& g : graphs()) {
    const size_t n = g.blocks.blocks.size();
    const auto implied = implied_blocks(g.code, g.blocks, std::vector<bool>(n, false), {}, std::vector<bool>(n, true));
    for (uint32_t p = 0; p < n; ++p) {
      const sass::Effects& end = g.code.insts[g.blocks.blocks[p].last()].fx;
      if (end.flow != sass::Flow::next || !end.may_switch_path) continue;
      for (uint32_t s : g.blocks.successors[p]) behind += implied[s];
    }
  }
  EXPECT_GE(behind, 10u);
}

// ... and so do all lanes where none was missing behind it, one after the other though they came to it.
TEST(Implied, BehindAPlaceWhereAllLanesGoOnTogether) {
  size_t gathered = 0;
  for (const Graph& g : graphs()) {
    const size_t n = g.blocks.blocks.size();
    std::vector<bool> full(n, true);
    for (uint32_t p = 0; p < n; ++p)
      if (g.code.insts[g.blocks.blocks[p].last()].fx.mnemonic == "BSYNC") full[p] = false;
    const auto implied = implied_blocks(g.code, g.blocks, std::vector<bool>(n, false), {}, full);
    const auto meeting = gathered_blocks(g.code, g.blocks, implied, full);
    for (uint32_t p = 0; p < n; ++p)
      for (uint32_t s : g.blocks.successors[p]) {
        const bool meets = g.code.insts[g.blocks.blocks[p].last()].fx.mnemonic == "BSYNC";
        if (!meets) continue;
        EXPECT_EQ(meeting[s], implied[s]) << g.code.kernel << " B" << s << " behind B" << p;
        EXPECT_TRUE(full[s] || !implied[s]) << g.code.kernel << " B" << s << " behind B" << p;
        gathered += meeting[s];
      }
  }
  EXPECT_GE(gathered, 5u);
}

TEST(Implied, BlocksThatAreToBeRecordedAre) {
  for (const Graph& g : graphs()) {
    const auto implied = implied_blocks(g.code, g.blocks, std::vector<bool>(g.blocks.blocks.size(), true), {}, {});
    EXPECT_EQ(std::count(implied.begin(), implied.end(), true), 0) << g.code.kernel;
  }
}

TEST(Implied, EveryBsyncOfSpmv) {
  for (const Graph& g : graphs()) {
    if (g.code.kernel.find("spmv") == std::string::npos) continue;
    const auto implied = implied_blocks(g.code, g.blocks, std::vector<bool>(g.blocks.blocks.size(), false), {}, {});
    for (uint32_t b = 0; b < implied.size(); ++b)
      if (g.code.insts[g.blocks.blocks[b].first].fx.mnemonic == "BSYNC") {
        EXPECT_TRUE(implied[b]) << "B" << b;
      }
  }
}

// Nothing that takes as long as it takes, and not much that does not: its begin follows from the next record's clock.
TEST(Implied, TimeBetweenRecordsIsKnown) {
  size_t long_ones = 0, in_queues = 0;
  for (const Graph& g : graphs()) {
    const auto implied = implied_blocks(g.code, g.blocks, std::vector<bool>(g.blocks.blocks.size(), false), {}, {});
    const auto cycles = [&](uint32_t b) {
      unsigned sum = 0;
      for (InstIndex i = g.blocks.blocks[b].first; i <= g.blocks.blocks[b].last(); ++i) sum += sass::get_control(g.code.insts[i].raw).stall;
      return sum;
    };
    for (uint32_t b = 0; b < implied.size(); ++b) {
      if (!implied[b]) {
        for (const Ways& places : ways_from(g, implied, b))
          for (const auto& [to, ways] : places)
            for (const auto& way : ways) {
              unsigned sum = 0, queued = 0;
              for (uint32_t through : way) {
                sum += cycles(through);
                for (InstIndex i = g.blocks.blocks[through].first; i <= g.blocks.blocks[through].last(); ++i)
                  queued += pace_of(g.code.insts[i]) == Pace::queued;
              }
              EXPECT_LE(queued, most_queued) << g.code.kernel << " from B" << b << " to B" << to;
              in_queues += queued;
              EXPECT_LE(sum, 96u) << g.code.kernel << " from B" << b << " to B" << to;
            }
        continue;
      }
      const ProbeBlock& block = g.blocks.blocks[b];
      long_ones += block.count > 2;
      for (InstIndex i = block.first; i <= block.last(); ++i) {
        const sass::Effects& fx = g.code.insts[i].fx;
        EXPECT_EQ(sass::get_control(g.code.insts[i].raw).wait_mask, 0) << g.code.kernel << " B" << b;
        EXPECT_FALSE(g.code.insts[i].asserts) << g.code.kernel << " B" << b;
        if (fx.flow == sass::Flow::next && fx.mnemonic != "BSYNC" && fx.mnemonic != "WARPSYNC") {
          EXPECT_FALSE(fx.may_switch_path) << g.code.kernel << " B" << b;
        }
      }
    }
  }
  EXPECT_GE(long_ones, 30u);
  EXPECT_GE(in_queues, 1u);
}

}  // namespace
}  // namespace xtrace::instrument
