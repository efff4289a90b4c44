// How much longer a variant of a kernel takes than the clean one: a ratio with a confidence interval, and
// what makes it doubtful. Samples are paired by round, so a clock that drifts hits both sides of a pair.
#pragma once

#include <cstdint>
#include <optional>
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

struct VariantTiming {
  std::string name;
  SampleStats samples;
  uint64_t rounds = 0;  // pairs used
  double ratio = 0;     // median over rounds of variant / clean; 0 without pairs
  Interval interval;    // 95 %, percentile bootstrap over rounds; infinite below `least_rounds`
};

struct TimingStats {
  SampleStats clean;
  std::vector<VariantTiming> variants;
  // The ratio of a second clean variant to the clean one: what this measurement shows where there is nothing.
  std::optional<VariantTiming> clean_again;
  // Half-width of that ratio's interval around 1: max(|low - 1|, |high - 1|).
  std::optional<double> noise_floor;
};

constexpr uint64_t least_rounds = 5;
// A variant with this name is the clean code once more (A/A).
constexpr std::string_view clean_again_name = "clean-again";

struct TimingOptions {
  uint32_t resamples = 10'000;
  uint64_t seed = 1;  // the same samples and seed give the same interval, bit by bit
};

SampleStats sample_stats(const std::vector<double>& microseconds);
// Median of ratios and its interval; `clean` and `variant` hold one sample a round.
VariantTiming compare_variant(std::string name, const std::vector<double>& clean,
                              const std::vector<double>& variant, const TimingOptions& options = {});
// bad_input for samples that are not finite and positive, and for variants with another number of samples
// than clean.
Result<TimingStats> timing_stats(const InterleavedSamples& samples, const TimingOptions& options = {});

}  // namespace xtrace::diff
