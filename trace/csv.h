// One field of a CSV file, quoted where RFC 4180 asks for it.
#pragma once

#include <string>

namespace xtrace::trace {

inline std::string csv_quoted(const std::string& s) {
  if (s.find_first_of(",\"\n\r") == std::string::npos) return s;
  std::string q = "\"";
  for (char c : s) {
    if (c == '"') q += '"';
    q += c;
  }
  return q + "\"";
}

}  // namespace xtrace::trace
