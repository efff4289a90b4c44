#include "tools/xtrace/check/evaluate.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "diff/report.h"

namespace xtrace::check {
namespace {

using diff::Verdict;

// What a healthy block probe of a measuring backend reports.
diff::ConfigReport healthy() {
  diff::ConfigReport c;
  c.probe = "block";
  c.sample = "all";
  diff::SemanticEvidence s;
  s.output = s.clean_against_recorded = diff::OutputMatch::equal;
  s.clean_replays = 3;
  s.written_bytes = s.written_stable_bytes = 64;
  s.path = diff::PathMatch::equal;
  s.invariants = diff::Invariants::hold;
  c.semantics = s;
  diff::TimingEvidence t;
  t.measured = true;
  t.rounds = t.pairs = 50;
  t.processes = 5;
  t.ratio = 1.03;
  t.interval = {1.02, 1.04};
  t.noise_floor = 0.004;
  c.timing = t;
  diff::SpatialEvidence p;
  p.registers_before = 20;
  p.registers_after = 26;
  p.ctas_per_sm_before = p.ctas_per_sm_after = 8;
  p.code_bytes_before = 1000;
  p.code_bytes_after = 1500;
  p.trace_bytes = 800;
  c.space = p;
  c.records = 100;
  return c;
}

nlohmann::json report(std::vector<diff::ConfigReport> configs) {
  diff::ReplayReport r;
  r.bundle = "/somewhere/run.xtr";
  r.launch = 3;
  r.kernel = "_Z1kv";
  r.kernel_text = "k()";
  r.grid = {4, 2, 1};
  r.block = {128, 1, 1};
  r.backend = "driver";
  r.device = "NVIDIA H200";
  r.driver = "13.0";
  for (diff::ConfigReport& c : configs)
    if (c.refused.empty()) c.judgement = diff::judge(*c.semantics, c.timing, c.space);
  r.configs = std::move(configs);
  return parse_json(diff::render_json(r));
}

Row one(diff::ConfigReport config, const Limits& limits) {
  const auto rows = evaluate(report({std::move(config)}), "run.xtr", limits);
  EXPECT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->size(), 1u);
  return rows->front();
}

Limits budget(double ratio) {
  Limits l;
  l.budget[0] = ratio;
  return l;
}

TEST(Evaluate, ReadsEverything) {
  const Row r = one(healthy(), budget(1.05));
  EXPECT_EQ(where(r), "run.xtr launch 3 k(), block all");
  EXPECT_EQ(r.kernel, "_Z1kv");
  EXPECT_EQ(r.grid, (std::array<uint32_t, 3>{4, 2, 1}));
  EXPECT_EQ(r.block, (std::array<uint32_t, 3>{128, 1, 1}));
  ASSERT_TRUE(r.metrics && r.metrics->time);
  EXPECT_EQ(r.metrics->time->ratio, 1.03);
  EXPECT_EQ(r.metrics->time->low, 1.02);
  EXPECT_EQ(r.metrics->time->high, 1.04);
  EXPECT_EQ(r.metrics->time->rounds, 50u);
  EXPECT_EQ(r.metrics->time->noise_floor, 0.004);
  EXPECT_EQ(r.metrics->registers, (Change{20, 26}));
  EXPECT_EQ(r.metrics->occupancy, (Change{8, 8}));
  EXPECT_EQ(r.metrics->local_bytes, (Change{0, 0}));
  EXPECT_EQ(r.metrics->code_bytes, (Change{1000, 1500}));
  EXPECT_EQ(r.metrics->trace_bytes, 800u);
  EXPECT_EQ(r.metrics->records, 100u);
  EXPECT_EQ(r.semantics, Verdict::trusted);
  EXPECT_EQ(r.timing, Verdict::trusted);
  EXPECT_TRUE(r.findings.empty());
  const auto environment = environment_of(report({healthy()}));
  ASSERT_TRUE(environment);
  EXPECT_EQ(*environment, (Environment{"driver", "NVIDIA H200", "13.0"}));
}

struct Case {
  const char* name;
  void (*break_it)(diff::ConfigReport& c, Limits& l);
  const char* code;  // of the only finding; empty: none
  Verdict verdict;
  const char* text;  // in the finding
};

const Case cases[] = {
    {"over budget", [](auto&, Limits& l) { l.budget[0] = 1.01; }, "budget", Verdict::not_trusted, "time-exceeds: ratio 1.0300"},
    {"straddles", [](auto&, Limits& l) { l.budget[0] = 1.03; }, "budget", Verdict::inconclusive, "time-straddles"},
    {"faster", [](diff::ConfigReport& c, Limits&) { c.timing->interval = {0.80, 0.85}; }, "budget", Verdict::not_trusted, "time-faster"},
    {"noise", [](diff::ConfigReport& c, Limits&) { c.timing->noise_floor = 0.2; }, "budget", Verdict::inconclusive, "time-noise-floor"},
    {"one process", [](diff::ConfigReport& c, Limits&) { c.timing->processes = 1; }, "budget", Verdict::inconclusive, "time-one-process"},
    {"throttled", [](diff::ConfigReport& c, Limits&) { c.timing->throttled = 20; }, "budget", Verdict::inconclusive, "time-throttled"},
    {"coarse", [](diff::ConfigReport& c, Limits&) { c.timing->sample_ticks = 7; }, "budget", Verdict::inconclusive, "time-coarse"},
    {"few rounds",
     [](diff::ConfigReport& c, Limits&) {
       constexpr double infinite = std::numeric_limits<double>::infinity();
       c.timing->interval = {-infinite, infinite};
     },
     "budget", Verdict::inconclusive, "time-few-rounds"},
    {"budget of another probe", [](auto&, Limits& l) { l.budget = {std::nullopt, 1.0, 1.0}; }, "", Verdict::trusted, ""},
    {"not measured", [](diff::ConfigReport& c, Limits&) { c.timing->measured = false; }, "", Verdict::trusted, ""},
    {"time required",
     [](diff::ConfigReport& c, Limits& l) {
       c.timing.reset();
       l.timing_required = true;
     },
     "timing-not-measured", Verdict::inconclusive, "driver backend did not measure time"},
    {"diverged",
     [](diff::ConfigReport& c, Limits&) {
       c.semantics->output = diff::OutputMatch::diverged;
       c.semantics->output_text = "region 2";
     },
     "semantics", Verdict::not_trusted, "output-diverged: region 2"},
    {"diverged, allowed",
     [](diff::ConfigReport& c, Limits& l) {
       c.semantics->output = diff::OutputMatch::diverged;
       l.semantics = false;
     },
     "", Verdict::trusted, ""},
    {"doubtful", [](diff::ConfigReport& c, Limits&) { c.semantics->path = diff::PathMatch::unstable; }, "semantics", Verdict::inconclusive, "path-unstable"},
    {"occupancy", [](diff::ConfigReport& c, Limits&) { c.space->ctas_per_sm_after = 7; }, "occupancy", Verdict::not_trusted, "8 -> 7 CTAs per SM"},
    {"occupancy unknown", [](diff::ConfigReport& c, Limits&) { c.space->ctas_per_sm_after = 0; }, "occupancy", Verdict::inconclusive, "not known"},
    {"occupancy, allowed",
     [](diff::ConfigReport& c, Limits& l) {
       c.space->ctas_per_sm_after = 7;
       l.occupancy = false;
     },
     "", Verdict::trusted, ""},
    {"local memory", [](diff::ConfigReport& c, Limits&) { c.space->local_bytes_after = 16; }, "local-memory", Verdict::not_trusted, "0 -> 16 bytes per thread"},
    {"local memory, allowed",
     [](diff::ConfigReport& c, Limits& l) {
       c.space->local_bytes_after = 16;
       l.local_memory = false;
     },
     "", Verdict::trusted, ""},
    {"registers at the limit", [](auto&, Limits& l) { l.added_registers = 6; }, "", Verdict::trusted, ""},
    {"registers", [](auto&, Limits& l) { l.added_registers = 5; }, "added-registers", Verdict::not_trusted, "20 -> 26 registers, 6 more; the limit is 5"},
    {"code at the limit", [](auto&, Limits& l) { l.code_growth[0] = 1.5; }, "", Verdict::trusted, ""},
    {"code", [](auto&, Limits& l) { l.code_growth[0] = 1.49; }, "code-growth", Verdict::not_trusted, "1000 -> 1500 bytes of code, 1.500 times; the limit is 1.49"},
    {"records at the limit", [](auto&, Limits& l) { l.bytes_per_record[0] = 8; }, "", Verdict::trusted, ""},
    {"records", [](auto&, Limits& l) { l.bytes_per_record[0] = 7; }, "bytes-per-record", Verdict::not_trusted, "800 bytes for 100 records, 8.00 each"},
};

TEST(Evaluate, Limits) {
  for (const Case& c : cases) {
    diff::ConfigReport config = healthy();
    Limits limits = budget(1.05);
    c.break_it(config, limits);
    const Row row = one(config, limits);
    EXPECT_EQ(row.verdict(), c.verdict) << c.name;
    if (c.code[0] == '\0') {
      EXPECT_TRUE(row.findings.empty()) << c.name << ": " << (row.findings.empty() ? "" : row.findings[0].code);
      continue;
    }
    ASSERT_EQ(row.findings.size(), 1u) << c.name;
    EXPECT_EQ(row.findings[0].code, c.code) << c.name;
    EXPECT_NE(row.findings[0].text.find(c.text), std::string::npos) << c.name << ": " << row.findings[0].text;
  }
}

TEST(Evaluate, TheSemanticsFindingNamesReasonsOfSemanticsOnly) {
  diff::ConfigReport config = healthy();
  config.semantics->output = diff::OutputMatch::diverged;
  config.semantics->output_text = "region 2";
  config.timing->interval = {1.2, 1.3};
  config.space->local_bytes_after = 16;
  Limits limits;
  limits.local_memory = false;
  const Row row = one(config, limits);
  ASSERT_EQ(row.findings.size(), 1u);
  EXPECT_EQ(row.findings[0].text, "output-diverged: region 2");
}

TEST(Evaluate, WhyTimingIsNotJudged) {
  EXPECT_EQ(one(healthy(), {}).timing, std::nullopt);
  EXPECT_EQ(one(healthy(), {}).timing_why, "the policy has no budget.block");
  diff::ConfigReport unmeasured = healthy();
  unmeasured.timing->measured = false;
  EXPECT_EQ(one(unmeasured, budget(1.05)).timing_why, "the driver backend did not measure time");
}

TEST(Evaluate, ADenseTraceMayHaveABudget) {
  diff::ConfigReport dense = healthy();
  dense.probe = "inst";
  dense.timing->dense = true;
  Limits limits;
  limits.require = {"inst"};
  limits.budget[1] = 1.05;
  EXPECT_EQ(one(dense, limits).timing, Verdict::trusted);
}

TEST(Evaluate, RefusedAndMissingProbes) {
  diff::ConfigReport refused;
  refused.probe = "block";
  refused.sample = "all";
  refused.refused = "indirect branch";
  const Row r = one(refused, {});
  EXPECT_EQ(r.verdict(), Verdict::not_trusted);
  ASSERT_EQ(r.findings.size(), 1u);
  EXPECT_EQ(r.findings[0].code, "refused");
  EXPECT_EQ(r.findings[0].text, "indirect branch");
  EXPECT_FALSE(r.metrics);

  Limits two;
  two.require = {"block", "pair"};
  const auto rows = evaluate(report({healthy()}), "run.xtr", two);
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].verdict(), Verdict::trusted);
  EXPECT_EQ((*rows)[1].probe, "pair");
  EXPECT_EQ((*rows)[1].verdict(), Verdict::not_trusted);
}

TEST(Evaluate, AReportWithoutItsFieldsIsAnInternalError) {
  auto bad = report({healthy()});
  bad["configs"][0].erase("records");
  const auto rows = evaluate(bad, "run.xtr", {});
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().kind, ErrorKind::internal);
  EXPECT_FALSE(environment_of(nlohmann::json::array()));
}

TEST(CheckRun, ExitStatus) {
  CheckRun run;
  EXPECT_EQ(run.exit_status(), exit_inconclusive) << "nothing was checked";
  run.rows.emplace_back();
  EXPECT_EQ(run.exit_status(), exit_trusted);
  run.rows[0].add("better", Verdict::trusted, "");
  EXPECT_EQ(run.exit_status(), exit_trusted);
  run.findings.push_back({"not-checked", Verdict::inconclusive, ""});
  EXPECT_EQ(run.exit_status(), exit_inconclusive);
  run.rows[0].add("drift", Verdict::not_trusted, "");
  EXPECT_EQ(run.exit_status(), exit_not_trusted);
  run.errors.push_back({"launch 1", "", exit_bad_input});
  EXPECT_EQ(run.exit_status(), exit_bad_input);
  run.errors.push_back({"launch 2", "", exit_internal});
  EXPECT_EQ(run.exit_status(), exit_internal);
  run.errors.push_back({"launch 3", "", exit_bad_input});
  EXPECT_EQ(run.exit_status(), exit_internal) << "the worst, not the last";
}

}  // namespace
}  // namespace xtrace::check
