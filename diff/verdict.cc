#include "diff/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status.h"

namespace xtrace::diff {
namespace {

constexpr ReasonInfo table[] = {
#define XTRACE_REASON(id, code, aspect, effect, meaning, computed, advice) \
  {ReasonId::id, code, Aspect::aspect, Effect::effect, meaning, computed, advice},
#include "diff/reasons.def"
#undef XTRACE_REASON
};

class Reasons {
 public:
  template <typename... A>
  void add(ReasonId id, fmt::format_string<A...> f, A&&... args) {
    reasons_.push_back({id, fmt::format(f, std::forward<A>(args)...)});
  }
  void add(ReasonId id) { reasons_.push_back({id, {}}); }

  bool has(ReasonId id) const {
    return std::any_of(reasons_.begin(), reasons_.end(), [&](const Reason& r) { return r.id == id; });
  }
  // `needed`: groups of supports, one of each group must be there.
  Verdict of(Aspect aspect, std::span<const std::vector<ReasonId>> needed) const {
    bool doubt = false;
    for (const Reason& r : reasons_) {
      if (r.info().aspect != aspect) continue;
      if (r.info().effect == Effect::refute) return Verdict::not_trusted;
      doubt |= r.info().effect == Effect::doubt;
    }
    if (doubt) return Verdict::inconclusive;
    for (const std::vector<ReasonId>& group : needed)
      if (std::none_of(group.begin(), group.end(), [&](ReasonId id) { return has(id); }))
        return Verdict::inconclusive;
    return Verdict::trusted;
  }
  std::vector<Reason> take() {
    std::stable_sort(reasons_.begin(), reasons_.end(),
                     [](const Reason& a, const Reason& b) { return a.id < b.id; });
    return std::move(reasons_);
  }

 private:
  std::vector<Reason> reasons_;
};

Verdict judge_semantics(const SemanticEvidence& e, Reasons& r) {
  using Id = ReasonId;
  std::vector<std::vector<Id>> needed{{Id::output_equal, Id::output_unstable}, {Id::replay_faithful}};
  if (!e.completed) r.add(Id::launch_failed, "{}", e.failure);
  switch (e.output) {
    case OutputMatch::not_compared:
      r.add(Id::output_not_compared);
      break;
    case OutputMatch::equal:
      r.add(Id::output_equal, "{} bytes written", e.written_bytes);
      break;
    case OutputMatch::unstable_only:
      r.add(Id::output_unstable, "{}", e.output_text);
      break;
    case OutputMatch::unsettled:
      r.add(Id::output_unsettled, "{}", e.output_text);
      break;
    case OutputMatch::diverged:
      r.add(e.clean_replays < 2 ? Id::output_diverged_unproven : Id::output_diverged, "{}", e.output_text);
      break;
  }
  if (e.written_bytes != 0 && e.written_stable_bytes == 0)
    r.add(Id::output_all_unstable, "{} bytes written, none of them stable", e.written_bytes);
  switch (e.clean_against_recorded) {
    case OutputMatch::not_compared:
      r.add(Id::replay_not_compared);
      break;
    case OutputMatch::equal:
    case OutputMatch::unstable_only:
      r.add(Id::replay_faithful, "{}", e.clean_against_recorded_text);
      break;
    case OutputMatch::unsettled:
      r.add(Id::replay_unsettled, "{}", e.clean_against_recorded_text);
      break;
    case OutputMatch::diverged:
      r.add(e.clean_replays < 2 ? Id::replay_diverged_unproven : Id::replay_diverged, "{}",
            e.clean_against_recorded_text);
      break;
  }
  switch (e.path) {
    case PathMatch::not_compared:
      r.add(Id::path_not_compared);
      break;
    case PathMatch::equal:
      r.add(Id::path_equal, "{}", e.path_text);
      break;
    case PathMatch::waited:
      r.add(Id::path_waited, "{}", e.path_text);
      break;
    case PathMatch::differs:
      r.add(Id::path_differs, "{}", e.path_text);
      break;
    case PathMatch::unstable:
      r.add(Id::path_unstable, "{}", e.path_text);
      break;
    case PathMatch::not_applicable:
      break;
  }
  if (e.path != PathMatch::not_applicable) needed.push_back({Id::path_equal, Id::path_waited});
  if (!e.groups_text.empty()) r.add(Id::path_groups, "{}", e.groups_text);
  if (!e.repeated_text.empty()) r.add(Id::clocks_repeated, "{}", e.repeated_text);
  switch (e.invariants) {
    case Invariants::not_checked:
      r.add(Id::invariants_not_checked);
      break;
    case Invariants::hold:
      r.add(Id::invariants_hold, "{}", e.invariants_text);
      break;
    case Invariants::violated:
      r.add(Id::invariants_violated, "{} violations, first: {}", e.invariant_violations, e.invariants_text);
      break;
    case Invariants::not_applicable:
      break;
  }
  if (e.invariants != Invariants::not_applicable) needed.push_back({Id::invariants_hold});
  if (e.nothing_recorded) r.add(Id::nothing_recorded);
  if (e.lost != 0) r.add(Id::records_lost, "{} losses: {}", e.lost, e.losses_text);
  if (e.distrusted != 0) r.add(Id::records_distrusted, "{} contradictions: {}", e.distrusted, e.losses_text);
  return r.of(Aspect::semantics, needed);
}

Verdict judge_timing(const TimingEvidence& e, double budget, Reasons& r) {
  using Id = ReasonId;
  if (e.dense) r.add(Id::time_dense);
  if (!e.measured) {
    r.add(Id::time_modelled);
  } else if (e.rounds < least_rounds || !e.interval.finite()) {
    r.add(Id::time_few_rounds, "{} rounds", e.rounds);
  } else {
    const double low = e.interval.low, high = e.interval.high, floor = e.noise_floor.value_or(0);
    // What lies clearly outside the budget, and outside of what clean against clean shows, is so in spite of the noise.
    const Id id = low > std::max(budget, 1 + floor)         ? Id::time_exceeds
                  : high < std::min(1 / budget, 1 - floor)  ? Id::time_faster
                  : high <= budget && low >= 1 / budget     ? Id::time_within
                                                            : Id::time_straddles;
    r.add(id, "ratio {:.4f} [{:.4f}, {:.4f}], budget {:.3f}; {} rounds in {} processes, which differ by {:.2f} %", e.ratio, low,
          high, budget, e.rounds, e.processes, 100 * e.process_spread);
    if (floor > budget - 1 && (id == Id::time_within || id == Id::time_straddles))
      r.add(Id::time_noise_floor, "clean against clean within {:.2f} %", 100 * floor);
    if (!e.noise_floor) r.add(Id::time_no_floor);
    if (e.processes < least_processes) r.add(Id::time_one_process);
    if (e.sample_ticks != 0 && e.sample_ticks < least_ticks)
      r.add(Id::time_coarse, "a sample lasts {:.0f} ticks", e.sample_ticks);
    const double left_out = static_cast<double>(e.throttled) / static_cast<double>(std::max<uint64_t>(e.pairs, 1));
    if (e.throttled != 0)
      r.add(left_out > throttled_share ? Id::time_throttled : Id::time_clock_fell, "{} of {} pairs left out", e.throttled, e.pairs);
    if (std::abs(e.ratio - 1) <= floor)
      r.add(Id::time_below_floor, "{:+.2f} %, floor {:.2f} %", 100 * (e.ratio - 1), 100 * floor);
    if (e.drift != 0) r.add(Id::time_drift, "{:+.1f} % from the first half to the second", 100 * e.drift);
    if (e.bimodal) r.add(Id::time_bimodal);
    if (e.outliers != 0) r.add(Id::time_outliers, "{} samples", e.outliers);
    if (e.unconverged != 0) r.add(Id::time_unconverged, "{} of {} intervals", e.unconverged, e.intervals);
  }
  const std::vector<Id> needed[] = {{Id::time_within}};
  return r.of(Aspect::timing, needed);
}

Verdict judge_space(const SpatialEvidence& e, Reasons& r) {
  using Id = ReasonId;
  const bool fewer = e.ctas_per_sm_after < e.ctas_per_sm_before;
  const uint32_t accounted = e.spills != 0 ? e.spill_bytes : 0;
  const bool local = e.local_bytes_after > e.local_bytes_before + accounted;
  const bool counted = e.ctas_per_sm_before != 0 && e.ctas_per_sm_after != 0;
  if (!counted) r.add(Id::space_unknown);
  if (counted && fewer)
    r.add(Id::space_occupancy, "{} -> {} CTAs per SM", e.ctas_per_sm_before, e.ctas_per_sm_after);
  if (local) r.add(Id::space_local, "{} -> {} bytes per thread", e.local_bytes_before, e.local_bytes_after);
  if (counted && !fewer && !local) r.add(Id::space_same, "{} CTAs per SM", e.ctas_per_sm_after);
  if (e.spills != 0)
    r.add(Id::space_spilled, "{} -> {} bytes per thread, for a register at {} places", e.local_bytes_before, e.local_bytes_after, e.spills);
  if (e.registers_after > e.registers_before)
    r.add(Id::space_registers, "{} -> {}", e.registers_before, e.registers_after);
  if (e.shared_bytes_after > e.shared_bytes_before)
    r.add(Id::space_shared, "{} -> {} bytes", e.shared_bytes_before, e.shared_bytes_after);
  if (e.code_bytes_after > e.code_bytes_before)
    r.add(Id::space_code, "{} -> {} bytes", e.code_bytes_before, e.code_bytes_after);
  if (e.kernel_bytes != 0 && e.trace_bytes > e.kernel_bytes)
    r.add(Id::space_traffic, "{} bytes of records, {} bytes of the kernel's memory", e.trace_bytes,
          e.kernel_bytes);
  const std::vector<Id> needed[] = {{Id::space_same}};
  return r.of(Aspect::space, needed);
}

}  // namespace

std::string_view name_of(Verdict v) {
  switch (v) {
    case Verdict::trusted:
      return "trusted";
    case Verdict::inconclusive:
      return "inconclusive";
    case Verdict::not_trusted:
      return "not trusted";
  }
  return "inconclusive";
}
int exit_status(Verdict v) {
  switch (v) {
    case Verdict::trusted:
      return exit_trusted;
    case Verdict::inconclusive:
      return exit_inconclusive;
    case Verdict::not_trusted:
      return exit_not_trusted;
  }
  return exit_inconclusive;
}
Verdict worst(Verdict a, Verdict b) { return std::max(a, b); }
std::string_view name_of(Aspect a) {
  constexpr std::string_view names[] = {"semantics", "timing", "space"};
  return names[static_cast<size_t>(a)];
}
std::string_view name_of(Effect e) {
  constexpr std::string_view names[] = {"support", "doubt", "refute", "note"};
  return names[static_cast<size_t>(e)];
}

std::span<const ReasonInfo> all_reasons() { return table; }
const ReasonInfo& reason_info(ReasonId id) { return table[static_cast<size_t>(id)]; }
const ReasonInfo* find_reason(std::string_view code) {
  for (const ReasonInfo& r : table)
    if (r.code == code) return &r;
  return nullptr;
}

std::string explain(const ReasonInfo& r) {
  std::string s = fmt::format("{}  ({}, {})\n\n  {}\n\n  computed: {}\n", r.code, name_of(r.aspect),
                              name_of(r.effect), r.meaning, r.computed);
  if (!r.advice.empty()) s += fmt::format("\n  what to do: {}\n", r.advice);
  return s;
}

TimingEvidence timing_evidence(const TimingStats& stats, const VariantTiming& v) {
  TimingEvidence e;
  e.measured = true;
  e.rounds = v.estimate.rounds;
  e.processes = v.estimate.processes;
  e.process_spread = v.estimate.process_spread;
  e.ratio = v.estimate.ratio;
  e.interval = v.estimate.interval;
  e.pairs = v.pairs;
  e.throttled = v.throttled;
  e.noise_floor = stats.noise_floor;
  e.drift = stats.clean.drift;
  e.bimodal = stats.clean.bimodal || v.samples.bimodal;
  e.outliers = stats.clean.outliers + v.samples.outliers;
  return e;
}

bool Judgement::has(ReasonId id) const {
  return std::any_of(reasons.begin(), reasons.end(), [&](const Reason& r) { return r.id == id; });
}

Judgement judge(const SemanticEvidence& semantics, const std::optional<TimingEvidence>& timing,
                const std::optional<SpatialEvidence>& space, double budget) {
  XT_CHECK(budget >= 1, "a budget is a ratio of at least 1");
  Reasons reasons;
  Judgement j;
  j.semantics = judge_semantics(semantics, reasons);
  if (timing) j.timing = judge_timing(*timing, budget, reasons);
  if (space) j.space = judge_space(*space, reasons);
  j.overall = worst(j.semantics, j.space);
  if (timing && timing->claims_time) j.overall = worst(j.overall, j.timing);
  j.reasons = reasons.take();
  return j;
}

Verdict worst_of(std::span<const Verdict> verdicts) {
  if (verdicts.empty()) return Verdict::inconclusive;
  return *std::max_element(verdicts.begin(), verdicts.end());
}

}  // namespace xtrace::diff
