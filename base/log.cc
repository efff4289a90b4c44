#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <cstdlib>

namespace xtrace {
namespace {

spdlog::logger& sink() {
  static spdlog::logger log = [] {
    spdlog::logger l("xtrace", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    const char* level = std::getenv("XTRACE_LOG");
    l.set_pattern("xtrace: %l: %v");
    l.set_level(level ? spdlog::level::from_str(level) : spdlog::level::warn);
    return l;
  }();
  return log;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  constexpr spdlog::level::level_enum levels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                  spdlog::level::err};
  return levels[static_cast<size_t>(level)];
}

}  // namespace

bool Logger::shows(LogLevel level) { return sink().should_log(spdlog_level(level)); }

void Logger::write(LogLevel level, std::string_view message) {
  sink().log(spdlog_level(level), spdlog::string_view_t(message.data(), message.size()));
}

Logger& logger() {
  static Logger log;
  return log;
}

}  // namespace xtrace
