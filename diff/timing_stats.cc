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

namespace {

// Quantile of Student's t with `df` degrees of freedom over the normal one, two-sided. Beyond the table its last row, which is
// larger.
double small_sample_factor(size_t df, double confidence) {
  constexpr double at_95[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  constexpr double at_999[] = {636.619, 31.599, 12.924, 8.610, 6.869, 5.959, 5.408, 5.041, 4.781, 4.587};
  const size_t row = std::min<size_t>(df, std::size(at_95)) - 1;
  return confidence > verdict_confidence ? at_999[row] / 3.291 : at_95[row] / 1.960;
}

// Medians of resamples of `sorted`, minus its median. The median of a resample depends only on the ranks drawn.
std::vector<double> bootstrap_medians(const std::vector<double>& sorted, size_t resamples, Random& random) {
  const auto n = static_cast<uint32_t>(sorted.size());
  const double median = quantile(sorted, 0.5);
  std::vector<uint32_t> drawn(n);
  std::vector<double> deviations(resamples);
  for (double& m : deviations) {
    for (uint32_t& d : drawn) d = random.below(n);
    const auto middle = drawn.begin() + n / 2;
    std::nth_element(drawn.begin(), middle, drawn.end());
    m = sorted[*middle];
    if (n % 2 == 0) m = (m + sorted[*std::max_element(drawn.begin(), middle)]) / 2;
    m -= median;
  }
  return deviations;
}

}  // namespace

RatioEstimate estimate_ratio(const RatioBlocks& blocks, const TimingOptions& options) {
  XT_CHECK(options.confidence == verdict_confidence || options.confidence == early_confidence, "a confidence of the table");
  XT_CHECK(options.resamples >= 5000, "a 99.9 % interval needs thousands of resamples");
  RatioEstimate e;
  e.interval = {-infinity, infinity};
  Random random{options.seed};
  constexpr size_t medians_each = 2000;
  std::vector<double> middle;                 // logarithms, by process
  std::vector<std::vector<double>> within;    // deviations from it
  for (const std::vector<double>& ratios : blocks) {
    if (ratios.empty()) continue;
    std::vector<double> logs;
    for (double r : ratios) logs.push_back(std::log(r));
    std::sort(logs.begin(), logs.end());
    middle.push_back(quantile(logs, 0.5));
    within.push_back(bootstrap_medians(logs, medians_each, random));
    e.rounds += logs.size();
  }
  e.processes = static_cast<uint32_t>(middle.size());
  if (middle.empty()) return e;
  const auto n = static_cast<double>(middle.size());
  const double mean = std::accumulate(middle.begin(), middle.end(), 0.0) / n;
  e.ratio = std::exp(mean);
  double widen = 0;
  if (middle.size() > 1) {
    double square = 0;
    for (double m : middle) square += (m - mean) * (m - mean);
    e.process_spread = std::sqrt(square / (n - 1));
    widen = std::sqrt(n / (n - 1)) * small_sample_factor(middle.size() - 1, options.confidence);
  }
  if (e.rounds < least_rounds) return e;
  std::vector<double> means(options.resamples);
  for (double& m : means) {
    double sum = 0;
    for (size_t k = 0; k < middle.size(); ++k) {
      const uint32_t p = random.below(static_cast<uint32_t>(middle.size()));
      sum += widen * (middle[p] - mean) + within[p][random.below(medians_each)];
    }
    m = mean + sum / n;
  }
  std::sort(means.begin(), means.end());
  const double tail = (1 - options.confidence) / 2;
  e.interval = {std::exp(quantile(means, tail)), std::exp(quantile(means, 1 - tail))};
  return e;
}

Claim claim_of(const RatioEstimate& e, double noise_floor) {
  if (e.interval.low > 1 && e.ratio > 1 + noise_floor) return Claim::slower;
  if (e.interval.high < 1 && e.ratio < 1 - noise_floor) return Claim::faster;
  return Claim::none;
}

std::vector<VariantGroup> one_by_one(std::span<const VariantPairs> variants) {
  std::vector<VariantGroup> groups;
  for (size_t v = 0; v < variants.size(); ++v) groups.push_back({variants[v].name, {v}});
  return groups;
}

namespace {

double mhz_of(const Sample& s) { return s.cycles / s.microseconds; }

// SM clocks below this are throttled, by process; 0 where none was read.
std::vector<double> lowest_clocks(std::span<const VariantPairs> variants) {
  std::vector<std::vector<double>> clocks;
  for (const VariantPairs& v : variants) {
    clocks.resize(std::max(clocks.size(), v.processes.size()));
    for (size_t p = 0; p < v.processes.size(); ++p)
      for (const SamplePair& pair : v.processes[p])
        for (const Sample& s : {pair.clean, pair.variant})
          if (s.cycles > 0) clocks[p].push_back(mhz_of(s));
  }
  std::vector<double> lowest;
  for (std::vector<double>& c : clocks) {
    std::sort(c.begin(), c.end());
    lowest.push_back(c.empty() ? 0 : (1 - throttle_drop) * quantile(c, 0.9));
  }
  return lowest;
}
bool throttled(const SamplePair& pair, double lowest) {
  const auto below = [&](const Sample& s) { return s.cycles > 0 && mhz_of(s) < lowest; };
  return below(pair.clean) || below(pair.variant);
}

Status check(const VariantPairs& v) {
  for (size_t p = 0; p < v.processes.size(); ++p)
    for (size_t r = 0; r < v.processes[p].size(); ++r) {
      const SamplePair& pair = v.processes[p][r];
      for (const Sample& s : {pair.clean, pair.variant})
        if (!std::isfinite(s.microseconds) || s.microseconds <= 0 || !std::isfinite(s.cycles) || s.cycles < 0)
          return bad_input("timing samples: '{}' or the clean kernel beside it took {} us, {} cycles in round {} of process {}: "
                           "expected a positive time",
                           v.name, s.microseconds, s.cycles, r, p);
    }
  return {};
}

}  // namespace

Result<TimingStats> timing_stats(std::span<const VariantPairs> variants, std::span<const VariantGroup> groups,
                                 const TimingOptions& options) {
  for (const VariantPairs& v : variants) XT_TRY_STATUS(check(v));
  const std::vector<double> lowest = lowest_clocks(variants);
  TimingStats stats;
  std::vector<double> clean, clocks;
  double drift = 0;   // the largest of a process
  for (size_t p = 0; p < lowest.size(); ++p) {
    std::vector<double> in_order;
    size_t rounds = 0;
    for (const VariantPairs& v : variants) rounds = std::max(rounds, p < v.processes.size() ? v.processes[p].size() : 0);
    for (size_t r = 0; r < rounds; ++r)
      for (const VariantPairs& v : variants) {
        if (p >= v.processes.size() || r >= v.processes[p].size()) continue;
        const Sample& s = v.processes[p][r].clean;
        in_order.push_back(s.microseconds);
        if (s.cycles > 0) clocks.push_back(mhz_of(s));
      }
    const double here = drift_of(in_order);
    if (std::abs(here) > std::abs(drift)) drift = here;
    clean.insert(clean.end(), in_order.begin(), in_order.end());
  }
  stats.clean = sample_stats(clean);
  stats.clean.drift = drift;
  stats.clean_mhz = clocks.empty() ? 0 : median_of(std::move(clocks));

  for (const VariantGroup& group : groups) {
    VariantTiming t;
    t.name = group.name;
    RatioBlocks blocks;
    std::vector<double> own, second_over_first;
    for (size_t p = 0; p < lowest.size(); ++p) {
      std::vector<double>& rounds = blocks.emplace_back();
      for (size_t r = 0;; ++r) {
        std::vector<double> ratios;
        bool more = false;
        for (size_t m : group.members) {
          if (p >= variants[m].processes.size() || r >= variants[m].processes[p].size()) continue;
          more = true;
          const SamplePair& pair = variants[m].processes[p][r];
          const double ratio = pair.variant.microseconds / pair.clean.microseconds;
          ++t.pairs;
          own.push_back(pair.variant.microseconds);
          if (throttled(pair, lowest[p])) {
            ++t.throttled;
            continue;
          }
          ratios.push_back(ratio);
          second_over_first.push_back(pair.clean_first ? std::log(ratio) : -std::log(ratio));
        }
        if (!more) break;
        if (!ratios.empty()) rounds.push_back(median_of(std::move(ratios)));
      }
    }
    t.samples = sample_stats(own);
    t.estimate = estimate_ratio(blocks, options);
    if (!second_over_first.empty())
      t.order_effect = std::exp(std::accumulate(second_over_first.begin(), second_over_first.end(), 0.0) /
                                static_cast<double>(second_over_first.size())) - 1;
    if (t.name != clean_again_name) {
      stats.variants.push_back(std::move(t));
      continue;
    }
    const Interval& i = t.estimate.interval;
    if (i.finite()) stats.noise_floor = std::max(std::abs(i.low - 1), std::abs(i.high - 1));
    stats.clean_again = std::move(t);
  }
  return stats;
}

}  // namespace xtrace::diff
