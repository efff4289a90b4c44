// What a trial's report shows, and what xtrace reduce says of a launch: for people and, as JSON, for programs (docs/report-schema.md).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/xtrace/replay/reduce.h"

namespace xtrace::cli {

// Of one launch under one probe, by the JSON of its report.
struct Shown {
  std::string against;   // what speaks against the semantics: "output-diverged: region 0 ...; path-differs: ..."
  std::string doubts;    // why they can not be judged, or are not fully
  std::string refused;   // why nothing was replayed under the probe
};
Shown shown_by(const std::string& report_json);

struct ReductionReport {
  std::string bundle, kernel, probe, sample;
  uint64_t launch = 0;
  size_t instructions = 0;            // that the first trial probed
  Reduction reduction;
  std::string doubts;                 // of a launch that does not diverge
  std::vector<std::string> sass;      // of reduction.pcs
  std::string reproducer;             // folder; empty: none
  std::string error, hint;            // why there is no answer

  int exit_status(int of_error) const;   // `of_error`: where there is an error
  std::string text() const;
  std::string json(int of_error) const;
};

}  // namespace xtrace::cli
