#include "tools/xtrace/check/json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "tests/json_document.h"

namespace xtrace::check {
namespace {

using diff::Verdict;

CheckRun sample_run() {
  CheckRun run;
  run.environment = Environment{"driver", "NVIDIA H200", "13.0"};
  Row r;
  r.bundle = "run.xtr";
  r.launch = 3;
  r.kernel = "_Z1kv";
  r.kernel_text = "k()";
  r.grid = {4, 2, 1};
  r.block = {128, 1, 1};
  r.probe = "block";
  r.sample = "all";
  Metrics m;
  m.time = Time{1.03, 1.02, 1.04, 50, 0.004};
  m.registers = {20, 26};
  m.occupancy = {8, 7};
  m.local_bytes = {0, 16};
  m.code_bytes = {1000, 1500};
  m.trace_bytes = 800;
  m.records = 100;
  r.metrics = m;
  r.semantics = Verdict::trusted;
  r.timing = Verdict::trusted;
  r.add("occupancy", Verdict::not_trusted, "8 -> 7 CTAs per SM");
  r.add("better", Verdict::trusted, "less code");
  run.rows.push_back(r);
  r.probe = "inst";
  r.metrics->time = Time{1.5, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), 2, {}};
  r.timing.reset();
  r.timing_why = "no budget";
  run.rows.push_back(r);
  r.probe = "pair";
  r.metrics.reset();
  r.refused = "why";
  run.rows.push_back(r);
  return run;
}

TEST(CheckJson, Fields) {
  CheckRun run = sample_run();
  run.errors.push_back({"run.xtr launch 9", "gone", 3});
  const auto o = JsonDocument(render_json(run));
  EXPECT_EQ(o.text("/schema"), "xtrace-check");
  EXPECT_EQ(o.at("/schema_version"), "1");
  EXPECT_EQ(o.text("/verdict"), "not trusted");
  EXPECT_EQ(o.at("/exit_status"), "3");
  EXPECT_EQ(o.at("/timing_judged"), "true");
  EXPECT_EQ(o.text("/rows/0/verdict"), "not trusted");
  EXPECT_EQ(o.text("/rows/0/timing"), "trusted");
  EXPECT_EQ(o.at("/rows/0/metrics/code_bytes"), one_line(R"({"before": 1000, "after": 1500})"));
  EXPECT_EQ(o.at("/rows/0/findings/0"), one_line(R"({"code": "occupancy", "effect": "not trusted", "text": "8 -> 7 CTAs per SM"})"));
  EXPECT_EQ(o.text("/rows/0/findings/1/effect"), "note");
  EXPECT_EQ(o.at("/rows/1/timing"), "null");
  EXPECT_EQ(o.text("/rows/1/timing_not_judged"), "no budget");
  EXPECT_EQ(o.at("/rows/1/metrics/time/ratio_low"), "null");
  EXPECT_EQ(o.at("/rows/2/metrics"), "null");
  EXPECT_EQ(o.text("/rows/2/refused"), "why");
  EXPECT_EQ(o.text("/errors/0/where"), "run.xtr launch 9");
}

TEST(CheckJson, ABaselineIsReadBack) {
  const CheckRun run = sample_run();
  const auto read = read_baseline(render_json(run), "b.json");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->environment, run.environment);
  ASSERT_EQ(read->rows.size(), 3u);
  const Row &a = run.rows[0], &b = read->rows[0];
  EXPECT_EQ(where(b), where(a));
  EXPECT_EQ(b.kernel, a.kernel);
  EXPECT_EQ(b.grid, a.grid);
  EXPECT_EQ(b.block, a.block);
  ASSERT_TRUE(b.metrics && b.metrics->time);
  EXPECT_EQ(b.metrics->time->ratio, 1.03);
  EXPECT_EQ(b.metrics->time->low, 1.02);
  EXPECT_EQ(b.metrics->time->high, 1.04);
  EXPECT_EQ(b.metrics->time->noise_floor, 0.004);
  EXPECT_EQ(b.metrics->registers, a.metrics->registers);
  EXPECT_EQ(b.metrics->occupancy, a.metrics->occupancy);
  EXPECT_EQ(b.metrics->local_bytes, a.metrics->local_bytes);
  EXPECT_EQ(b.metrics->code_bytes, a.metrics->code_bytes);
  EXPECT_EQ(b.metrics->trace_bytes, 800u);
  EXPECT_EQ(b.metrics->records, 100u);
  EXPECT_TRUE(b.findings.empty()) << "the baseline's findings are not this run's";
  EXPECT_EQ(read->rows[1].metrics->time->high, std::numeric_limits<double>::infinity());
  EXPECT_FALSE(read->rows[2].metrics);
  EXPECT_EQ(read->rows[2].refused, "why");
}

TEST(CheckJson, RefusesWhatIsNoBaseline) {
  const auto edited = [](auto edit) {
    auto o = parse_json(render_json(sample_run()));
    edit(o);
    return json_text(o, -1);
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "b.json is not JSON"},
      {"[]", "b.json is not JSON"},
      {"{}", "b.json is not the result of a check: its schema is ''"},
      {edited([](auto& o) { o["schema"] = "xtrace-replay-report"; }), "its schema is 'xtrace-replay-report'"},
      {edited([](auto& o) { o["schema_version"] = 2; }), "b.json has schema version 2, this xtrace reads 1"},
      {edited([](auto& o) { o["environment"] = nullptr; }), "b.json has no environment"},
      {edited([](auto& o) { o["rows"][0].erase("launch"); }), "malformed baseline b.json"},
      {edited([](auto& o) { o["rows"][0]["metrics"]["records"] = "many"; }), "malformed baseline b.json"},
      {edited([](auto& o) { o["schema"] = 7; }), "malformed baseline b.json"},
  };
  for (const auto& [text, message] : cases) {
    const auto r = read_baseline(text, "b.json");
    ASSERT_FALSE(r) << text.substr(0, 80);
    EXPECT_NE(r.error().message.find(message), std::string::npos) << r.error().message;
    EXPECT_EQ(r.error().kind, ErrorKind::bad_input);
  }
}

}  // namespace
}  // namespace xtrace::check
