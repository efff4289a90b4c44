// Internal invariants. XT_CHECK stays on in release builds: a broken invariant in a tool whose product is trust must
// stop the tool, never produce a number. Bytes that came from outside (cubin, bundle, trace, environment) are never
// XT_CHECKed: they give a Result (status.h).
#pragma once

namespace xtrace {

// Prints the message and aborts. Exit status of the process is 134 (SIGABRT): "internal" in the table of docs/trust.md.
[[noreturn]] void check_failed(const char* expression, const char* file, int line, const char* why);

}  // namespace xtrace

#define XT_CHECK(expr, why) \
  (static_cast<bool>(expr) ? void(0) : ::xtrace::check_failed(#expr, __FILE__, __LINE__, why))
