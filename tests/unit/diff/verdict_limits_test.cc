// A verdict at its limits: on them, and just beyond.
#include <gtest/gtest.h>

#include "diff/verdict.h"

namespace xtrace::diff {
namespace {

using Id = ReasonId;

struct Evidence {
  SemanticEvidence s;
  TimingEvidence t;
  SpatialEvidence p;
  double budget = 1.5;
};
Evidence good() {
  Evidence e;
  e.s.output = e.s.clean_against_recorded = OutputMatch::equal;
  e.s.clean_replays = 3;
  e.s.written_bytes = e.s.written_stable_bytes = 64;
  e.s.path = PathMatch::equal;
  e.s.invariants = Invariants::hold;
  e.t.measured = true;
  e.t.rounds = e.t.pairs = 40;
  e.t.processes = 5;
  e.t.sample_ticks = 3000;
  e.t.ratio = 1.25;
  e.t.interval = {1.125, 1.375};
  e.t.noise_floor = 0.125;
  e.p.ctas_per_sm_before = e.p.ctas_per_sm_after = 8;
  e.p.registers_before = e.p.registers_after = 32;
  e.p.shared_bytes_before = e.p.shared_bytes_after = 1024;
  e.p.code_bytes_before = e.p.code_bytes_after = 1024;
  return e;
}
template <typename F>
Judgement with(F change) {
  Evidence e = good();
  change(e);
  return judge(e.s, e.t, e.p, e.budget);
}

TEST(VerdictLimits, Semantics) {
  for (const uint32_t clean : {1u, 2u}) {   // two clean replays that agree prove what differs from them
    const auto output = with([&](Evidence& e) { e.s.output = OutputMatch::diverged, e.s.clean_replays = clean; });
    EXPECT_EQ(output.semantics, clean == 2 ? Verdict::not_trusted : Verdict::inconclusive);
    const auto recorded = with([&](Evidence& e) { e.s.clean_against_recorded = OutputMatch::diverged, e.s.clean_replays = clean; });
    EXPECT_EQ(recorded.semantics, clean == 2 ? Verdict::not_trusted : Verdict::inconclusive);
  }
  EXPECT_EQ(with([](Evidence& e) { e.s.written_stable_bytes = 0; }).semantics, Verdict::inconclusive);
  EXPECT_EQ(with([](Evidence& e) { e.s.written_stable_bytes = 1; }).semantics, Verdict::trusted);
}

TEST(VerdictLimits, Timing) {
  EXPECT_EQ(with([](Evidence&) {}).timing, Verdict::trusted);
  EXPECT_TRUE(with([](Evidence& e) { e.t.rounds = least_rounds - 1; }).has(Id::time_few_rounds));
  EXPECT_TRUE(with([](Evidence& e) { e.t.rounds = least_rounds; }).has(Id::time_within));
  EXPECT_TRUE(with([](Evidence& e) { e.t.processes = least_processes - 1; }).has(Id::time_one_process));
  EXPECT_FALSE(with([](Evidence& e) { e.t.processes = least_processes; }).has(Id::time_one_process));
  EXPECT_TRUE(with([](Evidence& e) { e.t.sample_ticks = least_ticks - 1; }).has(Id::time_coarse));
  EXPECT_FALSE(with([](Evidence& e) { e.t.sample_ticks = least_ticks; }).has(Id::time_coarse));
  static_assert(throttled_share == 0.25);
  EXPECT_TRUE(with([](Evidence& e) { e.t.throttled = 10; }).has(Id::time_clock_fell));
  EXPECT_TRUE(with([](Evidence& e) { e.t.throttled = 11; }).has(Id::time_throttled));

  // The interval may reach the budget on both sides, and clearly outside is what does not touch it.
  EXPECT_TRUE(with([](Evidence& e) { e.t.interval = {1 / 1.5, 1.5}; }).has(Id::time_within));
  EXPECT_TRUE(with([](Evidence& e) { e.t.interval = {1.5, 1.75}; }).has(Id::time_straddles));
  EXPECT_TRUE(with([](Evidence& e) { e.t.interval = {1.5001, 1.75}; }).has(Id::time_exceeds));
  EXPECT_TRUE(with([](Evidence& e) { e.t.interval = {0.5, 1 / 1.5}; }).has(Id::time_straddles));
  EXPECT_TRUE(with([](Evidence& e) { e.t.interval = {0.5, 0.6}; }).has(Id::time_faster));

  // A floor as high as the budget still decides, one above does not; nor does it doubt what is clearly outside of it.
  EXPECT_FALSE(with([](Evidence& e) { e.t.noise_floor = 0.5; }).has(Id::time_noise_floor));
  EXPECT_TRUE(with([](Evidence& e) { e.t.noise_floor = 0.51; }).has(Id::time_noise_floor));
  EXPECT_FALSE(with([](Evidence& e) { e.t.noise_floor = 0.51, e.t.interval = {1.75, 2}; }).has(Id::time_noise_floor));
  EXPECT_TRUE(with([](Evidence& e) { e.t.noise_floor = 0.25; }).has(Id::time_below_floor));
  EXPECT_FALSE(with([](Evidence& e) { e.t.noise_floor = 0.24; }).has(Id::time_below_floor));
  EXPECT_EQ(with([](Evidence& e) { e.budget = 1, e.t.noise_floor = 0, e.t.interval = {1, 1}; }).timing, Verdict::trusted);
}

TEST(VerdictLimits, Space) {
  EXPECT_FALSE(with([](Evidence&) {}).has(Id::space_registers));
  EXPECT_FALSE(with([](Evidence&) {}).has(Id::space_shared));
  EXPECT_FALSE(with([](Evidence&) {}).has(Id::space_code));
  EXPECT_TRUE(with([](Evidence& e) { ++e.p.registers_after; }).has(Id::space_registers));
  EXPECT_TRUE(with([](Evidence& e) { ++e.p.shared_bytes_after; }).has(Id::space_shared));
  EXPECT_TRUE(with([](Evidence& e) { ++e.p.code_bytes_after; }).has(Id::space_code));
  for (const bool before : {false, true}) {   // who does not know one of the two knows nothing of both
    const Judgement j = with([&](Evidence& e) { (before ? e.p.ctas_per_sm_before : e.p.ctas_per_sm_after) = 0; });
    EXPECT_TRUE(j.has(Id::space_unknown));
    EXPECT_FALSE(j.has(Id::space_occupancy) || j.has(Id::space_same));
    EXPECT_EQ(j.space, Verdict::inconclusive);
  }
  const Judgement fewer = with([](Evidence& e) { --e.p.ctas_per_sm_after; });
  EXPECT_FALSE(fewer.has(Id::space_same));
  EXPECT_EQ(fewer.space, Verdict::not_trusted);
  const Judgement local = with([](Evidence& e) { e.p.local_bytes_after = 1; });
  EXPECT_FALSE(local.has(Id::space_same));
  EXPECT_EQ(local.space, Verdict::not_trusted);
  const auto spilled = [](uint32_t bytes) { return with([&](Evidence& e) { e.p.spills = 1, e.p.spill_bytes = 16, e.p.local_bytes_after = bytes; }); };
  EXPECT_EQ(spilled(16).space, Verdict::trusted);
  EXPECT_EQ(spilled(17).space, Verdict::not_trusted);
  EXPECT_EQ(with([](Evidence& e) { e.p.spill_bytes = 16, e.p.local_bytes_after = 16; }).space, Verdict::not_trusted);   // nothing was spilled
  const auto traffic = [](uint64_t trace, uint64_t kernel) { return with([&](Evidence& e) { e.p.trace_bytes = trace, e.p.kernel_bytes = kernel; }).has(Id::space_traffic); };
  EXPECT_FALSE(traffic(100, 100));
  EXPECT_TRUE(traffic(101, 100));
  EXPECT_FALSE(traffic(100, 0));   // not known
}

}  // namespace
}  // namespace xtrace::diff
