// Detail against disturbance: of all configurations of a replay those that no other beats in both, and the richest one that is
// still trusted.
#pragma once

#include <string>
#include <vector>

#include "diff/report.h"

namespace xtrace::diff {

struct FrontierPoint {
  size_t config = 0;            // in ReplayReport::configs
  uint64_t detail = 0;          // events that one launch's records hold
  double ratio = 0;             // of times, and its interval
  Interval interval;
  bool trusted = false;         // semantics and space trusted, and the whole interval within the budget
  bool on_frontier = false;     // no other has as much detail at a smaller ratio
};

// Of the configurations that were measured and not refused, least detail first.
std::vector<FrontierPoint> frontier(const ReplayReport& report, double budget);
// The trusted point with most detail; null when there is none.
const FrontierPoint* richest(const std::vector<FrontierPoint>& points);

std::string frontier_text(const ReplayReport& report, const std::vector<FrontierPoint>& points, double budget);
std::string frontier_json(const ReplayReport& report, const std::vector<FrontierPoint>& points, double budget);
// A plot: detail to the right (logarithmic), ratio up, intervals as bars, the budget as a line.
std::string frontier_svg(const ReplayReport& report, const std::vector<FrontierPoint>& points, double budget);

}  // namespace xtrace::diff
