// The backend that an option names, here and in timing processes.
#pragma once

#include <memory>

#include "replay/backend.h"
#include "tools/xtrace/replay/options.h"

namespace xtrace::cli {

// `why`: set when the choice was made here, to the reason.
Result<std::unique_ptr<replay::Backend>> make_backend(const ReplayOptions& options, std::string& why);

// In a process that TimingProcess::start() executed: serves until it is ended, and returns its exit status. Nothing in any
// other.
std::optional<int> served_as_timing_process();

}  // namespace xtrace::cli
