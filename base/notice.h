// What is said to people on stderr: progress, warnings, errors. Who closed stderr, or gave a full disk for it, did without: that
// ends no work, where fmt::print would throw.
#pragma once

#include <fmt/format.h>

namespace xtrace {

void say(fmt::string_view text, fmt::format_args values);

template <typename... Values>
void notice(fmt::format_string<Values...> text, Values&&... values) {
  say(text, fmt::make_format_args(values...));
}

}  // namespace xtrace
