#include "tools/xtrace/render_error.h"

#include "base/notice.h"
#include "tools/xtrace/table.h"

namespace xtrace::cli {
namespace {

std::string line(std::string_view command, std::string_view message) {
  return fmt::format("xtrace{}{}: error: {}", command.empty() ? "" : " ", command, printable(message));
}

}  // namespace

std::string render_error(std::string_view command, const Error& error) {
  std::string out = line(command, error.message);
  for (const std::string& context : error.contexts) {
    out += context.starts_with("in ") ? " " : " in ";
    out += printable(context);
  }
  if (!error.hint.empty()) out += "\n  hint: " + error.hint;
  return out + "\n";
}

int report(std::string_view command, const Error& error) {
  std::fflush(stdout);
  notice("{}", render_error(command, error));
  return exit_code(error.kind);
}

int wrong_value(std::string_view command, const Error& error) {
  report(command, error);
  return exit_usage;
}

int usage_error(std::string_view command, std::string_view message, std::string_view hint) {
  std::fflush(stdout);
  notice("{}\n", line(command, message));
  if (!hint.empty()) notice("  hint: {}\n", hint);
  return exit_usage;
}

}  // namespace xtrace::cli
