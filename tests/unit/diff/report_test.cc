#include "diff/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/json_document.h"

namespace xtrace::diff {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ReplayReport sample_report() {
  ReplayReport r;
  r.bundle = "run.xtr";
  r.launch = 3;
  r.kernel = "_Z5sgemmPKfS0_Pfi";
  r.kernel_text = "sgemm(float const*, float const*, float*, int)";
  r.grid = {16, 16, 1};
  r.block = {32, 8, 1};
  r.backend = "driver";
  r.device = "NVIDIA H200";
  r.driver = "13.0";
  r.clean_replays = 3;
  r.memory_bytes = 3 << 20;
  r.written_bytes = 1 << 20;
  r.clean_time = sample_stats({41, 41.2, 41.1, 41.3, 41.1, 41.0});
  r.noise_floor = 0.003;
  r.timing = TimingConditions{5, 3, 123.3, 0.032, 1980, "warmed by one launch", 0.42, {1.0004, {0.998, 1.003}, 25, 5, 0.001}};

  ConfigReport block;
  block.probe = "block";
  block.sample = "all";
  SemanticEvidence s;
  s.output = s.clean_against_recorded = OutputMatch::equal;
  s.clean_replays = 3;
  s.written_bytes = s.written_stable_bytes = 1 << 20;
  s.path = PathMatch::equal;
  s.path_text = "equal in 12 blocks";
  s.invariants = Invariants::hold;
  TimingEvidence t;
  t.measured = true;
  t.rounds = t.pairs = 50;
  t.processes = 5;
  t.ratio = 1.012;
  t.interval = {1.008, 1.017};
  t.noise_floor = 0.003;
  SpatialEvidence p;
  p.registers_before = 38;
  p.registers_after = 42;
  p.ctas_per_sm_before = p.ctas_per_sm_after = 6;
  p.code_bytes_before = 2048;
  p.code_bytes_after = 3072;
  p.trace_bytes = 12'345'678;
  block.semantics = s;
  block.timing = t;
  block.space = p;
  block.judgement = judge(s, t, p);
  block.microseconds = 41.6;
  block.records = 123'456;
  block.artefacts = {{"trace", "out/launch3.block.xtt"}};
  r.configs.push_back(block);

  ConfigReport inst = block;
  inst.probe = "inst";
  inst.sample = "cta:1/16";
  inst.artefacts.clear();
  inst.semantics->lost = 2;
  inst.semantics->losses_text = "wrapped";
  inst.timing->dense = true;
  inst.timing->interval = {-HUGE_VAL, HUGE_VAL};
  inst.timing->rounds = 3;
  inst.judgement = judge(*inst.semantics, inst.timing, inst.space);
  inst.losses = {{"wrapped", "lost", 2, 4096}};
  r.configs.push_back(inst);

  ConfigReport pair;
  pair.probe = "pair";
  pair.sample = "all";
  pair.refused = "site 0x120 of kernel sgemm lies inside a wgmma group";
  r.configs.push_back(pair);
  return r;
}

TEST(Report, TextFitsInto120ColumnsAndSaysEverything) {
  const ReplayReport r = sample_report();
  const std::string text = render_text(r);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
  for (const char* part :
       {"launch 3 of run.xtr: sgemm(float const*, float const*, float*, int)", "41.10 us", "0.30%",
        "1.012 [1.008 1.017]", "38>42", "2048>3072", "12 MiB", "123 k", "trusted", "not trusted",
        "1.012 [few rounds]", "refused: site 0x120", "lost wrapped: 2 times, 4096 B",
        "trace: out/launch3.block.xtt", "records-lost", "verdict: not trusted"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(Report, LongTextsWrapAtSpaces) {
  ReplayReport r = sample_report();
  r.kernel_text.clear();
  for (int i = 0; i < 60; ++i) r.kernel_text += "template<int, float> ";
  r.warnings.push_back(r.kernel_text);
  r.configs[0].judgement.reasons[0].numbers = r.kernel_text;
  std::istringstream lines(render_text(r));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
}

TEST(Report, JsonHoldsTheSameNumbers) {
  const auto j = JsonDocument(render_json(sample_report()));
  EXPECT_EQ(j.text("/schema"), "xtrace-replay-report");
  EXPECT_EQ(j.at("/schema_version"), "1");
  EXPECT_EQ(j.text("/verdict"), "not trusted");
  EXPECT_EQ(j.at("/exit_status"), "1");
  EXPECT_EQ(j.at("/grid"), "[16,16,1]");
  EXPECT_EQ(j.at("/clean/noise_floor"), "0.003");
  EXPECT_EQ(j.at("/clean/time/count"), "6");
  EXPECT_EQ(j.text("/configs/0/verdict"), "trusted");
  EXPECT_EQ(j.text("/configs/0/aspects/timing"), "trusted");
  EXPECT_EQ(j.at("/configs/0/timing/ratio_low"), "1.008");
  EXPECT_EQ(j.at("/configs/0/timing/graded"), "false");
  EXPECT_EQ(j.at("/configs/0/space/registers/after"), "42");
  EXPECT_EQ(j.at("/configs/0/records"), "123456");
  EXPECT_EQ(j.text("/configs/0/artefacts/0/path"), "out/launch3.block.xtt");
  bool seen = false;
  for (long k = 0; k < j.size("/configs/0/reasons"); ++k) {
    const std::string reason = fmt::format("/configs/0/reasons/{}", k);
    seen |= j.text(reason + "/code") == "path-equal" && j.text(reason + "/numbers") == "equal in 12 blocks";
  }
  EXPECT_TRUE(seen);
  EXPECT_EQ(j.at("/configs/1/timing/ratio_low"), "null");  // infinite
  EXPECT_EQ(j.at("/configs/1/losses/0/bytes"), "4096");
  EXPECT_THAT(j.text("/configs/2/refused"), HasSubstr("wgmma"));
  EXPECT_EQ(j.at("/configs/2/verdict"), "nothing");
}

TEST(Report, TablesOfProbes) {
  ReplayReport r = sample_report();
  r.configs[0].table_text = "pc lanes\n" + std::string(200, 'x') + "\n";
  r.configs[0].table_json = R"([{"pc": 16, "lanes": 32}])";
  r.configs[0].not_covered = {"UTMALDG.2D [UR8], [UR4] at 0x20: its addresses do not stand one a lane in a register"};
  const std::string text = render_text(r);
  EXPECT_THAT(text, HasSubstr("\n    pc lanes\n    xxx"));
  EXPECT_THAT(text, HasSubstr("! not covered: UTMALDG.2D"));
  const auto j = JsonDocument(render_json(r));
  EXPECT_EQ(j.at("/configs/0/table/0/lanes"), "32");
  EXPECT_EQ(j.size("/configs/0/not_covered"), 1);
  EXPECT_EQ(j.at("/configs/1/table"), "null");
}

TEST(Report, JsonSurvivesNamesThatAreNotUtf8) {
  ReplayReport r = sample_report();
  r.kernel = "bad\xff\xfename";
  EXPECT_TRUE(JsonDocument(render_json(r)).is_valid());
}

TEST(Report, VerdictIgnoresRefusedConfigurations) {
  ReplayReport r = sample_report();
  r.configs.erase(r.configs.begin() + 1);
  EXPECT_EQ(r.verdict(), Verdict::trusted);
  r.configs.erase(r.configs.begin());
  EXPECT_EQ(r.verdict(), Verdict::inconclusive);
}

}  // namespace
}  // namespace xtrace::diff
