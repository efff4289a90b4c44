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
  std::optional<double> measured; // mean in one replay at the rate of the table
  std::optional<double> dense;    // mean in the trace of every instruction
  double executions = 0;          // by a warp, on average
};

struct IntervalFidelity {
  std::vector<IntervalRow> rows;
  double inserted_cycles = 0;     // that a clock adds where nothing waits for a scoreboard
  // Of an average warp: the sum over all its intervals, and its time from the first instruction to its EXIT with next to no clock
  // in between. 0: not every instruction was measured, or the counts vary.
  double sum_cycles = 0, lifetime_cycles = 0;
  double median_warp = 0;         // the median over warps of the same ratio
  // Of the estimation's replays: records that were lost, and samples left out as they last longer than the launch can have.
  uint64_t records_lost = 0, too_long = 0;
  double seconds = 0;             // that the estimation took
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
// Of the intervals of 20 cycles and more; with the number of these.
struct Convergence {
  size_t of = 0, converged = 0;
};
Convergence convergence(const IntervalFidelity& f);
// The sum of all intervals as the dense trace has them; nothing where it lacks one.
std::optional<double> dense_sum(const IntervalFidelity& f);
// "16 sites: error bars within 2/5/10 % for 50/81/100 % of them, ..."
std::string text_of(const IntervalFidelity& f);

}  // namespace xtrace::diff
