#include "tools/xtrace/replay/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "instrument/cubin/image.h"
#include "instrument/instrument.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/trust/saboteur.h"
#include "tools/xtrace/replay/launch_replay.h"

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
    XT_TRY(o.at, Place::parse(o.at_text));
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
