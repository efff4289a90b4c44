#include "tools/xtrace/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "base/status.h"
#include "tools/xtrace/command.h"
#include "tools/xtrace/render_error.h"

namespace xtrace::cli {
namespace {

// What `--help` prints in front of usage and options.
std::string heading(const Command& command, std::initializer_list<Example> examples) {
  std::string out = fmt::format("xtrace {}: {}\n\nExamples:\n", command.name, command.summary);
  size_t width = 0;
  for (const Example& e : examples) width = std::max(width, e.command.size());
  for (const Example& e : examples) out += fmt::format("  {:<{}}  # {}\n", e.command, width, e.what);
  return out;
}

// "The following ..." -> "the following ...", but "BUNDLE is ..." and "--json: ..." as they are.
std::string lower_case(std::string message) {
  if (message.size() > 1 && std::islower(static_cast<unsigned char>(message[1])) != 0)
    message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
  return message;
}

}  // namespace

CommandLine::CommandLine(std::string_view name, std::initializer_list<Example> examples) : name_(name) {
  const Command* command = find_command(name);
  XT_CHECK(command != nullptr, "a command line for a command that is not in the table");
  app_ = std::make_unique<CLI::App>(heading(*command, examples), fmt::format("xtrace {}", name));
  app_->get_formatter()->column_width(28);
}

CommandLine::~CommandLine() = default;

void CommandLine::positional(const std::string& name, std::string& value, const std::string& help) {
  app_->add_option(name, value, help)->required()->option_text(" ");
}
void CommandLine::optional_positional(const std::string& name, std::string& value, const std::string& help) {
  app_->add_option(name, value, help)->option_text(" ");
}
void CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
  app_->add_flag(names, value, help);
}
void CommandLine::option(const std::string& names, std::string& value, const std::string& help) {
  app_->add_option(names, value, help)->capture_default_str();
}
void CommandLine::option(const std::string& names, uint64_t& value, const std::string& help) {
  app_->add_option(names, value, help)->capture_default_str();
}
void CommandLine::option(const std::string& names, double& value, const std::string& help) {
  app_->add_option(names, value, help)->capture_default_str();
}
void CommandLine::option(const std::string& names, std::vector<std::string>& value, const std::string& help) {
  app_->add_option(names, value, help)->delimiter(',');
}
void CommandLine::repeated(const std::string& names, std::vector<std::string>& value, const std::string& help) {
  app_->add_option(names, value, help)->allow_extra_args(false);
}
void CommandLine::stop_at_first_word() { app_->prefix_command(); }
std::vector<std::string> CommandLine::rest() const { return app_->remaining(); }

std::optional<int> CommandLine::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app_->help());
    return 0;
  } catch (const CLI::ParseError& e) {
    return usage_error(name_, lower_case(e.what()), fmt::format("see: xtrace help {}", name_));
  }
}

}  // namespace xtrace::cli
