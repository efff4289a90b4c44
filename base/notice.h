// What is said to people on stderr: progress, warnings, errors. Who closed stderr, or gave a full disk for it, did without: that
// ends no work, where fmt::print would throw.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace xtrace {

template <typename... Values>
void notice(fmt::format_string<Values...> text, Values&&... values) {
  const std::string said = fmt::format(text, std::forward<Values>(values)...);
  std::fwrite(said.data(), 1, said.size(), stderr);
}

}  // namespace xtrace
