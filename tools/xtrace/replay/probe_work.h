// What the probes of a replay make the device do, from the counting replay and the spliced code.
#pragma once

#include "diff/floor.h"
#include "tools/xtrace/replay/probe_run.h"

namespace xtrace::cli {

Result<diff::ProbeWork> work_of(const LaunchContext& c, const ProbeRun& run, const Counts& counts);

}  // namespace xtrace::cli
