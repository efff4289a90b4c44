// What was observed about one instrumented replay: plain facts, filled by the replay command. No opinion is
// in here; the opinions are in verdict.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "diff/timing_stats.h"

namespace xtrace::diff {

// unsettled: bytes differ in which no two clean replays did, in a region in which clean replays do differ, fewer than theirs, and
// the kernel adds floating-point numbers in memory.
enum class OutputMatch : uint8_t { not_compared, equal, unstable_only, unsettled, diverged };
enum class PathMatch : uint8_t {
  not_compared,
  equal,
  differs,         // and the counting replays agree with each other
  unstable,        // differs, as do the counting replays
  waited,          // different only in how often warps looked whether others are there
  not_applicable,  // the probe records no path (pair, none)
};
enum class Invariants : uint8_t { not_checked, hold, violated, not_applicable };

struct SemanticEvidence {
  bool completed = true;
  std::string failure;                             // when not completed: the driver's words
  OutputMatch output = OutputMatch::not_compared;  // instrumented against clean replay
  std::string output_text;                         // first divergence
  OutputMatch clean_against_recorded = OutputMatch::not_compared;
  std::string clean_against_recorded_text;
  uint32_t clean_replays = 0;         // that the unstable mask was made from
  uint64_t written_bytes = 0;         // that the clean replay changes
  uint64_t written_stable_bytes = 0;  // of them outside the unstable mask
  PathMatch path = PathMatch::not_compared;
  std::string path_text;
  std::string groups_text;            // lanes may have come in other groups than in the clean kernel: where
  std::string repeated_text;          // why this is not the first replay of its kind; empty: it is
  Invariants invariants = Invariants::not_checked;
  uint64_t invariant_violations = 0;
  std::string invariants_text;
  bool nothing_recorded = false;      // of a sample that may hold no warp: by SM
  uint64_t lost = 0, distrusted = 0;  // events, by the decoder
  std::string losses_text;
};

struct TimingEvidence {
  bool measured = false;     // on hardware
  bool dense = false;        // a clock at every instruction
  bool claims_time = false;  // the probe's product is time (pair)
  uint64_t rounds = 0;                // in all processes
  uint32_t processes = 0;
  double process_spread = 0;          // RatioEstimate
  double ratio = 0;                   // to the clean kernel
  Interval interval;                  // of the ratio, 95 %
  std::optional<double> noise_floor;  // A/A
  uint64_t pairs = 0, throttled = 0;  // measured; of them left out because the SM clock fell
  double sample_ticks = 0;            // steps of the event clock that the shortest sample lasts; 0 = not known
  double drift = 0;                   // of the clean samples
  bool bimodal = false;               // clean or variant samples
  uint64_t outliers = 0;              // clean and variant samples
  uint64_t intervals = 0, unconverged = 0;   // pair: that were estimated; of them without an answer that holds at half the rate
};
// From the statistics of one variant.
TimingEvidence timing_evidence(const TimingStats& stats, const VariantTiming& variant);

struct SpatialEvidence {
  uint32_t registers_before = 0, registers_after = 0;
  uint32_t ctas_per_sm_before = 0, ctas_per_sm_after = 0;  // 0 = not known
  uint32_t local_bytes_before = 0, local_bytes_after = 0;  // per thread
  uint32_t spills = 0, spill_bytes = 0;  // places where a register of the kernel is saved there; bytes per thread that this accounts for
  uint32_t shared_bytes_before = 0, shared_bytes_after = 0;
  uint64_t code_bytes_before = 0, code_bytes_after = 0;
  uint64_t trace_bytes = 0;   // written by one launch
  bool whole_sectors = false; // its records fill sectors of memory
  uint64_t kernel_bytes = 0;  // of the regions the launch touches; 0 = not known
};

}  // namespace xtrace::diff
