// What is said to people on stderr: progress, warnings, errors. Who closed stderr, or gave a full disk for it, did without: that
// ends no work, where fmt::print would throw.
#pragma once

#include <fmt/format.h>

#include <cstdio>

namespace xtrace {

template <typename... Values>
void notice(fmt::format_string<Values...> text, Values&&... values) {
  std::fputs(fmt::format(text, std::forward<Values>(values)...).c_str(), stderr);
}

}  // namespace xtrace
