// How an error reaches the user: one line on stderr, and a hint below it.
//
//   xtrace ls: error: run.xtr is not a bundle: no such directory
//     hint: record one with: xtrace record -o run.xtr ./app
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace xtrace::cli {

inline constexpr int exit_interrupted = 130;   // by SIGINT or SIGTERM, as a shell says it

// `command` may be empty: the program itself.
std::string render_error(std::string_view command, const Error& error);
// Prints it; returns the exit status that its kind asks for.
int report(std::string_view command, const Error& error);
// The same for an Error about a value on the command line: returns 64.
int wrong_value(std::string_view command, const Error& error);
// A mistake on the command line; returns 64.
int usage_error(std::string_view command, std::string_view message, std::string_view hint);

}  // namespace xtrace::cli
