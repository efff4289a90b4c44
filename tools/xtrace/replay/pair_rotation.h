// The pair probe, rotated: one replay per instruction of the kernel that executes, two clocks around it and nothing else.
#pragma once

#include "diff/report.h"
#include "tools/xtrace/replay/counting.h"
#include "tools/xtrace/replay/options.h"
#include "tools/xtrace/replay/timing_process.h"
#include "tools/xtrace/replay/trace_run.h"
#include "trace/aggregate.h"

namespace xtrace::cli {

struct PairRotation {
  trace::GradedTimes times;
  std::map<uint32_t, std::string> refused;      // pc -> why it could not be measured
  uint32_t sites = 0, sites_left_out = 0;       // measured; over the limit of options.pair_sites
  uint32_t one_in = 1;                          // CTA sampling that was used, at least the one asked for
  uint64_t records = 0, bytes = 0;
  trace::LossCounts losses;
  diff::SemanticEvidence semantics;
  diff::SpatialEvidence space;
  std::optional<diff::TimingEvidence> timing;   // of the median site
  std::optional<diff::Floor> floor;             // of the median among the timed sites
  std::vector<std::string> warnings;
  diff::IntervalFidelity intervals;             // without the dense trace's
  double median_microseconds = 0;
  double seconds = 0;                           // what the rotation took
};

// `counts` are those of all CTAs, of which `ctas_at_once` fit on the device. With options.compare the outputs are compared after every site, and a subset of the
// sites is timed against the clean kernel.
Result<PairRotation> rotate_pairs(LaunchContext& c, Sample sample, const Counts& counts, const ReplayOptions& options,
                                  const replay::Resources& clean, uint32_t ctas_at_once, TimingProcesses* processes);

}  // namespace xtrace::cli
