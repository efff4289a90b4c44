#include "base/status.h"

namespace xtrace {

std::string Error::to_string() const {
  std::string s = message;
  for (const std::string& c : contexts) s += ", " + c;
  if (!hint.empty()) s += "\n  hint: " + hint;
  return s;
}

int exit_code(ErrorKind kind) { return kind == ErrorKind::internal ? exit_internal : exit_bad_input; }

}  // namespace xtrace
