#include "diff/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace xtrace::diff {
namespace {

using ::testing::HasSubstr;
using V = Verdict;
using Id = ReasonId;

SemanticEvidence good_semantics() {
  SemanticEvidence e;
  e.output = OutputMatch::equal;
  e.clean_against_recorded = OutputMatch::equal;
  e.clean_replays = 3;
  e.written_bytes = e.written_stable_bytes = 4096;
  e.path = PathMatch::equal;
  e.invariants = Invariants::hold;
  return e;
}
TimingEvidence good_timing() {
  TimingEvidence e;
  e.measured = true;
  e.rounds = e.pairs = 50;
  e.processes = 5;
  e.sample_ticks = 3000;
  e.ratio = 1.01;
  e.interval = {1.005, 1.015};
  e.noise_floor = 0.004;
  return e;
}
SpatialEvidence good_space() {
  SpatialEvidence e;
  e.registers_before = e.registers_after = 32;
  e.ctas_per_sm_before = e.ctas_per_sm_after = 8;
  e.code_bytes_before = e.code_bytes_after = 1024;
  return e;
}

struct Case {
  Id reason;
  V semantics, timing, space, overall;
  std::function<void(SemanticEvidence&, TimingEvidence&, SpatialEvidence&)> change;
};
#define CHANGE [](SemanticEvidence & s, TimingEvidence & t, SpatialEvidence & p)
#define UNUSED (void)s, (void)t, (void)p

// One change to perfect evidence at a time: the reason it gives, and every aspect of the verdict.
const Case cases[] = {{Id::output_equal, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
}  // namespace
}  // namespace xtrace::diff
, {Id::launch_failed, V::not_trusted, V::trusted, V::trusted, V::not_trusted, CHANGE{UNUSED;
s.completed = false;
}
}
, {Id::output_unstable, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
s.output = OutputMatch::unstable_only;
}
}
, {Id::output_unsettled, V::inconclusive, V::trusted, V::trusted, V::inconclusive, CHANGE{UNUSED;
s.output = OutputMatch::unsettled;
}
}
, {Id::output_diverged, V::not_trusted, V::trusted, V::trusted, V::not_trusted, CHANGE{UNUSED;
s.output = OutputMatch::diverged;
}
}
, {Id::output_diverged_unproven, V::inconclusive, V::trusted, V::trusted, V::inconclusive, CHANGE{UNUSED;
s.output = OutputMatch::diverged;
s.clean_replays = 1;
}
}
, {Id::output_not_compared, V::inconclusive, V::trusted, V::trusted, V::inconclusive, CHANGE{UNUSED;
s.output = OutputMatch::not_compared;
}
}
, {Id::output_all_unstable, V::inconclusive, V::trusted, V::trusted, V::inconclusive, CHANGE{UNUSED;
s.output = OutputMatch::unstable_only;
s.written_stable_bytes = 0;
}
}
, {Id::replay_faithful, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
s.clean_against_recorded = OutputMatch::unstable_only;
}
}
, {Id::replay_unsettled, V::inconclusive, V::trusted, V::trusted, V::inconclusive, CHANGE{UNUSED;
s.clean_against_recorded = OutputMatch::unsettled;
}
}
, {Id::replay_diverged, V::not_trusted, V::trusted, V::trusted, V::not_trusted, CHANGE{UNUSED;
s.clean_against_recorded = OutputMatch::diverged;
}
}
, {Id::replay_diverged_unproven, V::inconclusive, V::trusted, V::trusted, V::inconclusive, CHANGE{UNUSED;
s.clean_against_recorded = OutputMatch::diverged;
s.clean_replays = 1;
}
}
, {Id::replay_not_compared, V::inconclusive, V::trusted, V::trusted, V::inconclusive, CHANGE{UNUSED;
s.clean_against_recorded = OutputMatch::not_compared;
}
}
, {Id::path_equal, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
}
}
, {Id::path_waited, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
s.path = PathMatch::waited;
}
}
, {Id::path_differs, V::not_trusted, V::trusted, V::trusted, V::not_trusted, CHANGE{UNUSED;
s.path = PathMatch::differs;
}
}
, {Id::path_unstable, V::inconclusive, V::trusted, V::trusted, V::inconclusive, CHANGE{UNUSED;
s.path = PathMatch::unstable;
}
}
, {Id::path_not_compared, V::inconclusive, V::trusted, V::trusted, V::inconclusive, CHANGE{UNUSED;
s.path = PathMatch::not_compared;
}
}
, {Id::invariants_hold, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
}
}
, {Id::invariants_violated, V::not_trusted, V::trusted, V::trusted, V::not_trusted, CHANGE{UNUSED;
s.invariants = Invariants::violated;
s.invariant_violations = 3;
}
}
, {Id::invariants_not_checked, V::inconclusive, V::trusted, V::trusted, V::inconclusive, CHANGE{UNUSED;
s.invariants = Invariants::not_checked;
}
}
, {Id::nothing_recorded, V::inconclusive, V::trusted, V::trusted, V::inconclusive, CHANGE{UNUSED;
s.nothing_recorded = true;
}
}
, {Id::records_lost, V::not_trusted, V::trusted, V::trusted, V::not_trusted, CHANGE{UNUSED;
s.lost = 1;
}
}
, {Id::records_distrusted, V::not_trusted, V::trusted, V::trusted, V::not_trusted, CHANGE{UNUSED;
s.distrusted = 1;
}
}
,
    // Timing does not decide the overall verdict of a probe that claims no time ...
    {Id::time_within, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
}
}
, {Id::time_exceeds, V::trusted, V::not_trusted, V::trusted, V::trusted, CHANGE{UNUSED;
t.interval = {1.06, 1.07};
}
}
, {Id::time_dense, V::trusted, V::not_trusted, V::trusted, V::trusted, CHANGE{UNUSED;
t.dense = true;
}
}
,
    // ... and does where the probe's product is time.
    {Id::time_exceeds, V::trusted, V::not_trusted, V::trusted, V::not_trusted, CHANGE{UNUSED;
t.claims_time = true;
t.interval = {1.0501, 1.07};
}
}
, {Id::time_faster, V::trusted, V::not_trusted, V::trusted, V::not_trusted, CHANGE{UNUSED;
t.claims_time = true;
t.interval = {0.90, 0.95};
}
}
, {Id::time_straddles, V::trusted, V::inconclusive, V::trusted, V::inconclusive, CHANGE{UNUSED;
t.claims_time = true;
t.interval = {1.04, 1.0501};
}
}
, {Id::time_straddles, V::trusted, V::inconclusive, V::trusted, V::inconclusive, CHANGE{UNUSED;
t.claims_time = true;
t.interval = {0.95, 1.01};
}
}
, {Id::time_within, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
t.claims_time = true;
t.interval = {1 / 1.05, 1.05};
}
}
, {Id::time_few_rounds, V::trusted, V::inconclusive, V::trusted, V::inconclusive, CHANGE{UNUSED;
t.claims_time = true;
t.rounds = 4;
}
}
, {Id::time_few_rounds, V::trusted, V::inconclusive, V::trusted, V::inconclusive, CHANGE{UNUSED;
t.claims_time = true;
t.interval = {-HUGE_VAL, HUGE_VAL};
}
}
, {Id::time_noise_floor, V::trusted, V::inconclusive, V::trusted, V::inconclusive, CHANGE{UNUSED;
t.claims_time = true;
t.noise_floor = 0.06;
}
}
, {Id::time_one_process, V::trusted, V::inconclusive, V::trusted, V::inconclusive, CHANGE{UNUSED;
t.claims_time = true;
t.processes = 1;
}
}
, {Id::time_coarse, V::trusted, V::inconclusive, V::trusted, V::inconclusive, CHANGE{UNUSED;
t.claims_time = true;
t.sample_ticks = 99;
}
}
, {Id::time_throttled, V::trusted, V::inconclusive, V::trusted, V::inconclusive, CHANGE{UNUSED;
t.claims_time = true;
t.throttled = 13;
}
}
, {Id::time_clock_fell, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
t.throttled = 12;
}
}
, {Id::time_below_floor, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
t.ratio = 1.003;
}
}
, {Id::time_no_floor, V::trusted, V::inconclusive, V::trusted, V::inconclusive, CHANGE{UNUSED;
t.claims_time = true;
t.noise_floor.reset();
}
}
, {Id::time_modelled, V::trusted, V::inconclusive, V::trusted, V::inconclusive, CHANGE{UNUSED;
t.claims_time = true;
t.measured = false;
}
}
, {Id::time_drift, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
t.drift = 0.03;
}
}
, {Id::time_bimodal, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
t.bimodal = true;
}
}
, {Id::time_outliers, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
t.outliers = 2;
}
}
, {Id::time_unconverged, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
t.intervals = 16;
t.unconverged = 2;
}
}
, {Id::space_same, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
p.ctas_per_sm_after = 9;
}
}
, {Id::space_occupancy, V::trusted, V::trusted, V::not_trusted, V::not_trusted, CHANGE{UNUSED;
p.ctas_per_sm_after = 7;
}
}
, {Id::space_local, V::trusted, V::trusted, V::not_trusted, V::not_trusted, CHANGE{UNUSED;
p.local_bytes_after = 16;
}
}
, {Id::space_spilled, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
p.local_bytes_after = 16;
p.spills = 2;
p.spill_bytes = 16;
}
}
, {Id::space_local, V::trusted, V::trusted, V::not_trusted, V::not_trusted, CHANGE{UNUSED;
p.local_bytes_after = 16;   // more than the spills account for
p.spills = 2;
p.spill_bytes = 8;
}
}
, {Id::path_groups, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
s.groups_text = "function fib";
}
}
, {Id::clocks_repeated, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
s.repeated_text = "1 violation";
}
}
, {Id::space_unknown, V::trusted, V::trusted, V::inconclusive, V::inconclusive, CHANGE{UNUSED;
p.ctas_per_sm_before = 0;
}
}
, {Id::space_registers, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
p.registers_after = 40;
}
}
, {Id::space_shared, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
p.shared_bytes_after = 40;
}
}
, {Id::space_code, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
p.code_bytes_after = 4096;
}
}
, {Id::space_traffic, V::trusted, V::trusted, V::trusted, V::trusted, CHANGE{UNUSED;
p.kernel_bytes = 10;
p.trace_bytes = 11;
}
}
,
}
;

TEST(Verdict, TruthTable) {
  for (size_t i = 0; i < std::size(cases); ++i) {
    const Case& c = cases[i];
    SCOPED_TRACE(::testing::Message() << "case " << i << ": " << reason_info(c.reason).code);
    SemanticEvidence s = good_semantics();
    TimingEvidence t = good_timing();
    SpatialEvidence p = good_space();
    c.change(s, t, p);
    const Judgement j = judge(s, t, p);
    EXPECT_EQ(j.semantics, c.semantics);
    EXPECT_EQ(j.timing, c.timing);
    EXPECT_EQ(j.space, c.space);
    EXPECT_EQ(j.overall, c.overall);
    EXPECT_TRUE(j.has(c.reason));
  }
}

TEST(Verdict, EveryReasonHasACaseAndCanBeExplained) {
  std::set<Id> tested;
  for (const Case& c : cases) tested.insert(c.reason);
  std::set<std::string_view> codes;
  for (const ReasonInfo& r : all_reasons()) {
    EXPECT_TRUE(tested.count(r.id)) << r.code;
    EXPECT_TRUE(codes.insert(r.code).second) << r.code << " stands twice";
    EXPECT_EQ(find_reason(r.code), &r);
    EXPECT_EQ(&reason_info(r.id), &r);
    EXPECT_THAT(explain(r), HasSubstr(std::string(r.meaning)));
    if (r.effect == Effect::doubt || r.effect == Effect::refute) {
      EXPECT_FALSE(r.advice.empty()) << r.code;
    }
  }
  EXPECT_EQ(find_reason("no-such-code"), nullptr);
}

TEST(Verdict, NothingKnownIsInconclusive) {
  const Judgement j = judge({}, std::nullopt, std::nullopt);
  EXPECT_EQ(j.semantics, V::inconclusive);
  EXPECT_EQ(j.timing, V::inconclusive);
  EXPECT_EQ(j.space, V::inconclusive);
  EXPECT_EQ(j.overall, V::inconclusive);
}

TEST(Verdict, ARefutationOutweighsAnyDoubt) {
  SemanticEvidence s;  // nothing compared ...
  s.lost = 1;          // ... but a record is lost
  EXPECT_EQ(judge(s, std::nullopt, std::nullopt).semantics, V::not_trusted);
}

TEST(Verdict, PairProbeNeedsNoPath) {
  SemanticEvidence s = good_semantics();
  s.path = PathMatch::not_applicable;
  s.invariants = Invariants::not_applicable;
  EXPECT_EQ(judge(s, good_timing(), good_space()).semantics, V::trusted);
}

TEST(Verdict, ReasonsCarryTheirNumbersInTableOrder) {
  TimingEvidence t = good_timing();
  const Judgement j = judge(good_semantics(), t, good_space(), 1.02);
  for (size_t i = 1; i < j.reasons.size(); ++i) EXPECT_LT(j.reasons[i - 1].id, j.reasons[i].id);
  bool seen = false;
  for (const Reason& r : j.reasons)
    if (r.id == Id::time_within) {
      EXPECT_EQ(r.numbers, "ratio 1.0100 [1.0050, 1.0150], budget 1.020; 50 rounds in 5 processes, which differ by 0.00 %");
      seen = true;
    }
  EXPECT_TRUE(seen);
}

TEST(Verdict, NothingIsClaimedBelowTheFloor) {
  TimingEvidence t = good_timing();
  t.interval = {1.06, 1.08};
  t.noise_floor = 0.07;   // clean against clean reaches further than the lower end
  const Judgement j = judge(good_semantics(), t, good_space());
  EXPECT_EQ(j.timing, V::inconclusive);
  EXPECT_TRUE(j.has(Id::time_noise_floor));
  EXPECT_FALSE(j.has(Id::time_exceeds));
}

TEST(Verdict, NoiseCanNotSaveWhatIsClearlyOutside) {
  TimingEvidence t = good_timing();
  t.interval = {1.5, 1.6};
  t.noise_floor = 0.2;
  EXPECT_EQ(judge(good_semantics(), t, good_space()).timing, V::not_trusted);
}

TEST(Verdict, ExitStatusAndOrder) {
  EXPECT_EQ(exit_status(V::trusted), 0);
  EXPECT_EQ(exit_status(V::not_trusted), 1);
  EXPECT_EQ(exit_status(V::inconclusive), 2);
  EXPECT_EQ(worst(V::trusted, V::inconclusive), V::inconclusive);
  EXPECT_EQ(worst(V::not_trusted, V::inconclusive), V::not_trusted);
  const V list[] = {V::trusted, V::not_trusted, V::inconclusive};
  EXPECT_EQ(worst_of(list), V::not_trusted);
  EXPECT_EQ(worst_of({}), V::inconclusive);
}

TEST(Verdict, TimingEvidenceFromStatistics) {
  TimingStats stats;
  stats.noise_floor = 0.01;
  stats.clean.drift = 0.02;
  stats.clean.outliers = 1;
  VariantTiming v;
  v.estimate.rounds = 30;
  v.estimate.processes = 4;
  v.estimate.ratio = 1.1;
  v.estimate.interval = {1.0, 1.2};
  v.pairs = 32;
  v.throttled = 2;
  v.samples.bimodal = true;
  v.samples.outliers = 2;
  const TimingEvidence e = timing_evidence(stats, v);
  EXPECT_TRUE(e.measured);
  EXPECT_EQ(e.rounds, 30u);
  EXPECT_EQ(e.processes, 4u);
  EXPECT_EQ(e.pairs, 32u);
  EXPECT_EQ(e.throttled, 2u);
  EXPECT_EQ(e.interval, (Interval{1.0, 1.2}));
  EXPECT_EQ(e.noise_floor, 0.01);
  EXPECT_EQ(e.drift, 0.02);
  EXPECT_TRUE(e.bimodal);
  EXPECT_EQ(e.outliers, 3u);
}

}  // namespace
}  // namespace xtrace::diff
