// How much longer a variant of a kernel takes than the clean one: a ratio with a confidence interval, and
// what makes it doubtful (docs/trust.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "diff/samples.h"

namespace xtrace::diff {

struct Interval {
  double low = 0, high = 0;  // low = -inf and high = +inf when nothing can be said
  bool finite() const;
  bool operator==(const Interval&) const = default;
};

// One column of samples, microseconds.
struct SampleStats {
  uint64_t count = 0;
  double min = 0, q1 = 0, median = 0, q3 = 0, max = 0, mean = 0;
  uint64_t outliers = 0;  // outside [q1 - 3 IQR, q3 + 3 IQR]: reported, never removed
  // Median of the second half over median of the first half, minus 1, when that is more than 1 % and more
  // than chance (three standard errors of a difference of medians); else 0.
  double drift = 0;
  // Two groups of at least 10 % (and 3 samples) each, whose means lie more than five within-group deviations
  // and more than 1 % apart.
  bool bimodal = false;
  double low_mode = 0, high_mode = 0;  // their means, when bimodal
};
SampleStats sample_stats(const std::vector<double>& microseconds);

// Fixed beforehand, so that no result can choose them.
constexpr uint64_t least_rounds = 5;          // rounds, in all processes together, below which there is no interval
constexpr uint32_t least_processes = 2;       // below which there is no verdict
constexpr double verdict_confidence = 0.95;
// An earlier look decides only at this confidence; with the last look's 95 % the chance of an error stays below 6 %, whatever
// the number of looks (Haybittle, Peto).
constexpr double early_confidence = 0.999;
constexpr double least_ticks = 100;           // of the event clock, that a sample must last
// A pair is left out when the SM clock of either sample lies more than this below the 90th percentile of its process.
constexpr double throttle_drop = 0.03;
// More pairs left out than this share: the machine throttles, and what is left may not be what was meant.
constexpr double throttled_share = 0.25;

// A ratio variant / clean of each round, by process.
using RatioBlocks = std::vector<std::vector<double>>;

struct RatioEstimate {
  double ratio = 0;         // geometric mean over processes of each one's median; 0 without rounds
  Interval interval;        // infinite below `least_rounds` rounds
  uint64_t rounds = 0;
  uint32_t processes = 0;
  // Standard deviation of the processes' medians, as a ratio minus 1: what the placement of code and data, and chance, do.
  double process_spread = 0;
};

struct TimingOptions {
  double confidence = verdict_confidence;  // or early_confidence
  uint32_t resamples = 10'000;
  uint64_t seed = 1;  // the same samples and seed give the same interval, bit by bit
};

// Hierarchical bootstrap: processes are drawn, and rounds in each of them. The part of the processes is widened for their small
// number n, by sqrt(n / (n - 1)) t(n - 1) / z. With one process the interval covers that process only.
RatioEstimate estimate_ratio(const RatioBlocks& blocks, const TimingOptions& options = {});

struct VariantTiming {
  std::string name;
  SampleStats samples;       // the variant's own
  RatioEstimate estimate;
  uint64_t throttled = 0;    // pairs left out
  uint64_t pairs = 0;        // measured, those left out included
  // What the second sample of a pair takes more than the first, whichever code it is, minus 1: where the order matters, and why
  // each order is taken as often as the other.
  double order_effect = 0;
};

struct TimingStats {
  SampleStats clean;
  double clean_mhz = 0;      // median SM clock of the clean samples; 0 = not read
  std::vector<VariantTiming> variants;
  // The clean code once more, through the same machinery: what it shows where there is nothing.
  std::optional<VariantTiming> clean_again;
  // max(|low - 1|, |high - 1|) of its interval. No claim is made about less.
  std::optional<double> noise_floor;
};

// What may be said of a variant: nothing unless the whole interval lies on one side of 1, and the ratio outside of what clean
// against clean shows.
enum class Claim : uint8_t { none, slower, faster };
Claim claim_of(const RatioEstimate& estimate, double noise_floor);

// A variant with this name is the clean code once more (A/A).
constexpr std::string_view clean_again_name = "clean-again";

// Variants that are judged as one: of each round the median of their ratios. `members`: indices of variants.
struct VariantGroup {
  std::string name;
  std::vector<size_t> members;
};
// Each variant by itself.
std::vector<VariantGroup> one_by_one(std::span<const VariantPairs> variants);

// bad_input for samples that are not finite and positive.
Result<TimingStats> timing_stats(std::span<const VariantPairs> variants, std::span<const VariantGroup> groups,
                                 const TimingOptions& options = {});

}  // namespace xtrace::diff
