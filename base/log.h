// Diagnostics on stderr for who works on xtrace: XTRACE_LOG=debug shows all of them, warn (the default) what went wrong without
// consequence, off none. What a command says to its user it says by itself: results on stdout, the rest by base/notice.h.
#pragma once

#include <cstdint>

#include "base/notice.h"

namespace xtrace {

enum class LogLevel : uint8_t { debug, warn, off };

// Is it shown? A name that is no level is said once, and means warn.
bool log_shows(LogLevel level);

void log_line(const char* level, fmt::string_view text, fmt::format_args values);

// A message is formatted only when its level is shown. The injected library uses neither.
template <typename... Values>
void log_debug(fmt::format_string<Values...> text, Values&&... values) {
  if (log_shows(LogLevel::debug)) log_line("debug", text, fmt::make_format_args(values...));
}
template <typename... Values>
void log_warning(fmt::format_string<Values...> text, Values&&... values) {
  if (log_shows(LogLevel::warn)) log_line("warning", text, fmt::make_format_args(values...));
}

}  // namespace xtrace
