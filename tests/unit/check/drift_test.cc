#include "tools/xtrace/check/drift.h"

#include <gtest/gtest.h>

namespace xtrace::check {
namespace {

using diff::Verdict;

Row row() {
  Row r;
  r.bundle = "run.xtr";
  r.launch = 1;
  r.kernel = "k";
  r.grid = {4, 1, 1};
  r.block = {128, 1, 1};
  r.probe = "block";
  r.sample = "all";
  Metrics m;
  m.time = Time{1.10, 1.09, 1.11, 50, 0.004};
  m.registers = {20, 30};
  m.occupancy = {8, 8};
  m.code_bytes = {500, 1000};
  m.trace_bytes = 800;
  m.records = 100;
  r.metrics = m;
  return r;
}

struct Case {
  const char* name;
  void (*change)(Row& now);
  const char* code;  // of the only finding; empty: none
  Verdict verdict;
  const char* text;
};

const Case cases[] = {
    {"same", [](Row&) {}, "", Verdict::trusted, ""},
    {"code at the limit", [](Row& r) { r.metrics->code_bytes.after = 1020; }, "", Verdict::trusted, ""},
    {"code", [](Row& r) { r.metrics->code_bytes.after = 1021; }, "drift", Verdict::not_trusted, "code_bytes 1000 -> 1021 (+2.1 %, limit 2 %)"},
    {"less code", [](Row& r) { r.metrics->code_bytes.after = 900; }, "better", Verdict::trusted, "code_bytes 1000 -> 900 (-10.0 %"},
    {"registers", [](Row& r) { r.metrics->registers.after = 32; }, "drift", Verdict::not_trusted, "registers 30 -> 32"},
    {"occupancy", [](Row& r) { r.metrics->occupancy.after = 7; }, "drift", Verdict::not_trusted, "occupancy 8 -> 7"},
    {"more CTAs", [](Row& r) { r.metrics->occupancy.after = 9; }, "better", Verdict::trusted, "occupancy 8 -> 9"},
    {"occupancy not known", [](Row& r) { r.metrics->occupancy.after = 0; }, "not-compared", Verdict::trusted, "occupancy: only the baseline's is known"},
    {"more records", [](Row& r) { r.metrics->records = 103; }, "drift", Verdict::not_trusted, "records 100 -> 103"},
    {"fewer records", [](Row& r) { r.metrics->records = 97; }, "drift", Verdict::not_trusted, "records 100 -> 97 (-3.0 %"},
    {"trace", [](Row& r) { r.metrics->trace_bytes = 900; }, "drift", Verdict::not_trusted, "trace_bytes 800 -> 900"},
    {"slower", [](Row& r) { r.metrics->time = Time{1.20, 1.19, 1.21, 50, {}}; }, "drift", Verdict::not_trusted, "ratio 1.1000 -> 1.2000 (+9.1 %"},
    {"slower or not", [](Row& r) { r.metrics->time = Time{1.20, 1.10, 1.30, 50, {}}; }, "drift", Verdict::inconclusive, "the two intervals overlap"},
    {"faster", [](Row& r) { r.metrics->time = Time{1.02, 1.01, 1.03, 50, {}}; }, "better", Verdict::trusted, "ratio 1.1000 -> 1.0200"},
    {"no time", [](Row& r) { r.metrics->time.reset(); }, "not-compared", Verdict::trusted, "ratio: only the baseline's is known"},
    {"another kernel", [](Row& r) { r.kernel = "l"; }, "kernel-changed", Verdict::inconclusive, "kernel k -> l"},
    {"another grid", [](Row& r) { r.grid[1] = 2; }, "kernel-changed", Verdict::inconclusive, "grid 4,1,1 -> 4,2,1"},
    {"another block", [](Row& r) { r.block[0] = 64; }, "kernel-changed", Verdict::inconclusive, "block 128,1,1 -> 64,1,1"},
    {"compiled anew", [](Row& r) { r.metrics->code_bytes = {600, 2000}; }, "kernel-changed", Verdict::inconclusive, "clean code 500 -> 600 bytes"},
    {"clean registers", [](Row& r) { r.metrics->registers.before = 21; }, "kernel-changed", Verdict::inconclusive, "clean registers 20 -> 21"},
    {"refused now", [](Row& r) { r.metrics.reset(); }, "", Verdict::trusted, ""},
};

TEST(Drift, Metrics) {
  for (const Case& c : cases) {
    Row now = row();
    c.change(now);
    compare(now, row(), Limits{});
    EXPECT_EQ(now.verdict(), c.verdict) << c.name;
    if (c.code[0] == '\0') {
      EXPECT_TRUE(now.findings.empty()) << c.name;
      continue;
    }
    ASSERT_EQ(now.findings.size(), 1u) << c.name;
    EXPECT_EQ(now.findings[0].code, c.code) << c.name;
    EXPECT_NE(now.findings[0].text.find(c.text), std::string::npos) << c.name << ": " << now.findings[0].text;
  }
}

TEST(Drift, EachMetricHasItsOwnLimit) {
  Row now = row();
  now.metrics->code_bytes.after = 1100;
  now.metrics->registers.after = 33;
  Limits limits;
  limits.drift[static_cast<size_t>(Metric::code_bytes)] = 0.1;
  compare(now, row(), limits);
  ASSERT_EQ(now.findings.size(), 1u);
  EXPECT_EQ(now.findings[0].text, "registers 30 -> 33 (+10.0 %, limit 2 %)");
}

TEST(Drift, FromNothing) {
  Row before = row(), now = row();
  before.metrics->records = 0;
  compare(now, before, Limits{});
  ASSERT_EQ(now.findings.size(), 1u);
  EXPECT_EQ(now.findings[0].text, "records 0 -> 100");
  EXPECT_EQ(now.verdict(), Verdict::not_trusted);
}

TEST(Drift, RowsThatOnlyOneSideHas) {
  const auto policy = Policy::parse("", "p");
  CheckRun run, baseline;
  run.rows = {row(), row()};
  run.rows[1].probe = "inst";
  baseline.rows = {row(), row()};
  baseline.rows[1].sample = "cta:1/4";
  compare(run, baseline, *policy);
  EXPECT_TRUE(run.rows[0].findings.empty());
  ASSERT_EQ(run.rows[1].findings.size(), 1u);
  EXPECT_EQ(run.rows[1].findings[0].code, "not-in-baseline");
  EXPECT_EQ(run.rows[1].verdict(), Verdict::trusted);
  ASSERT_EQ(run.findings.size(), 1u);
  EXPECT_EQ(run.findings[0].text, "in the baseline, not in this run: run.xtr launch 1 k, block cta:1/4");
  EXPECT_EQ(run.verdict(), Verdict::inconclusive);
}

TEST(Drift, TheLimitsAreThoseOfTheKernel) {
  const auto policy = Policy::parse("[kernel.'^k$']\ndrift.code_bytes = 0.5\n", "p");
  CheckRun run, baseline;
  run.rows = {row(), row()};
  for (Row& r : run.rows) r.metrics->code_bytes.after = 1400;
  run.rows[1].launch = 2;
  run.rows[1].kernel = "kk";
  baseline.rows = {row(), row()};
  baseline.rows[1].launch = 2;
  baseline.rows[1].kernel = "kk";
  compare(run, baseline, *policy);
  EXPECT_EQ(run.rows[0].verdict(), Verdict::trusted);
  EXPECT_EQ(run.rows[1].verdict(), Verdict::not_trusted);
}

TEST(Drift, Environments) {
  const Environment h200{"driver", "NVIDIA H200", "13.0"};
  EXPECT_EQ(difference(h200, h200), "");
  EXPECT_EQ(difference(h200, {"driver", "NVIDIA H200", "13.1"}), "driver: 13.0 in the baseline, 13.1 now");
  EXPECT_EQ(difference(h200, {"interp", "CPU", "13.0"}),
            "backend: driver in the baseline, interp now; device: NVIDIA H200 in the baseline, CPU now");
}

}  // namespace
}  // namespace xtrace::check
