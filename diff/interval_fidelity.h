// How well single intervals are known: what `pair` measured at a few sites, extrapolated to no disturbance, and how far other
// ways to measure them are from that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace xtrace::diff {

struct IntervalRow {
  uint32_t pc = 0;
  double cycles = 0, error = 0;   // mean, without disturbance; half of its 95 % interval
  bool converged = false;         // the same without the densest sampling rate, within the error
  double measured = 0;            // mean in one replay at the rate of the table
  std::optional<double> dense;    // mean in the trace of every instruction
};

struct IntervalFidelity {
  std::vector<IntervalRow> rows;
  // Of an average warp: the sum over all its intervals, and its time from start to exit with next to no clock in between. 0:
  // not every instruction was measured, or lanes part, so that intervals lie inside each other.
  double sum_cycles = 0, lifetime_cycles = 0;
};

// Share of intervals within so many percent of the estimate, or within one cycle of it.
struct Shares {
  size_t of = 0;                 // intervals that are known this way
  double within_2 = 0, within_5 = 0, within_10 = 0;
};
Shares error_bars(const IntervalFidelity& f);   // the estimate's own
Shares of_table(const IntervalFidelity& f);     // one replay, as in the table
Shares of_dense(const IntervalFidelity& f);
size_t converged(const IntervalFidelity& f);
// "16 sites: error bars within 2/5/10 % for 50/81/100 % of them, ..."
std::string text_of(const IntervalFidelity& f);

}  // namespace xtrace::diff
