#include "diff/interval_fidelity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace xtrace::diff {
namespace {

// `off`: distance from the estimate, in cycles; negative: not known.
template <typename F>
Shares shares(const IntervalFidelity& f, F off) {
  Shares s;
  for (const IntervalRow& r : f.rows) {
    const double d = off(r);
    if (d < 0) continue;
    ++s.of;
    const auto within = [&](double fraction) { return d <= std::max(1.0, fraction * r.cycles) ? 1.0 : 0.0; };
    s.within_2 += within(0.02);
    s.within_5 += within(0.05);
    s.within_10 += within(0.10);
  }
  const double n = static_cast<double>(std::max<size_t>(s.of, 1));
  return {s.of, s.within_2 / n, s.within_5 / n, s.within_10 / n};
}

std::string percent(const Shares& s) {
  return fmt::format("{:.0f}/{:.0f}/{:.0f} %", 100 * s.within_2, 100 * s.within_5, 100 * s.within_10);
}

}  // namespace

Shares error_bars(const IntervalFidelity& f) {
  return shares(f, [](const IntervalRow& r) { return r.error; });
}
Shares of_table(const IntervalFidelity& f) {
  return shares(f, [](const IntervalRow& r) { return r.measured ? std::abs(*r.measured - r.cycles) : -1.0; });
}
Shares of_dense(const IntervalFidelity& f) {
  return shares(f, [](const IntervalRow& r) { return r.dense ? std::abs(*r.dense - r.cycles) : -1.0; });
}
size_t converged(const IntervalFidelity& f) {
  return static_cast<size_t>(std::count_if(f.rows.begin(), f.rows.end(), [](const IntervalRow& r) { return r.converged; }));
}

Convergence convergence(const IntervalFidelity& f) {
  constexpr double long_ones = 20;
  Convergence c;
  for (const IntervalRow& r : f.rows) {
    c.of += r.cycles >= long_ones;
    c.converged += r.cycles >= long_ones && r.converged;
  }
  return c;
}
std::optional<double> dense_sum(const IntervalFidelity& f) {
  double sum = 0;
  for (const IntervalRow& r : f.rows) {
    if (!r.dense) return std::nullopt;
    sum += *r.dense * r.executions;
  }
  return f.rows.empty() ? std::nullopt : std::optional(sum);
}

std::string text_of(const IntervalFidelity& f) {
  const Convergence c = convergence(f);
  std::string s = fmt::format("{} sites, {} converged ({} of {} of 20 cycles and more); within 2/5/10 % of undisturbed: error bars {}, table {}",
                              f.rows.size(), converged(f), c.converged, c.of, percent(error_bars(f)), percent(of_table(f)));
  if (const Shares dense = of_dense(f); dense.of != 0) s += fmt::format(", dense trace {}", percent(dense));
  if (f.lifetime_cycles > 0)
    s += fmt::format("; intervals of a warp add up to {:.3f} of its lifetime, median {:.3f}", f.sum_cycles / f.lifetime_cycles,
                     f.median_warp);
  if (f.records_lost != 0) s += fmt::format("; {} records of their replays were lost", f.records_lost);
  if (f.too_long != 0) s += fmt::format("; {} samples left out, as they last longer than the launch can have", f.too_long);
  return s;
}

}  // namespace xtrace::diff
