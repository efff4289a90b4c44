// Single intervals without disturbance: pairs of clocks at one site, replayed at several sampling rates, and, where every
// executed instruction is asked for, stretches of whole blocks and of the kernel, which the intervals must add up to.
#pragma once

#include "diff/report.h"
#include "tools/xtrace/replay/counting.h"
#include "tools/xtrace/replay/options.h"
#include "tools/xtrace/replay/record_bounds.h"
#include "tools/xtrace/replay/trace_run.h"
#include "trace/aggregate.h"

namespace xtrace::cli {

struct IntervalRequest {
  std::vector<uint32_t> sites;   // to be measured
  bool all;                      // they are all executed instructions, in all CTAs
  Sample sample;
  uint32_t one_in;               // of the table
  uint32_t densest;              // no more CTAs than one in so many
  const RecordBounds& bounds;
};

// `table`: what pairs measured, once, at each site. The buffer has room for the records of any site.
Result<diff::IntervalFidelity> estimate_intervals(LaunchContext& c, const Counts& counts, const ReplayOptions& options,
                                                  TraceBuffer& buffer, const IntervalRequest& request,
                                                  const trace::GradedTimes& table);

}  // namespace xtrace::cli
