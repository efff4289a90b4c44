// A kernel with the address of a module's variable in immediates that the loader fills in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "instrument/instrument.h"
#include "replay/interp/interp_backend.h"
#include "tools/xtrace/replay/launch_replay.h"

namespace xtrace::cli {
namespace {

using instrument::ProbeKind;
using testing::HasSubstr;

constexpr uint32_t threads = 256;
float in_at(uint32_t i) { return static_cast<float>(i) * 0.25f; }
float table_at(uint32_t i) { return static_cast<float>(3 * i + 1); }

// Of fixtures/cubins/src/patched_address.cu.
replay::LaunchImage patched_address(const std::string& symbol) {
  constexpr uint64_t in = 0x7d0000100000, out = in + 4096, table = 0x7e1234567000;   // low words of 0 are nowhere
  replay::LaunchImage launch;
  launch.code = read_file(std::string(XTRACE_SOURCE_DIR) + "/fixtures/cubins/sm_90/patched_address.cubin").value();
  launch.record.kernel = "patched_address";
  launch.record.grid = {2, 1, 1};
  launch.record.block = {threads / 2, 1, 1};
  const uint64_t params[] = {in, out};
  launch.record.param_block.resize(sizeof params);
  std::memcpy(launch.record.param_block.data(), params, sizeof params);
  launch.record.params = {{0, 8}, {8, 8}};
  const auto add = [&](bundle::RegionKind kind, uint64_t address, float (*value)(uint32_t), const std::string& name) {
    bundle::Region region;
    region.kind = kind;
    region.address = DevPtr{address};
    region.size = threads * sizeof(float);
    region.symbol = name;
    launch.record.regions.push_back(region);
    Bytes image(region.size);
    for (uint32_t i = 0; i < threads; ++i) write_at(std::span(image), i * sizeof(float), value(i));
    launch.before.push_back(image);
  };
  add(bundle::RegionKind::device, in, in_at, "");
  add(bundle::RegionKind::device, out, [](uint32_t) { return 0.0f; }, "");
  add(bundle::RegionKind::global, table, table_at, symbol);
  launch.after = launch.before;
  for (uint32_t i = 0; i < threads; ++i)
    write_at(std::span(launch.after[1]), i * sizeof(float), in_at(i) * table_at(i & 255) + table_at(i % (threads / 2)));
  return launch;
}

Result<diff::ReplayReport> replay_of(const replay::LaunchImage& launch, ProbeKind probe, Sample sample = {}) {
  const auto backend = replay::make_interp_backend();
  ReplayOptions o;
  o.traces = testing::TempDir() + "trust_patched_address";
  o.probes = {probe};
  o.samples = {sample};
  o.compare = o.quiet = true;
  return replay_launch(*backend, launch, o, nullptr);
}

// The immediates are 0 in the cubin: an address made of them is no number that is known beforehand.
TEST(PatchedAddress, IsNotWhatTheCubinSays) {
  const replay::LaunchImage launch = patched_address("table");
  for (const ProbeKind probe : {ProbeKind::block, ProbeKind::mem})
    for (const Sample& sample : {Sample{}, Sample{2}}) {
      SCOPED_TRACE(fmt::format("{} {}", instrument::probe_info(probe).name, sample.text()));
      const auto report = replay_of(launch, probe, sample);
      ASSERT_TRUE(report) << report.error().to_string();
      const diff::ConfigReport& c = report->configs.at(0);
      EXPECT_EQ(c.refused, "");
      EXPECT_EQ(c.judgement.overall, diff::Verdict::trusted);
    }
}

// An instruction that the loader would have written something into, nobody knows what.
TEST(PatchedAddress, IsRefusedWhereTheVariableWasNotRecorded) {
  const auto report = replay_of(patched_address("another"), ProbeKind::none);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().to_string(), HasSubstr("not implemented: relocation 57 against table"));
}

}  // namespace
}  // namespace xtrace::cli
