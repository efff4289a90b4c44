#include "diff/frontier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/json_document.h"


namespace xtrace::diff {
namespace {

using testing::HasSubstr;

void add(ReplayReport& r, const char* probe, const char* sample, uint64_t events, double ratio, bool diverged = false) {
  ConfigReport c;
  c.probe = probe;
  c.sample = sample;
  c.events = events;
  SemanticEvidence s;
  s.output = diverged ? OutputMatch::diverged : OutputMatch::equal;
  s.clean_against_recorded = OutputMatch::equal;
  s.clean_replays = 3;
  s.path = PathMatch::equal;
  s.invariants = Invariants::hold;
  TimingEvidence t;
  t.measured = true;
  t.rounds = t.pairs = 40;
  t.processes = 5;
  t.noise_floor = 0.002;
  t.ratio = ratio;
  t.interval = {ratio - 0.004, ratio + 0.004};
  t.dense = c.probe == "inst";
  SpatialEvidence p;
  p.ctas_per_sm_before = p.ctas_per_sm_after = 8;
  c.semantics = s;
  c.timing = t;
  c.space = p;
  c.judgement = judge(s, t, p);
  r.configs.push_back(c);
}

ReplayReport sample() {
  ReplayReport r;
  r.launch = 4;
  add(r, "inst", "all", 100'000, 1.30);
  add(r, "block", "all", 10'000, 1.03);
  add(r, "inst", "cta:1/4", 25'000, 1.045);
  add(r, "inst", "cta:1/16", 6'000, 1.04);      // less detail than block, and slower
  add(r, "block", "cta:1/4", 2'500, 1.01);
  ConfigReport refused;
  refused.refused = "no register";
  r.configs.push_back(refused);
  return r;
}

TEST(Frontier, RichestThatIsTrusted) {
  const ReplayReport r = sample();
  const auto points = frontier(r, 1.05);
  ASSERT_EQ(points.size(), 5u);
  EXPECT_EQ(points.front().detail, 2'500u);
  ASSERT_NE(richest(points), nullptr);
  EXPECT_EQ(richest(points)->config, 2u);       // inst at 1/4, though dense
  std::vector<bool> on;
  for (const FrontierPoint& p : points) on.push_back(p.on_frontier);
  EXPECT_THAT(on, testing::ElementsAre(true, false, true, true, true));
  EXPECT_EQ(richest(frontier(r, 1.035))->config, 1u);
  EXPECT_EQ(richest(frontier(r, 1.002)), nullptr);
}

TEST(Frontier, WhatWasNotMeasuredIsNoPoint) {
  const auto points_with = [](auto change) {
    ReplayReport r;
    add(r, "block", "all", 10'000, 1.03);
    change(r.configs[0]);
    return frontier(r, 1.05).size();
  };
  EXPECT_EQ(points_with([](ConfigReport&) {}), 1u);
  EXPECT_EQ(points_with([](ConfigReport& c) { c.refused = "no register"; }), 0u);
  EXPECT_EQ(points_with([](ConfigReport& c) { c.semantics.reset(); }), 0u);
  EXPECT_EQ(points_with([](ConfigReport& c) { c.timing.reset(); }), 0u);
  EXPECT_EQ(points_with([](ConfigReport& c) { c.timing->measured = false; }), 0u);   // a modelled time
  EXPECT_EQ(points_with([](ConfigReport& c) { c.events = 0; }), 0u);
}

TEST(Frontier, AsMuchDetailForLessAndMoreForAsMuch) {
  ReplayReport r;
  add(r, "block", "all", 100, 1.03);
  add(r, "block", "cta:1/2", 100, 1.02);    // the same for less
  add(r, "inst", "cta:1/2", 200, 1.02);     // and more for the same
  std::vector<bool> on;
  for (const FrontierPoint& p : frontier(r, 1.05)) on.push_back(p.on_frontier);
  EXPECT_THAT(on, testing::ElementsAre(false, false, true));
  r.configs.pop_back();
  on.clear();
  for (const FrontierPoint& p : frontier(r, 1.05)) on.push_back(p.on_frontier);
  EXPECT_THAT(on, testing::ElementsAre(false, true));
}

TEST(Frontier, WhatDivergesIsNeverTheRichest) {
  ReplayReport r = sample();
  add(r, "inst", "cta:1/2", 50'000, 1.00, true);
  EXPECT_EQ(richest(frontier(r, 1.05))->config, 2u);
}

TEST(Frontier, TablePlotAndJson) {
  const ReplayReport r = sample();
  const auto points = frontier(r, 1.05);
  EXPECT_THAT(frontier_text(r, points, 1.05), HasSubstr("> inst cta:1/4"));
  const auto j = JsonDocument(frontier_json(r, points, 1.05));
  EXPECT_EQ(j.text("/richest"), "inst cta:1/4");
  EXPECT_EQ(j.size("/points"), 5);
  const std::string svg = frontier_svg(r, points, 1.05);
  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("inst cta:1/16"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_EQ(frontier_svg({}, {}, 1.05).find("nan"), std::string::npos);
}

}  // namespace
}  // namespace xtrace::diff
