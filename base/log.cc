#include "base/log.h"

#include <cstdlib>
#include <string_view>

namespace xtrace {
namespace {

LogLevel level_of_environment() {
  const char* word = std::getenv("XTRACE_LOG");
  const std::string_view name = word != nullptr ? word : "";
  if (name == "debug") return LogLevel::debug;
  if (name == "off") return LogLevel::off;
  if (!name.empty() && name != "warn") notice("xtrace: warning: XTRACE_LOG={}: expected debug, warn or off\n", name);
  return LogLevel::warn;
}

}  // namespace

void log_line(const char* level, fmt::string_view text, fmt::format_args values) {
  notice("xtrace: {}: {}\n", level, fmt::vformat(text, values));
}

bool log_shows(LogLevel level) {
  static const LogLevel least = level_of_environment();
  return level >= least;
}

}  // namespace xtrace
