#include "tools/xtrace/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/status.h"
#include "tools/xtrace/closest.h"
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

// An empty word is a variable of a script that was not set, and never a value.
const CLI::Validator not_empty([](std::string& word) { return word.empty() ? "expected a value, found ''" : ""; }, "");

template <typename T>
std::optional<T> number_of(std::string_view word) {
  T value{};
  std::from_chars_result end{};
  if constexpr (std::is_integral_v<T>) {
    const bool hex = word.starts_with("0x");
    if (hex) word.remove_prefix(2);
    end = std::from_chars(word.data(), word.data() + word.size(), value, hex ? 16 : 10);
  } else {
    end = std::from_chars(word.data(), word.data() + word.size(), value);
  }
  if (end.ec != std::errc{} || end.ptr != word.data() + word.size()) return std::nullopt;
  return value;
}

template <typename T>
CLI::Validator in_range(Range<T> range) {
  return CLI::Validator(
      [range](std::string& word) {
        const auto value = number_of<T>(word);
        if (value && *value >= range.low && *value <= range.high) return std::string();   // not a NaN either
        return fmt::format("expected {} from {} to {}, found '{}'", std::is_integral_v<T> ? "a whole number" : "a number", range.low,
                           range.high, word);
      },
      "");
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
  app_->add_option(name, value, help)->required()->option_text(" ")->check(not_empty);
}
void CommandLine::optional_positional(const std::string& name, std::string& value, const std::string& help) {
  app_->add_option(name, value, help)->option_text(" ")->check(not_empty);
}
void CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
  app_->add_flag(names, value, help);
}
void CommandLine::option(const std::string& names, std::string& value, const std::string& help) {
  app_->add_option(names, value, help)->capture_default_str()->check(not_empty);
}
void CommandLine::option(const std::string& names, uint64_t& value, Range<uint64_t> range, const std::string& help) {
  app_->add_option(names, value, help)->capture_default_str()->check(in_range(range));
}
void CommandLine::option(const std::string& names, double& value, Range<double> range, const std::string& help) {
  app_->add_option(names, value, help)->capture_default_str()->check(in_range(range));
}
void CommandLine::option(const std::string& names, std::vector<std::string>& value, const std::string& help) {
  app_->add_option(names, value, help)->delimiter(',')->check(not_empty);
}
void CommandLine::repeated(const std::string& names, std::vector<std::string>& value, const std::string& help) {
  app_->add_option(names, value, help)->allow_extra_args(false)->check(not_empty);
}
void CommandLine::stop_at_first_word() { app_->prefix_command(); }
bool CommandLine::given(const std::string& name) const { return app_->count(name) != 0; }
std::string CommandLine::help_for(const std::string& word) const {
  std::vector<std::string> options;
  for (const CLI::Option* option : app_->get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  return fmt::format("{}see: xtrace help {}", did_you_mean(word.substr(0, word.find('=')), std::vector<std::string_view>(options.begin(), options.end())),
                     name_);
}
std::vector<std::string> CommandLine::rest() const { return app_->remaining(); }

std::optional<int> CommandLine::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    std::string help = app_->help();
    if (const size_t end = help.find("[OPTIONS]\n"); app_->get_prefix_command() && end != std::string::npos)
      help.insert(end + std::strlen("[OPTIONS]"), " -- PROGRAM [ARGUMENT]...");
    fmt::print("{}", help);
    return 0;
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string what = e.what();
    const size_t at = what.find(": At Most 1 required but received ");
    if (at == std::string::npos) return usage_error(name_, lower_case(what), fmt::format("see: xtrace help {}", name_));
    return usage_error(name_, fmt::format("{} was given {} times", what.substr(0, at), what.substr(what.rfind(' ') + 1)),
                       fmt::format("give it once; see: xtrace help {}", name_));
  } catch (const CLI::ExtrasError& e) {
    const std::vector<std::string> extras = app_->remaining();
    const auto option = std::find_if(extras.begin(), extras.end(), [](const std::string& word) { return word.starts_with("--"); });
    return usage_error(name_, lower_case(e.what()), option == extras.end() ? fmt::format("see: xtrace help {}", name_) : help_for(*option));
  } catch (const CLI::ParseError& e) {
    return usage_error(name_, lower_case(e.what()), fmt::format("see: xtrace help {}", name_));
  }
}

}  // namespace xtrace::cli
