#include "diff/timing_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace xtrace::diff {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// splitmix64: small, and the same on every machine.
struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((next() >> 32) * n >> 32); }
};

// Linear interpolation between the order statistics around q (n - 1).
double quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto i = static_cast<size_t>(at);
  if (i + 1 >= sorted.size()) return sorted.back();
  return sorted[i] + (at - static_cast<double>(i)) * (sorted[i + 1] - sorted[i]);
}
double median_of(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return quantile(v, 0.5);
}

double drift_of(const std::vector<double>& v) {
  if (v.size() < 2 * least_rounds) return 0;
  const auto half = static_cast<ptrdiff_t>(v.size() / 2);
  const std::vector<double> first(v.begin(), v.begin() + half), second(v.begin() + half, v.end());
  const double a = median_of(first), b = median_of(second);
  // Median absolute deviation within each half; 1.4826 makes it a standard deviation, 1.2533 that of a
  // median.
  std::vector<double> deviations;
  for (double x : first) deviations.push_back(std::abs(x - a));
  for (double x : second) deviations.push_back(std::abs(x - b));
  const double error = 1.2533 * 1.4826 * median_of(deviations) * std::sqrt(2.0 / static_cast<double>(half));
  const double drift = b / a - 1;
  return std::abs(drift) > 0.01 && std::abs(b - a) > 3 * error ? drift : 0;
}

// The split of the sorted samples with the largest variance between its two sides (Otsu).
void find_modes(const std::vector<double>& sorted, SampleStats& s) {
  const size_t n = sorted.size();
  const size_t least = std::max<size_t>(3, (n + 9) / 10);
  if (n < 2 * least) return;
  std::vector<double> sum(n + 1, 0), square(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    const double x = sorted[i] - s.median;
    sum[i + 1] = sum[i] + x;
    square[i + 1] = square[i] + x * x;
  }
  double best = -1;
  size_t split = 0;
  for (size_t k = least; k + least <= n; ++k) {
    const double a = sum[k] / static_cast<double>(k), b = (sum[n] - sum[k]) / static_cast<double>(n - k);
    const double between = (b - a) * (b - a) * static_cast<double>(k) * static_cast<double>(n - k);
    if (between > best) {
      best = between;
      split = k;
    }
  }
  const auto k = static_cast<double>(split), rest = static_cast<double>(n - split);
  const double a = sum[split] / k, b = (sum[n] - sum[split]) / rest;
  const double within =
      (square[split] - k * a * a + (square[n] - square[split]) - rest * b * b) / static_cast<double>(n);
  const double deviation = std::sqrt(std::max(0.0, within));
  // A split of one normal distribution in the middle gives 2.6 deviations, of a uniform one 3.5 (up to 4.5 by
  // chance in 40 samples).
  if (b - a <= 5 * deviation || b - a <= 0.01 * s.median) return;
  s.bimodal = true;
  s.low_mode = s.median + a;
  s.high_mode = s.median + b;
}

}  // namespace

bool Interval::finite() const { return std::isfinite(low) && std::isfinite(high); }

SampleStats sample_stats(const std::vector<double>& v) {
  SampleStats s;
  s.count = v.size();
  if (v.empty()) return s;
  std::vector<double> sorted = v;
  std::sort(sorted.begin(), sorted.end());
  s.min = sorted.front();
  s.q1 = quantile(sorted, 0.25);
  s.median = quantile(sorted, 0.5);
  s.q3 = quantile(sorted, 0.75);
  s.max = sorted.back();
  s.mean = std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  const double reach = 3 * (s.q3 - s.q1);
  if (v.size() >= least_rounds)
    s.outliers = static_cast<uint64_t>(
        std::count_if(v.begin(), v.end(), [&](double x) { return x < s.q1 - reach || x > s.q3 + reach; }));
  s.drift = drift_of(v);
  find_modes(sorted, s);
  return s;
}

VariantTiming compare_variant(std::string name, const std::vector<double>& clean,
                              const std::vector<double>& variant, const TimingOptions& options) {
  XT_CHECK(clean.size() == variant.size(), "samples of a round come in pairs");
  XT_CHECK(options.resamples >= 100, "a 95 % interval needs at least 100 resamples");
  VariantTiming t;
  t.name = std::move(name);
  t.samples = sample_stats(variant);
  t.rounds = clean.size();
  t.interval = {-infinity, infinity};
  if (clean.empty()) return t;

  std::vector<double> ratios(clean.size());
  for (size_t i = 0; i < clean.size(); ++i) ratios[i] = variant[i] / clean[i];
  std::sort(ratios.begin(), ratios.end());
  t.ratio = quantile(ratios, 0.5);
  if (t.rounds < least_rounds) return t;

  // The median of a resample depends only on the ranks drawn.
  Random random{options.seed};
  const auto n = static_cast<uint32_t>(ratios.size());
  std::vector<uint32_t> drawn(n);
  std::vector<double> medians(options.resamples);
  for (double& m : medians) {
    for (uint32_t& d : drawn) d = random.below(n);
    const auto middle = drawn.begin() + n / 2;
    std::nth_element(drawn.begin(), middle, drawn.end());
    m = ratios[*middle];
    if (n % 2 == 0) m = (m + ratios[*std::max_element(drawn.begin(), middle)]) / 2;
  }
  std::sort(medians.begin(), medians.end());
  t.interval = {quantile(medians, 0.025), quantile(medians, 0.975)};
  return t;
}

Result<TimingStats> timing_stats(const InterleavedSamples& samples, const TimingOptions& options) {
  auto check = [&](const VariantSamples& v) -> Status {
    if (v.microseconds.size() != samples.clean.microseconds.size())
      return bad_input("timing samples: '{}' has {} rounds, the clean kernel {}", v.name,
                       v.microseconds.size(), samples.clean.microseconds.size());
    for (size_t i = 0; i < v.microseconds.size(); ++i)
      if (!std::isfinite(v.microseconds[i]) || v.microseconds[i] <= 0)
        return bad_input("timing samples: '{}' took {} us in round {}: expected a positive time", v.name,
                         v.microseconds[i], i);
    return {};
  };
  XT_TRY_STATUS(check(samples.clean));
  TimingStats stats;
  stats.clean = sample_stats(samples.clean.microseconds);
  for (const VariantSamples& v : samples.variants) {
    XT_TRY_STATUS(check(v));
    VariantTiming t = compare_variant(v.name, samples.clean.microseconds, v.microseconds, options);
    if (v.name == clean_again_name) {
      if (t.interval.finite())
        stats.noise_floor = std::max(std::abs(t.interval.low - 1), std::abs(t.interval.high - 1));
      stats.clean_again = std::move(t);
    } else {
      stats.variants.push_back(std::move(t));
    }
  }
  return stats;
}

}  // namespace xtrace::diff
