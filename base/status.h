// Result<T>: how every function reports failure on data that came from outside. An Error says what failed, where
// (a chain of contexts, innermost first), and what the user can do.
//
//   Result<Image> Image::parse(bytes) {
//     if (bytes.size() < 64) return bad_input("truncated ELF header: expected 64 bytes, found {}", bytes.size());
//     ...
//   }
//   XT_TRY(Image image, Image::parse(bytes));            // propagates the error
//   XT_TRY_IN(Image image, Image::parse(bytes), "in {}", path);  // ... and adds a context line
//
// kj, zstd and CUDA errors are converted to Error at the border of the room that uses them.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace xtrace {

// Whose fault it is. The exit status of the program follows from it (exit_code()).
enum class ErrorKind {
  bad_input,    // a file, flag or recorded value is malformed or missing            -> exit 3
  unsupported,  // well-formed, but xtrace refuses it by name                         -> exit 3
  environment,  // no GPU, no permission, disk full, out of memory                    -> exit 3
  device,       // the GPU or its driver reported an error                            -> exit 3
  internal,     // a fault of xtrace                                                  -> exit 4
};

struct [[nodiscard]] Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;                // lower case, no full stop, numbers with units
  std::vector<std::string> contexts;  // innermost first
  std::string hint;                   // what to do; may be empty

  // Defined in status.cc: every XT_TRY copies, moves and destroys one.
  Error();
  Error(ErrorKind whose, std::string what, std::vector<std::string> where, std::string what_to_do);
  Error(const Error&);
  Error(Error&&) noexcept;
  Error& operator=(const Error&);
  Error& operator=(Error&&) noexcept;
  ~Error();

  Error&& in(std::string context) && {
    contexts.push_back(std::move(context));
    return std::move(*this);
  }
  Error&& with_hint(std::string h) && {
    hint = std::move(h);
    return std::move(*this);
  }
  // "message in ctx1, ctx2\n  hint: ..." without a program prefix.
  std::string to_string() const;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

tl::unexpected<Error> make_error(ErrorKind kind, fmt::string_view format, fmt::format_args args);
#define XT_DEFINE_ERROR_MAKER(name)                                            \
  template <typename... A>                                                     \
  tl::unexpected<Error> name(fmt::format_string<A...> f, A&&... args) {        \
    return make_error(ErrorKind::name, f, fmt::make_format_args(args...));     \
  }
XT_DEFINE_ERROR_MAKER(bad_input)
XT_DEFINE_ERROR_MAKER(unsupported)
XT_DEFINE_ERROR_MAKER(environment)
XT_DEFINE_ERROR_MAKER(device)
XT_DEFINE_ERROR_MAKER(internal)
#undef XT_DEFINE_ERROR_MAKER

// The same with a hint.
inline tl::unexpected<Error> with_hint(tl::unexpected<Error> e, std::string hint) {
  return tl::make_unexpected(std::move(e.value()).with_hint(std::move(hint)));
}

// Exit statuses of the xtrace program. Verdicts use 0, 1, 2.
enum ExitCode : int { exit_trusted = 0, exit_not_trusted = 1, exit_inconclusive = 2, exit_bad_input = 3, exit_internal = 4, exit_usage = 64 };
int exit_code(ErrorKind kind);

#define XT_CONCAT2(a, b) a##b
#define XT_CONCAT(a, b) XT_CONCAT2(a, b)
#define XT_TRY_IMPL(tmp, decl, expr)                                    \
  auto tmp = (expr);                                                    \
  if (!tmp) return ::tl::make_unexpected(std::move(tmp).error());       \
  decl = std::move(*tmp)
#define XT_TRY(decl, expr) XT_TRY_IMPL(XT_CONCAT(xt_result_, __LINE__), decl, expr)
#define XT_TRY_IN_IMPL(tmp, decl, expr, ...)                                                         \
  auto tmp = (expr);                                                                                 \
  if (!tmp) return ::tl::make_unexpected(std::move(tmp).error().in(fmt::format(__VA_ARGS__)));       \
  decl = std::move(*tmp)
#define XT_TRY_IN(decl, expr, ...) XT_TRY_IN_IMPL(XT_CONCAT(xt_result_, __LINE__), decl, expr, __VA_ARGS__)
// For Status-returning expressions.
#define XT_TRY_STATUS(expr)                                                              \
  do {                                                                                   \
    auto xt_status_ = (expr);                                                            \
    if (!xt_status_) return ::tl::make_unexpected(std::move(xt_status_).error());        \
  } while (0)

}  // namespace xtrace
