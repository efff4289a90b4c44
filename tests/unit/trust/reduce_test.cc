#include "tools/xtrace/replay/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>


#include "instrument/cubin/image.h"
#include "instrument/instrument.h"
#include "replay/interp/interp_backend.h"
#include "tests/json_document.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/trust/saboteur.h"
#include "tools/xtrace/replay/launch_replay.h"
#include "tools/xtrace/replay/reduce_report.h"

namespace xtrace::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<uint32_t> up_to(uint32_t n) {
  std::vector<uint32_t> v;
  for (uint32_t i = 0; i < n; ++i) v.push_back(16 * i);
  return v;
}
// Diverges when all of these are there.
Trial needs(std::vector<uint32_t> pcs) {
  return [pcs](const std::vector<uint32_t>& some) -> Result<std::string> {
    for (uint32_t pc : pcs)
      if (std::find(some.begin(), some.end(), pc) == some.end()) return std::string();
    return std::string("diverged");
  };
}

TEST(Reduce, FindsOneAndSeveral) {
  for (const std::vector<uint32_t>& culprits : {std::vector<uint32_t>{16 * 77}, {0, 16 * 199}, {16 * 10, 16 * 11, 16 * 150}}) {
    const auto r = reduce(up_to(200), needs(culprits));
    ASSERT_TRUE(r);
    EXPECT_EQ(r->pcs, culprits);
    EXPECT_EQ(r->what, "diverged");
    EXPECT_LT(r->trials, 120u);
  }
}

TEST(Reduce, NothingToReduceAndNothingToTrust) {
  EXPECT_TRUE(reduce(up_to(5), needs({99}))->pcs.empty());
  int calls = 0;
  const auto once = reduce({16}, [&](const auto&) -> Result<std::string> { return std::string(calls++ == 0 ? "diverged" : ""); });
  ASSERT_FALSE(once);
  EXPECT_THAT(once.error().message, HasSubstr("diverged once and then did not"));
  EXPECT_EQ(places_text({16, 64}), "pc:0x10 or pc:0x40");
}

TEST(Reduce, WhatNoProbeDoesIsBlamedOnNone) {
  const auto r = reduce(up_to(200), needs({}));
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->unprobed);
  EXPECT_TRUE(r->pcs.empty());
  EXPECT_EQ(r->what, "diverged");
  EXPECT_EQ(r->trials, 2u);
  EXPECT_FALSE(reduce(up_to(9), needs({16}))->unprobed);
}

TEST(Reduce, WhatAReportShows) {
  const auto report = [](const std::string& config) { return R"({"configs": [)" + config + "]}"; };
  const auto of = shown_by(report(R"({"refused": null, "reasons": [
    {"code": "output-diverged", "aspect": "semantics", "effect": "refute", "numbers": "region 0"},
    {"code": "replay-faithful", "aspect": "semantics", "effect": "support", "numbers": ""},
    {"code": "path-unstable", "aspect": "semantics", "effect": "doubt", "numbers": ""},
    {"code": "records-lost", "aspect": "semantics", "effect": "refute", "numbers": "2 losses"},
    {"code": "time-exceeds", "aspect": "timing", "effect": "refute", "numbers": "ratio 2"}]})"));
  EXPECT_EQ(of.against, "output-diverged: region 0; records-lost: 2 losses");
  EXPECT_EQ(of.doubts, "path-unstable");
  EXPECT_EQ(of.refused, "");
  EXPECT_EQ(shown_by(report(R"({"refused": "no register is free"})")).refused, "no register is free");
}

TEST(Reduce, OutcomesAndTheirExitStatus) {
  ReductionReport r;
  r.bundle = "run.xtr", r.kernel = "scale", r.probe = "inst", r.sample = "all", r.launch = 3, r.instructions = 40;
  const auto outcome = [&] { return JsonDocument(r.json(3)); };
  EXPECT_EQ(outcome().text("/outcome"), "does-not-diverge");
  EXPECT_EQ(outcome().at("/exit_status"), "0");
  EXPECT_THAT(r.text(), HasSubstr("launch 3 does not diverge with all 40 instructions probed by inst"));

  r.doubts = "nothing-recorded";   // nobody saw it as it should be
  EXPECT_EQ(outcome().text("/outcome"), "not-known");
  EXPECT_EQ(outcome().text("/what"), "nothing-recorded");
  EXPECT_EQ(outcome().at("/exit_status"), "2");
  EXPECT_THAT(r.text(), HasSubstr("nothing-recorded"));

  r.reduction = {{}, "replay-diverged: region 1", 2, true};
  EXPECT_EQ(outcome().text("/outcome"), "diverges-unprobed");
  EXPECT_EQ(outcome().at("/exit_status"), "1");
  EXPECT_EQ(outcome().size("/culprits"), 0);
  EXPECT_THAT(r.text(), HasSubstr("diverges without a probe, too: replay-diverged: region 1"));

  r.reduction = {{0x10, 0x40}, "output-diverged: region 0", 12, false};
  r.sass = {"FADD R0, R0, R1", "EXIT"};
  r.reproducer = "repro";
  const auto j = outcome();
  EXPECT_EQ(j.text("/outcome"), "reduced");
  EXPECT_EQ(j.at("/exit_status"), "1");
  EXPECT_EQ(j.at("/culprits"), one_line(R"([{"pc": 16, "sass": "FADD R0, R0, R1"}, {"pc": 64, "sass": "EXIT"}])"));
  EXPECT_EQ(j.text("/at"), "pc:0x10 or pc:0x40");
  EXPECT_EQ(j.at("/replays"), "12");
  EXPECT_EQ(j.text("/reproducer"), "repro");
  EXPECT_THAT(r.text(), HasSubstr("2 of 40 instructions, probed alone, make launch 3 diverge (12 replays): pc:0x10 or pc:0x40"));
  EXPECT_THAT(r.text(), HasSubstr("0x10  FADD R0, R0, R1"));

  r.error = "disk full", r.hint = "free space";   // what was found stays
  EXPECT_EQ(outcome().text("/outcome"), "error");
  EXPECT_EQ(outcome().at("/exit_status"), "3");
  EXPECT_EQ(outcome().size("/culprits"), 2);
}

// A splicer that spoils the kernel's FADD whenever it puts a clock in front of it: just that instruction is found.
TEST(Reduce, ASabotagedSpliceOnTheInterpreter) {
  const replay::LaunchImage launch = interp_test::recorded_launch("reduce_sum");
  const auto splicer = instrument::Splicer::create(launch.code, "reduce_sum", {launch.record.grid, launch.record.block}).value();
  std::vector<uint32_t> pcs;
  uint32_t culprit = 0;
  for (const auto& i : splicer.instructions()) {
    pcs.push_back(i.pc.value);
    if (culprit == 0 && splicer.text(i.pc).starts_with("FADD")) culprit = i.pc.value;
  }
  ASSERT_NE(culprit, 0u);
  const auto trial = [&](const std::vector<uint32_t>& some) -> Result<std::string> {
    Saboteur backend(replay::make_interp_backend(), launch.code);
    backend.on_splice = [](Bytes& cubin) {
      const Bytes text = [&] {
        const auto image = cubin::Image::parse(cubin).value();
        return image.sections()[image.text_section("reduce_sum").value()].data;
      }();
      auto* words = reinterpret_cast<uint64_t*>(&*std::search(cubin.begin(), cubin.end(), text.begin(), text.end()));
      for (size_t i = 2; i < text.size() / 8; i += 2) {
        if ((words[i] & 0xfff) != 0x221) continue;
        if ((words[i - 2] & 0xfff) == 0x805) words[i] ^= uint64_t{1} << 32;   // behind a CS2R
        return;   // the first FADD
      }
    };
    ReplayOptions o;
    o.traces = testing::TempDir() + "trust_reduce";
    o.probes = {instrument::ProbeKind::inst};
    o.samples = {{}};
    o.compare = o.quiet = true;
    o.at_text = places_text(some);
    if (some.empty()) {
      o.probes = {instrument::ProbeKind::none};
    } else {
      XT_TRY(o.at, Place::parse(o.at_text));
    }
    XT_TRY(const diff::ReplayReport report, replay_launch(backend, launch, o));
    return std::string(report.configs.at(0).judgement.has(diff::ReasonId::output_diverged) ? "output-diverged" : "");
  };
  const auto r = reduce(pcs, trial);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_THAT(r->pcs, ElementsAre(culprit));
  EXPECT_EQ(r->what, "output-diverged");
}

}  // namespace
}  // namespace xtrace::cli
