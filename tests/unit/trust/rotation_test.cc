// Sparse sites and CTAs, rotated: each part is timed by itself, and the median of them beside it; classes of CTAs add up to the dense
// trace, and one that lacks a CTA, or has another's, is seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "instrument/cubin/image.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/trust/saboteur.h"
#include "tests/unit/trust/timers.h"
#include "tools/xtrace/replay/launch_replay.h"
#include "trace/trace_file.h"

namespace xtrace::cli {
namespace {

using instrument::ProbeKind;
using testing::HasSubstr;

// Behind clean-again: the parts in the order in which they were made, of which the first of block, all of mem, and count, which has
// none, come before the others of block.
Result<diff::ReplayReport> rotate(std::vector<double> ratios) {
  const replay::LaunchImage launch = interp_test::recorded_launch("transpose_tiled");
  Saboteur backend(replay::make_interp_backend(), launch.code);
  backend.device = "NVIDIA H200";
  Timer t;
  t.noise = 1e-6;
  t.ratios = {1};
  t.ratios.insert(t.ratios.end(), ratios.begin(), ratios.end());
  backend.on_time = t;
  ReplayOptions o;
  o.traces = testing::TempDir() + "trust_rotation";
  o.probes = {ProbeKind::block, ProbeKind::mem, ProbeKind::count};
  Sample sample;
  sample.sites_one_in = 4;
  o.samples = {sample};
  o.rotate = o.compare = o.quiet = true;
  o.processes = 1;
  return replay_launch(backend, launch, o);
}

TEST(Rotation, EachPartHasItsRatioAndItsFloor) {
  // block: 1.01, then 1.07, 1.08 ...; mem: 1.02 to 1.05; count: 1.06.
  const auto report = rotate({1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08, 1.09});
  ASSERT_TRUE(report) << report.error().to_string();
  ASSERT_EQ(report->rotations.size(), 2u);
  const diff::Rotation &block = report->rotations[0], &mem = report->rotations[1];
  EXPECT_EQ(block.probe + " " + block.sample, "block site:1/4");
  EXPECT_EQ(mem.probe + " " + mem.sample, "mem site:1/4");
  ASSERT_EQ(mem.parts.size(), 4u);
  uint64_t records = 0;
  for (size_t p = 0; p < 4; ++p) {
    EXPECT_EQ(mem.parts[p].sample, p == 0 ? "site:1/4" : fmt::format("site:1/4+{}", p));
    ASSERT_TRUE(mem.parts[p].timing && mem.parts[p].floor);
    EXPECT_NEAR(mem.parts[p].timing->ratio, 1.02 + 0.01 * static_cast<double>(p), 1e-5);
    EXPECT_GT(mem.parts[p].floor->added, 1);
    records += mem.parts[p].records;
  }
  ASSERT_TRUE(mem.timing && mem.floor);
  EXPECT_NEAR(mem.timing->ratio, 1.035, 1e-5) << "of each round the median";

  // Merged parts are one configuration; those of block are one each, in the order of the parts.
  ASSERT_EQ(report->configs.size(), block.parts.size() + 2);
  const diff::ConfigReport& merged = report->configs[1];
  ASSERT_EQ(merged.probe, "mem");
  EXPECT_EQ(merged.records, records);
  EXPECT_NEAR(merged.timing->ratio, 1.035, 1e-5);
  EXPECT_DOUBLE_EQ(merged.floor->added, mem.floor->added);
  ASSERT_GE(block.parts.size(), 2u);
  for (size_t p = 0; p < block.parts.size(); ++p) {
    const diff::ConfigReport& config = report->configs[p == 0 ? 0 : p + 2];
    EXPECT_EQ(block.parts[p].sample, config.sample);
    EXPECT_EQ(block.parts[p].records, config.records);
    EXPECT_NEAR(block.parts[p].timing->ratio, p == 0 ? 1.01 : 1.06 + 0.01 * static_cast<double>(p), 1e-5);
    EXPECT_DOUBLE_EQ(block.parts[p].floor->added, config.floor->added);
  }

  const std::string text = diff::render_text(*report);
  EXPECT_THAT(text, HasSubstr("mem site:1/4 rotated, by part:"));
  EXPECT_THAT(text, HasSubstr("site:1/4+3"));
  EXPECT_THAT(text, HasSubstr("median                1.035 [1.035 1.035]"));
  const auto json = diff::render_json(*report);
  EXPECT_THAT(json, HasSubstr("\"rotations\""));
}

// Nine CTAs of eight warps.
struct Replayed {
  Result<diff::ReplayReport> report = tl::make_unexpected(Error{});
  size_t spliced = 0;
};
Replayed rotate_ctas(std::vector<ProbeKind> probes, std::vector<Sample> samples, const std::function<void(Saboteur&)>& sabotage = {},
                     const std::string& kernel = "transpose_tiled") {
  const replay::LaunchImage launch = interp_test::recorded_launch(kernel);
  Saboteur backend(replay::make_interp_backend(), launch.code);
  if (sabotage) sabotage(backend);
  ReplayOptions o;
  o.traces = testing::TempDir() + "trust_rotated_ctas";
  o.probes = std::move(probes);
  o.samples = std::move(samples);
  o.rotate = o.compare = o.quiet = true;
  o.processes = 1;
  Replayed r;
  r.report = replay_launch(backend, launch, o);
  r.spliced = backend.spliced;
  return r;
}
Sample one_in(uint32_t n) {
  Sample s;
  s.one_in = n;
  return s;
}
std::string trace_of(const diff::ConfigReport& config) {
  for (const diff::Artefact& a : config.artefacts)
    if (a.kind == "trace") return a.path;
  return {};
}
using Warps = std::map<uint32_t, trace::WarpTrace>;
Warps warps_of(const diff::ConfigReport& config, trace::TraceMeta& meta) {
  Warps warps;
  const auto file = trace::TraceFileReader::open(trace_of(config));
  EXPECT_TRUE(file) << config.probe << " " << config.sample;
  if (!file) return warps;
  meta = (*file)->meta();
  trace::WarpTrace t;
  for (;;) {
    const auto more = (*file)->next(t);
    EXPECT_TRUE(more) << more.error().to_string();
    if (!more || !*more) return warps;
    EXPECT_TRUE(warps.emplace(t.warp, t).second) << "warp " << t.warp << " stands there twice";
  }
}
const diff::ConfigReport* config_of(const diff::ReplayReport& report, const std::string& probe, const std::string& sample) {
  for (const diff::ConfigReport& c : report.configs)
    if (c.probe == probe && c.sample == sample) return &c;
  ADD_FAILURE() << "no " << probe << " " << sample;
  return nullptr;
}

TEST(RotatedCtas, AddUpToTheDenseTrace) {
  const Replayed r = rotate_ctas({ProbeKind::block, ProbeKind::inst, ProbeKind::mem}, {Sample{}, one_in(3), one_in(64)});
  ASSERT_TRUE(r.report) << r.report.error().to_string();
  for (const char* probe : {"block", "inst"})
    for (const uint32_t n : {3u, 64u}) {
      const std::string sample = fmt::format("cta:1/{}", n);
      SCOPED_TRACE(std::string(probe) + " " + sample);
      const diff::ConfigReport *dense = config_of(*r.report, probe, "all"), *rotated = config_of(*r.report, probe, sample);
      ASSERT_TRUE(dense && rotated);
      EXPECT_EQ(rotated->judgement.overall, diff::Verdict::trusted);
      EXPECT_EQ(rotated->records, dense->records);
      trace::TraceMeta of_dense, meta;
      const Warps expected = warps_of(*dense, of_dense), found = warps_of(*rotated, meta);
      EXPECT_EQ(found.size(), 72u);
      EXPECT_EQ(expected.size(), found.size());
      EXPECT_TRUE(meta.map.layout.all_parts);
      for (const auto& [warp, t] : found) {
        const trace::WarpTrace& d = expected.at(warp);
        EXPECT_EQ(t.index, d.index) << warp;
        EXPECT_EQ(t.mask, d.mask) << warp;
        EXPECT_EQ(t.clock.size(), d.clock.size()) << warp;
        EXPECT_EQ(t.cta_part, wire::part_of_cta(t.cta, n, meta.map.layout.seed)) << warp;
        EXPECT_EQ(t.marks.size(), 0u);
      }
    }
  // The parts of each, those without a CTA left out.
  ASSERT_EQ(r.report->rotations.size(), 6u);
  for (const diff::Rotation& rotation : r.report->rotations) {
    const uint32_t n = rotation.sample == "cta:1/3" ? 3 : 64;
    std::set<std::string> parts;
    uint64_t records = 0;
    for (uint32_t cta = 0; cta < 9; ++cta)
      if (const uint32_t p = wire::part_of_cta(cta, n, 1); true) parts.insert(rotation.sample + (p == 0 ? "" : fmt::format("+{}", p)));
    ASSERT_EQ(rotation.parts.size(), parts.size()) << rotation.sample;
    for (const diff::RotatedPart& part : rotation.parts) {
      EXPECT_TRUE(parts.contains(part.sample)) << part.sample;
      records += part.records;
    }
    EXPECT_EQ(records, config_of(*r.report, rotation.probe, "all")->records);
  }
  const diff::ConfigReport *dense = config_of(*r.report, "mem", "all"), *rotated = config_of(*r.report, "mem", "cta:1/3");
  ASSERT_TRUE(dense && rotated);
  EXPECT_EQ(rotated->judgement.overall, diff::Verdict::trusted);
  EXPECT_EQ(rotated->table_json, dense->table_json);
}

// Every site of every CTA once.
TEST(RotatedCtas, AndSites) {
  Sample both = one_in(3);
  both.sites_one_in = 4;
  const Replayed r = rotate_ctas({ProbeKind::block, ProbeKind::mem, ProbeKind::branch}, {Sample{}, both});
  ASSERT_TRUE(r.report) << r.report.error().to_string();
  ASSERT_EQ(r.report->rotations.size(), 3u);
  for (const diff::Rotation& rotation : r.report->rotations) {
    EXPECT_EQ(rotation.sample, "cta:1/3,site:1/4");
    std::set<std::string> names;
    uint64_t records = 0;
    for (const diff::RotatedPart& p : rotation.parts) names.insert(p.sample), records += p.records;
    EXPECT_EQ(names.size(), rotation.parts.size());
    EXPECT_EQ(names.size() % 3, 0u) << "three classes of each part that has something";
    if (rotation.probe == "mem") continue;   // a block's record stands in each part that has one of its accesses
    EXPECT_EQ(records, config_of(*r.report, rotation.probe, "all")->records) << rotation.probe;
  }
  for (const char* probe : {"mem", "branch"})
    EXPECT_EQ(config_of(*r.report, probe, "cta:1/3,site:1/4")->table_json, config_of(*r.report, probe, "all")->table_json);
}

// Of two parts of sites, each a configuration of four classes: the median of these, and that of all eight beside it.
TEST(RotatedCtas, EachClassHasItsRatioAndItsFloor) {
  Sample both = one_in(4);
  both.sites_one_in = 2;
  const Replayed r = rotate_ctas({ProbeKind::block}, {both}, [](Saboteur& s) {
    s.device = "NVIDIA H200";
    Timer t;
    t.noise = 1e-6;
    t.ratios = {1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08};
    s.on_time = t;
  });
  ASSERT_TRUE(r.report) << r.report.error().to_string();
  ASSERT_EQ(r.report->configs.size(), 2u);
  ASSERT_EQ(r.report->rotations.size(), 1u);
  const diff::Rotation& rotation = r.report->rotations[0];
  ASSERT_EQ(rotation.parts.size(), 8u);
  for (size_t p = 0; p < 8; ++p) {
    ASSERT_TRUE(rotation.parts[p].timing && rotation.parts[p].floor);
    EXPECT_NEAR(rotation.parts[p].timing->ratio, 1.01 + 0.01 * static_cast<double>(p), 1e-5);
    EXPECT_GT(rotation.parts[p].floor->added, 1);
  }
  EXPECT_NEAR(rotation.timing->ratio, 1.045, 1e-5);
  EXPECT_NEAR(r.report->configs[0].timing->ratio, 1.025, 1e-5);
  EXPECT_NEAR(r.report->configs[1].timing->ratio, 1.065, 1e-5);
}

struct CtaFault {
  const char* name;
  const char* loss;
  std::function<uint32_t(uint32_t)> limit;   // of a class, in place of its own
};
// In the second module alone: the width of its class in the comparison.
void change_limit(Saboteur& s, const std::string& kernel, const CtaFault& fault) {
  s.on_splice = [&fault, kernel, met = 0](Bytes& cubin) mutable {
    const auto image = cubin::Image::parse(cubin).value();
    const Bytes& text = image.sections()[image.text_section(kernel).value()].data;
    const auto at = std::search(cubin.begin(), cubin.end(), text.begin(), text.end());
    const uint32_t width = wire::class_width(4, 0);
    for (size_t i = 0; i < text.size(); i += 16) {
      uint64_t word = 0;
      std::memcpy(&word, &*at + i, sizeof word);
      if ((word & 0xfff) != 0x80c || word >> 32 != width || met++ != 1) continue;
      word = (word & 0xffffffff) | uint64_t{fault.limit(width)} << 32;
      std::memcpy(&*at + i, &word, sizeof word);
      return;
    }
  };
}

TEST(RotatedCtas, WhatDoesNotAddUpIsSeen) {
  const std::string kernel = interp_test::recorded_launch("transpose_tiled").record.kernel;
  const CtaFault faults[] = {
      {"a part drops its CTAs", "never_started", [](uint32_t) { return 0u; }},
      {"a part traces CTAs of another one as well", "unsampled_records", [](uint32_t width) { return 3 * width; }},
      {"nothing", "", [](uint32_t width) { return width; }},
  };
  for (const CtaFault& fault : faults)
    for (const ProbeKind probe : {ProbeKind::block, ProbeKind::inst, ProbeKind::mem, ProbeKind::branch}) {
      SCOPED_TRACE(fmt::format("{}, {}", fault.name, instrument::probe_info(probe).name));
      const Replayed r = rotate_ctas({probe}, {one_in(4)}, [&](Saboteur& s) { change_limit(s, kernel, fault); });
      ASSERT_TRUE(r.report) << r.report.error().to_string();
      ASSERT_EQ(r.report->configs.size(), 1u);
      const diff::ConfigReport& config = r.report->configs[0];
      ASSERT_TRUE(config.refused.empty()) << config.refused;
      const bool broken = *fault.loss != 0;
      EXPECT_EQ(config.judgement.overall, broken ? diff::Verdict::not_trusted : diff::Verdict::trusted);
      const auto lost = [&](const diff::LossCount& l) { return l.name == fault.loss && l.count != 0; };
      EXPECT_EQ(std::any_of(config.losses.begin(), config.losses.end(), lost), broken);
      EXPECT_EQ(trace_of(config).empty(), broken);
    }
}

TEST(RotatedCtas, WhatHasNoPartsIsRefusedByName) {
  Sample by_sm = one_in(4);
  by_sm.select.sms = {{0, 3}};
  const Replayed r = rotate_ctas({ProbeKind::block, ProbeKind::pair}, {one_in(4), by_sm});
  ASSERT_TRUE(r.report) << r.report.error().to_string();
  EXPECT_THAT(config_of(*r.report, "pair", "cta:1/4")->refused, HasSubstr("pair rotates over its sites"));
  EXPECT_THAT(config_of(*r.report, "block", "cta:1/4,sm:0-3")->refused, HasSubstr("on another SM in each part"));
  EXPECT_TRUE(config_of(*r.report, "block", "cta:1/4")->refused.empty());
  EXPECT_EQ(r.report->rotations.size(), 1u);
}

// Where warps go round until others are done: loops left out, the parts add up; points have another number of records each time.
TEST(RotatedCtas, OfLaunchesThatWait) {
  const Replayed r = rotate_ctas({ProbeKind::block, ProbeKind::sync}, {one_in(3)}, {}, "spin_lock");
  ASSERT_TRUE(r.report) << r.report.error().to_string();
  EXPECT_EQ(config_of(*r.report, "block", "cta:1/3")->judgement.overall, diff::Verdict::trusted);
  EXPECT_THAT(config_of(*r.report, "sync", "cta:1/3")->refused, HasSubstr("would not be parts of one launch"));
}

// --rotate alone.
TEST(RotatedCtas, AsManyClassesAsSuitTheLaunch) {
  Sample choose;
  choose.choose = true;
  const Replayed r = rotate_ctas({ProbeKind::block}, {choose});
  ASSERT_TRUE(r.report) << r.report.error().to_string();
  EXPECT_EQ(r.report->configs[0].sample, "cta:1/9") << "of nine CTAs";
  ASSERT_EQ(r.report->rotations.size(), 1u);
}

}  // namespace
}  // namespace xtrace::cli
