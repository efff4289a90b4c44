// Diagnostics on stderr, by spdlog. Level from XTRACE_LOG (trace, debug, info, warn, error, off; default warn).
// What a command prints for its user goes to stdout by the command itself, never through the log.
//
// spdlog stays in log.cc: its header costs several seconds of compile time wherever it is included.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace xtrace {

enum class LogLevel : uint8_t { debug, info, warn, error };

class Logger {
 public:
  // A message is formatted only when its level is shown.
  template <typename... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) {
    log(LogLevel::debug, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    log(LogLevel::info, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    log(LogLevel::warn, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) {
    log(LogLevel::error, format, std::forward<Args>(args)...);
  }

 private:
  template <typename... Args>
  void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
    if (shows(level)) write(level, fmt::format(format, std::forward<Args>(args)...));
  }
  static bool shows(LogLevel level);
  static void write(LogLevel level, std::string_view message);
};

// The process-wide logger of the xtrace program, created on first use. The injected library does not use it.
Logger& logger();

}  // namespace xtrace
