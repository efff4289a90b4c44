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
  uint32_t out_of_time = 0;                     // for which most_rotation_seconds were not enough
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

// Where nobody asked for a number of sites, a launch whose sites take long is measured at fewer, spread evenly. [measured H200: 16 of a sum of
// 264 CTAs that wait for each other took more than 15 s beside other replays]
constexpr double most_rotation_seconds = 60;
// Of the sites that are left when `done` took `seconds`, those that there is time for.
std::vector<uint32_t> sites_in_time(const std::vector<uint32_t>& rest, size_t done, double seconds);

// `counts` are those of all CTAs, of which `ctas_at_once` fit on the device. With options.compare the outputs are compared after every site, and a subset of the
// sites is timed against the clean kernel.
Result<PairRotation> rotate_pairs(LaunchContext& c, Sample sample, const Counts& counts, const ReplayOptions& options,
                                  const replay::Resources& clean, uint32_t ctas_at_once, TimingProcesses* processes);

}  // namespace xtrace::cli
