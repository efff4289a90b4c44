#include "trace/clock_fit.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace xtrace::trace {

Result<ClockFit> ClockFit::of(std::span<const ClockReading> before, std::span<const ClockReading> after) {
  struct Readings {
    std::vector<ClockReading> all;
    size_t before = 0;
  };
  std::map<uint32_t, Readings> of_sm;
  for (const ClockReading& r : before) {
    of_sm[r.sm].all.push_back(r);
    ++of_sm[r.sm].before;
  }
  for (const ClockReading& r : after) of_sm[r.sm].all.push_back(r);
  if (of_sm.empty()) return device("no SM's clock was read");
  if (of_sm.rbegin()->first >= 1u << 16) return device("a reading names SM {}", of_sm.rbegin()->first);
  uint64_t zero = ~0ull;
  for (const ClockReading& r : before) zero = std::min(zero, r.nanoseconds);

  ClockFit fit;
  fit.lines_.resize(of_sm.rbegin()->first + 1);
  for (const auto& [sm, of] : of_sm) {
    const std::vector<ClockReading>& readings = of.all;
    const size_t n = readings.size(), first_after = of.before;
    if (first_after < 2 || n - first_after < 2)
      return device("SM {} was read {} times before the launch and {} times after it, of {} SMs", sm, first_after, n - first_after, of_sm.size());
    for (size_t i = 1; i < n; ++i)
      if (readings[i].clock <= readings[i - 1].clock || readings[i].nanoseconds < readings[i - 1].nanoseconds)
        return device("SM {} went backwards: clock {} at {} ns, then {} at {} ns (readings {} and {}, {} of them before the launch)", sm,
                      readings[i - 1].clock, readings[i - 1].nanoseconds, readings[i].clock, readings[i].nanoseconds, i - 1, i, first_after);
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
    if (xy <= 0) return device("GLOBALTIMER stood still on SM {}", sm);
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
