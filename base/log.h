// Diagnostics on stderr, by spdlog. Level from XTRACE_LOG (trace, debug, info, warn, error, off; default warn).
// What a command prints for its user goes to stdout by the command itself, never through the log.
#pragma once

#include <spdlog/logger.h>

namespace xtrace {

// The process-wide logger of the xtrace program, created on first use. The injected library does not use it.
spdlog::logger& logger();

}  // namespace xtrace
