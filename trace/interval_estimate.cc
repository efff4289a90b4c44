#include "trace/interval_estimate.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace xtrace::trace {
namespace {

constexpr double least_error = 1;   // cycle: what a clock read adds is known no better

struct Line {
  double at_zero = 0, deviation = 0;   // deviation: of at_zero
  size_t freedom = 0;
};

// Least squares of the means over the rates 1 / one_in.
std::optional<Line> line_through(std::span<const RateMean> points) {
  const auto n = static_cast<double>(points.size());
  double x = 0, y = 0, xx = 0, xy = 0, rest = 0;
  for (const RateMean& p : points) {
    x += 1.0 / p.one_in / n;
    y += p.cycles / n;
  }
  for (const RateMean& p : points) {
    xx += (1.0 / p.one_in - x) * (1.0 / p.one_in - x);
    xy += (1.0 / p.one_in - x) * (p.cycles - y);
  }
  if (xx <= 0) return std::nullopt;   // one rate
  const double slope = xy / xx;
  for (const RateMean& p : points) {
    const double off = p.cycles - y - slope * (1.0 / p.one_in - x);
    rest += off * off;
  }
  Line l;
  l.at_zero = y - slope * x;
  l.freedom = points.size() - 2;
  if (l.freedom != 0) l.deviation = std::sqrt(rest / static_cast<double>(l.freedom) * (1 / n + x * x / xx));
  return l;
}

// Student's t, two-sided 95 %.
double t_95(size_t freedom) {
  constexpr double t[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  return t[std::min<size_t>(freedom, std::size(t)) - 1];
}

}  // namespace

std::optional<IntervalEstimate> estimate_interval(std::span<const RateMean> replays) {
  std::vector<RateMean> all, sparse;
  uint32_t densest = ~0u;
  for (const RateMean& r : replays) {
    if (r.samples == 0) continue;
    all.push_back(r);
    densest = std::min(densest, r.one_in);
  }
  if (all.size() < 4) return std::nullopt;
  const auto line = line_through(all);
  if (!line) return std::nullopt;
  IntervalEstimate e;
  e.cycles = std::max(0.0, line->at_zero);
  e.error = std::max(least_error, t_95(line->freedom) * line->deviation);
  e.deviation = line->deviation;
  e.replays = static_cast<uint32_t>(all.size());
  for (const RateMean& r : all)
    if (r.one_in > densest) sparse.push_back(r);
  const auto without = line_through(sparse);
  e.converged = without && std::abs(without->at_zero - line->at_zero) <= e.error;
  return e;
}

}  // namespace xtrace::trace
