#include "trace/clock_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace xtrace::trace {
namespace {

constexpr uint32_t most_sms = 1u << 16;  // SR_VIRTUALSMID has fewer; a header that says more is garbage

template <typename F>
void for_each_started(const wire::SlotLayout& layout, std::span<const wire::WarpHeader> headers, F f) {
  for (size_t w = 0; w < headers.size(); ++w) {
    const wire::WarpHeader& h = headers[w];
    if (layout.warps_per_cta != 0 && !layout.is_sampled(static_cast<uint32_t>(w))) continue;
    if (h.start_clock == 0 || h.start_clock == ~0ull || h.sm >= most_sms) continue;
    f(h);
  }
}

double distance(uint64_t to, uint64_t from) { return static_cast<double>(static_cast<int64_t>(to - from)); }

}  // namespace

ClockModel::ClockModel(const wire::SlotLayout& layout, std::span<const wire::WarpHeader> headers,
                       double sm_clock_ghz)
    : ghz_(sm_clock_ghz) {
  XT_CHECK(sm_clock_ghz > 0, "a clock model needs a clock rate");
  uint64_t first_time = ~0ull;
  for_each_started(layout, headers, [&](const wire::WarpHeader& h) {
    if (h.sm >= sm_.size()) sm_.resize(h.sm + 1);
    Sm& s = sm_[h.sm];
    s.base_clock = s.used ? std::min(s.base_clock, h.start_clock) : h.start_clock;
    s.used = true;
    first_time = std::min(first_time, h.start_time);
  });
  std::vector<double> low(sm_.size(), std::numeric_limits<double>::infinity());
  std::vector<double> high(sm_.size(), -std::numeric_limits<double>::infinity());
  for_each_started(layout, headers, [&](const wire::WarpHeader& h) {
    const double base =
        distance(h.start_time, first_time) - distance(h.start_clock, sm_[h.sm].base_clock) / ghz_;
    low[h.sm] = std::min(low[h.sm], base);
    high[h.sm] = std::max(high[h.sm], base);
  });
  double earliest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < sm_.size(); ++i) {
    if (!sm_[i].used) continue;
    ++used_;
    sm_[i].base_ns = high[i];
    sm_[i].ghz = ghz_;
    spread_ = std::max(spread_, high[i] - low[i]);
    earliest = std::min(earliest, high[i]);
  }
  for (Sm& s : sm_)
    if (s.used) s.base_ns -= earliest;
}

ClockModel::ClockModel(const ClockFit& fit, const wire::SlotLayout& layout, std::span<const wire::WarpHeader> headers)
    : ghz_(1), fitted_(true), spread_(2 * fit.residual()) {
  double earliest = std::numeric_limits<double>::infinity(), low = earliest, high = -earliest;
  std::vector<double> rates;
  for_each_started(layout, headers, [&](const wire::WarpHeader& h) {
    if (!fit.covers(h.sm)) return;
    if (h.sm >= sm_.size()) sm_.resize(h.sm + 1);
    Sm& s = sm_[h.sm];
    const double ns = fit.nanoseconds(h.sm, h.start_clock);
    if (!s.used) {
      s = {true, h.start_clock, ns, fit.ghz(h.sm)};
      rates.push_back(s.ghz);
      ++used_;
    }
    earliest = std::min(earliest, ns);
    const double off = ns - static_cast<double>(h.start_time);
    low = std::min(low, off);
    high = std::max(high, off);
  });
  if (used_ == 0) return;
  std::nth_element(rates.begin(), rates.begin() + static_cast<ptrdiff_t>(rates.size() / 2), rates.end());
  ghz_ = rates[rates.size() / 2];
  tick_spread_ = high - low;
  for (Sm& s : sm_) s.base_ns -= earliest;
}

double ClockModel::nanoseconds(uint32_t sm, uint64_t clock) const {
  if (sm >= sm_.size() || !sm_[sm].used) return static_cast<double>(clock) / ghz_;
  return sm_[sm].base_ns + distance(clock, sm_[sm].base_clock) / sm_[sm].ghz;
}

std::string ClockModel::statement() const {
  if (fitted_)
    return fmt::format(
        "ns = SM cycles / {:.4f} GHz; {} SM clocks fitted to GLOBALTIMER by readings before and after the launch: times on two "
        "SMs compare to {:.0f} ns. What warps read of GLOBALTIMER at their start spreads over {:.0f} ns around that: its ticks, "
        "or a clock rate that changed meanwhile",
        ghz_, used_, spread_, tick_spread_);
  return fmt::format(
      "ns = SM cycles / {:.3f} GHz; {} SM clocks aligned by the GLOBALTIMER each warp read at its start, "
      "which disagree "
      "by up to {:.0f} ns inside an SM: compare times across SMs no closer than that",
      ghz_, used_, spread_);
}

std::optional<double> ClockModel::estimate_ghz(const wire::SlotLayout& layout,
                                               std::span<const wire::WarpHeader> headers) {
  struct Ends {
    const wire::WarpHeader *first = nullptr, *last = nullptr;
  };
  std::vector<Ends> ends;
  for_each_started(layout, headers, [&](const wire::WarpHeader& h) {
    if (h.sm >= ends.size()) ends.resize(h.sm + 1);
    Ends& e = ends[h.sm];
    if (!e.first || h.start_clock < e.first->start_clock) e.first = &h;
    if (!e.last || h.start_clock > e.last->start_clock) e.last = &h;
  });
  double longest = 50'000, ghz = 0;
  for (const Ends& e : ends) {
    if (!e.first) continue;
    const double ns = distance(e.last->start_time, e.first->start_time);
    if (ns < longest) continue;
    longest = ns;
    ghz = distance(e.last->start_clock, e.first->start_clock) / ns;
  }
  if (ghz <= 0) return std::nullopt;
  return ghz;
}

}  // namespace xtrace::trace
