// The whole replay of one launch: clean, counted, under every configuration, timed, judged, emitted.
#pragma once

#include "diff/report.h"
#include "replay/backend.h"
#include "tools/xtrace/replay/options.h"
#include "tools/xtrace/replay/timing_process.h"

namespace xtrace::cli {

// A report whenever the launch could be replayed at all; an Error otherwise. A probe that is refused, or that makes the
// launch fail, is a configuration in the report. After a device error the backend is dead: no more launches on it.
// `processes`: others that time the launch as well; without any no verdict is made of times.
Result<diff::ReplayReport> replay_launch(replay::Backend& backend, const replay::LaunchImage& launch,
                                         const ReplayOptions& options, TimingProcesses* processes = nullptr);

}  // namespace xtrace::cli
