// Kernels that leave two pairs of uniform registers and two more: counted one sum a replay, traced in plain slots. One of them leaves a
// single vector register in some blocks as well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "instrument/instrument.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/trust/saboteur.h"
#include "tools/xtrace/replay/launch_replay.h"

namespace xtrace::cli {
namespace {

using instrument::ProbeKind;
using testing::HasSubstr;

// The parameters of fixtures/cubins/src/many_uniform.cu and tight_uniform.cu.
struct Divider {
  uint32_t divisor, magic, shift;
};
struct Offsets {
  int32_t dims;
  Divider sizes[25];
  uint32_t strides[25][3];
};
struct Args {
  Offsets in, out;
  uint64_t src, dst, aux;
  int32_t count, rows;
  float scale;
};

Divider divide_by(uint32_t d) {
  uint32_t shift = 0;
  while ((uint64_t{1} << shift) < d) ++shift;
  return {d, static_cast<uint32_t>((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d) / d + 1), shift};
}

replay::LaunchImage launch_of(const std::string& kernel) {
  constexpr uint64_t at = 0x7d0000000000, bytes = 16384;
  replay::LaunchImage launch;
  launch.code = read_file(std::string(XTRACE_SOURCE_DIR) + "/fixtures/cubins/sm_90/" + kernel + ".cubin").value();
  launch.record.kernel = kernel;
  launch.record.grid = {4, 1, 1};
  launch.record.block = {64, 1, 1};
  Args a{};
  a.in.dims = 2;
  a.in.sizes[0] = divide_by(50), a.in.sizes[1] = divide_by(40);
  const uint32_t strides[2][3] = {{1, 1, 2}, {50, 3, 1}};
  std::memcpy(a.in.strides, strides, sizeof strides);
  a.out.dims = 1;
  a.out.sizes[0] = divide_by(1000);
  a.out.strides[0][0] = 1;
  a.src = at, a.dst = at + bytes, a.aux = at + 2 * bytes;
  a.count = 1500, a.rows = 1, a.scale = 0.5f;
  launch.record.param_block.resize(sizeof a);
  std::memcpy(launch.record.param_block.data(), &a, sizeof a);
  launch.record.params = {{0, sizeof a}};
  for (uint64_t r = 0; r < 3; ++r) {
    bundle::Region region;
    region.kind = bundle::RegionKind::device;
    region.address = DevPtr{at + r * bytes};
    region.size = bytes;
    launch.record.regions.push_back(region);
    std::vector<float> values(bytes / sizeof(float));
    for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k % 97) + static_cast<float>(r);
    Bytes image(bytes);
    std::memcpy(image.data(), values.data(), bytes);
    launch.before.push_back(image);
  }
  const auto backend = replay::make_interp_backend();
  EXPECT_TRUE(backend->prepare(launch));
  const auto module = backend->load(launch.code).value();
  EXPECT_TRUE(backend->run(module)->completed);
  launch.after = backend->read_regions(module).value();
  return launch;
}

Result<diff::ReplayReport> replay_of_few(const replay::LaunchImage& launch, ProbeKind probe, Sample sample = {},
                                    const std::function<void(Saboteur&)>& inject = {}) {
  Saboteur backend(replay::make_interp_backend(), launch.code);
  if (inject) inject(backend);
  ReplayOptions o;
  o.traces = testing::TempDir() + "trust_few_uniform";
  o.probes = {probe};
  o.samples = {sample};
  o.compare = o.quiet = true;
  return replay_launch(backend, launch, o, nullptr);
}

class FewUniform : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, FewUniform, testing::Values("many_uniform", "tight_uniform"), [](const auto& info) { return info.param; });

TEST_P(FewUniform, EveryProbeButThoseThatCountInThem) {
  const replay::LaunchImage launch = launch_of(GetParam());
  ASSERT_NE(launch.after, launch.before);
  const auto splicer = instrument::Splicer::create(launch.code, GetParam(), {launch.record.grid, launch.record.block}).value();
  ASSERT_TRUE(splicer.one_sum_a_replay());
  const bool tight = GetParam() == "tight_uniform";
  for (const ProbeKind probe : {ProbeKind::count, ProbeKind::block, ProbeKind::inst, ProbeKind::mem, ProbeKind::branch, ProbeKind::latency})
    for (const Sample& sample : {Sample{}, Sample{2}}) {
      if (tight && (probe == ProbeKind::latency || probe == ProbeKind::branch || sample.one_in == 2)) continue;   // no register everywhere; time
      SCOPED_TRACE(fmt::format("{} {}", instrument::probe_info(probe).name, sample.text()));
      const auto report = replay_of_few(launch, probe, sample);
      ASSERT_TRUE(report) << report.error().to_string();
      const diff::ConfigReport& c = report->configs.at(0);
      EXPECT_EQ(c.refused, "");
      EXPECT_EQ(c.judgement.overall, diff::Verdict::trusted);
      EXPECT_GT(c.records, 0u);
    }
  if (tight) return;
  const auto pair = replay_of_few(launch, ProbeKind::pair);
  ASSERT_TRUE(pair) << pair.error().to_string();
  EXPECT_EQ(pair->configs.at(0).refused, "");
  EXPECT_EQ(pair->configs.at(0).judgement.semantics, diff::Verdict::trusted);
}

// The last counter differs each time.
void count_differently(Saboteur& s) {
  auto reads = std::make_shared<uint64_t>(0);
  s.on_counters = [=](Bytes& bytes) {
    const size_t last = last_counter(bytes);
    auto c = *read_at<wire::BlockCount>(bytes, last, "counter");
    c.warps += ++*reads;
    write_at(std::span(bytes), last, c);
  };
}

// Slots that wrap need more registers: a launch whose path changes is refused, and says so.
TEST_P(FewUniform, NoSlotWraps) {
  const auto report = replay_of_few(launch_of(GetParam()), ProbeKind::block, {}, count_differently);
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_THAT(report->configs.at(0).refused, HasSubstr("takes another path in each replay, and leaves fewer uniform registers"));
}

// One vector register in some block: counted in 32 bits.
TEST(FewRegisters, CountersOf32BitsHoldWhatIsTheSameTwice) {
  const auto report = replay_of_few(interp_test::recorded_launch("many_registers"), ProbeKind::block, {}, count_differently);
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_THAT(report->configs.at(0).refused,
              HasSubstr("leaves one register to count in, and its executions differ between replays, so that 32 bits may not hold them"));
}

}  // namespace
}  // namespace xtrace::cli
