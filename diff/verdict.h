// From evidence to a verdict (docs/trust.md). Every aspect starts at inconclusive and moves only by reasons
// of reasons.def: one that refutes makes it not trusted, one that doubts keeps it inconclusive, and it is
// trusted when all supports it needs are there and nothing speaks against it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diff/evidence.h"

namespace xtrace::diff {

// Worse is larger: the overall verdict is the largest of the aspects that count.
enum class Verdict : uint8_t { trusted, inconclusive, not_trusted };
std::string_view name_of(Verdict v);  // "trusted", "inconclusive", "not trusted"
int exit_status(Verdict v);           // 0 trusted, 1 not trusted, 2 inconclusive
Verdict worst(Verdict a, Verdict b);

enum class Aspect : uint8_t { semantics, timing, space };
std::string_view name_of(Aspect a);
enum class Effect : uint8_t { support, doubt, refute, note };
std::string_view name_of(Effect e);

enum class ReasonId : uint8_t {
#define XTRACE_REASON(id, code, aspect, effect, meaning, computed, advice) id,
#include "diff/reasons.def"
#undef XTRACE_REASON
};
struct ReasonInfo {
  ReasonId id;
  std::string_view code;
  Aspect aspect;
  Effect effect;
  std::string_view meaning, computed, advice;
};
std::span<const ReasonInfo> all_reasons();
const ReasonInfo& reason_info(ReasonId id);
const ReasonInfo* find_reason(std::string_view code);  // null when there is none
// What `xtrace explain CODE` prints.
std::string explain(const ReasonInfo& reason);

struct Reason {
  ReasonId id = ReasonId::launch_failed;
  std::string numbers;  // "ratio 1.012 [1.008, 1.017], budget 1.05"
  const ReasonInfo& info() const { return reason_info(id); }
};

// A ratio of whole-kernel times that a probe may cost and still be trusted for time.
constexpr double default_budget = 1.05;

struct Judgement {
  Verdict semantics = Verdict::inconclusive;
  Verdict timing = Verdict::inconclusive;
  Verdict space = Verdict::inconclusive;
  // The worst of semantics and space, and of timing for probes that claim time. A dense trace is never
  // trusted for time and can be trusted for order and counts: that is what its overall verdict says.
  Verdict overall = Verdict::inconclusive;
  std::vector<Reason> reasons;  // in the order of reasons.def
  bool has(ReasonId id) const;
};

// Without timing or spatial evidence (nullopt: not gathered) that aspect stays inconclusive.
Judgement judge(const SemanticEvidence& semantics, const std::optional<TimingEvidence>& timing,
                const std::optional<SpatialEvidence>& space, double budget = default_budget);

// Over the configurations of one launch, or the launches of a run: the worst; inconclusive when there is
// none.
Verdict worst_of(std::span<const Verdict> verdicts);

}  // namespace xtrace::diff
