#include "base/status.h"

namespace xtrace {

Error::Error() = default;
Error::Error(ErrorKind whose, std::string what, std::vector<std::string> where, std::string what_to_do)
    : kind(whose), message(std::move(what)), contexts(std::move(where)), hint(std::move(what_to_do)) {}
Error::Error(const Error&) = default;
Error::Error(Error&&) noexcept = default;
Error& Error::operator=(const Error&) = default;
Error& Error::operator=(Error&&) noexcept = default;
Error::~Error() = default;

tl::unexpected<Error> make_error(ErrorKind kind, fmt::string_view format, fmt::format_args args) {
  return tl::make_unexpected(Error(kind, fmt::vformat(format, args), {}, {}));
}

std::string Error::to_string() const {
  std::string s = message;
  for (const std::string& c : contexts) s += ", " + c;
  if (!hint.empty()) s += "\n  hint: " + hint;
  return s;
}

int exit_code(ErrorKind kind) { return kind == ErrorKind::internal ? exit_internal : exit_bad_input; }

}  // namespace xtrace
