// Diagnostics on stderr for who works on xtrace: XTRACE_LOG=debug shows all of them, warn (the default) what went wrong without
// consequence, off none. What a command says to its user it says by itself: results on stdout, the rest by base/notice.h.
#pragma once

#include <cstdint>

#include "base/notice.h"

namespace xtrace {

enum class LogLevel : uint8_t { debug, warn, off };

// Is it shown? A name that is no level is said once, and means warn.
bool log_shows(LogLevel level);

// A message is formatted only when its level is shown. The injected library uses neither.
template <typename... Values>
void log_debug(fmt::format_string<Values...> text, Values&&... values) {
  if (log_shows(LogLevel::debug)) notice("xtrace: debug: {}\n", fmt::format(text, std::forward<Values>(values)...));
}
template <typename... Values>
void log_warning(fmt::format_string<Values...> text, Values&&... values) {
  if (log_shows(LogLevel::warn)) notice("xtrace: warning: {}\n", fmt::format(text, std::forward<Values>(values)...));
}

}  // namespace xtrace
