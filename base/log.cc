#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>

#include <cstdlib>

namespace xtrace {

spdlog::logger& logger() {
  static spdlog::logger log = [] {
    spdlog::logger l("xtrace", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    const char* level = std::getenv("XTRACE_LOG");
    l.set_pattern("xtrace: %l: %v");
    l.set_level(level ? spdlog::level::from_str(level) : spdlog::level::warn);
    return l;
  }();
  return log;
}

}  // namespace xtrace
