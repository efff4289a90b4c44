// A run held against an earlier one.
#pragma once

#include "tools/xtrace/check/policy.h"
#include "tools/xtrace/check/result.h"

namespace xtrace::check {

// What differs between two environments, "driver: 13.0 before, 13.1 now"; empty: nothing.
std::string difference(const Environment& before, const Environment& now);

// Adds the findings about one row: `drift` for every metric that became worse by more than its limit (a
// record count: that changed either way), a note for one that became better, `kernel-changed` when before and
// now are not the same kernel. A ratio that became worse while the two intervals overlap is a doubt.
void compare(Row& now, const Row& before, const Limits& limits);

// compare() for every row that the baseline has; `not-in-baseline` notes for the others, and a `not-checked`
// doubt in run.findings for every row of the baseline that the run has not.
void compare(CheckRun& run, const CheckRun& baseline, const Policy& policy);

}  // namespace xtrace::check
