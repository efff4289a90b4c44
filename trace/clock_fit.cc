#include "trace/clock_fit.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace xtrace::trace {

std::optional<ClockFit> ClockFit::of(std::span<const ClockReading> before, std::span<const ClockReading> after) {
  std::map<uint32_t, std::vector<ClockReading>> of_sm;
  for (const ClockReading& r : before) of_sm[r.sm].push_back(r);
  std::map<uint32_t, size_t> first_after;
  for (const auto& [sm, readings] : of_sm) first_after[sm] = readings.size();
  for (const ClockReading& r : after) {
    if (!of_sm.contains(r.sm)) return std::nullopt;
    of_sm[r.sm].push_back(r);
  }
  if (of_sm.empty() || of_sm.rbegin()->first >= 1u << 16) return std::nullopt;
  uint64_t zero = ~0ull;
  for (const ClockReading& r : before) zero = std::min(zero, r.nanoseconds);

  ClockFit fit;
  fit.lines_.resize(of_sm.rbegin()->first + 1);
  for (const auto& [sm, readings] : of_sm) {
    const size_t n = readings.size();
    if (first_after[sm] < 2 || n - first_after[sm] < 2) return std::nullopt;
    for (size_t i = 1; i < n; ++i)
      if (readings[i].clock <= readings[i - 1].clock || readings[i].nanoseconds < readings[i - 1].nanoseconds)
        return std::nullopt;
    // Least squares of time over cycles since the first reading.
    const auto cycles = [&](const ClockReading& r) { return static_cast<double>(r.clock - readings[0].clock); };
    const auto time = [&](const ClockReading& r) { return static_cast<double>(r.nanoseconds - zero); };
    double x = 0, y = 0, xx = 0, xy = 0;
    for (const ClockReading& r : readings) {
      x += cycles(r) / static_cast<double>(n);
      y += time(r) / static_cast<double>(n);
    }
    for (const ClockReading& r : readings) {
      xx += (cycles(r) - x) * (cycles(r) - x);
      xy += (cycles(r) - x) * (time(r) - y);
    }
    if (xy <= 0) return std::nullopt;
    const double slope = xy / xx;
    fit.lines_[sm] = {true, readings[0].clock, y - slope * x, 1 / slope};
    for (const ClockReading& r : readings)
      fit.residual_ = std::max(fit.residual_, std::abs(time(r) - (y + slope * (cycles(r) - x))));
    ++fit.used_;
  }
  return fit;
}

double ClockFit::nanoseconds(uint32_t sm, uint64_t clock) const {
  const Line& l = lines_[sm];
  return l.ns + static_cast<double>(static_cast<uint32_t>(clock - l.clock)) / l.ghz;
}

}  // namespace xtrace::trace
