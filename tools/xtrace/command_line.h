// The flags and positional arguments of one command, parsed by CLI11. `--help` shows worked examples before
// anything else. A mistake on the command line ends with exit status 64.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace xtrace::cli {

// The values that an option takes, both ends included; the option says so where another is given.
template <typename T>
struct Range {
  T low, high;
};
// Of options that several commands have.
inline constexpr Range<uint64_t> any_seed{0, 0xffff'ffff}, any_count{1, 1'000'000}, any_device{0, 1023};
inline constexpr Range<double> any_seconds{0.001, 1e6};

struct Example {
  std::string_view command, what;
};

class CommandLine {
 public:
  // `name` is a row of commands(): its summary heads the help.
  CommandLine(std::string_view name, std::initializer_list<Example> examples);
  ~CommandLine();

  // Required positional argument, in the order of the calls.
  void positional(const std::string& name, std::string& value, const std::string& help);
  void optional_positional(const std::string& name, std::string& value, const std::string& help);
  // `names` as CLI11 writes them: "--json", "-o,--output".
  void flag(const std::string& names, bool& value, const std::string& help);
  void option(const std::string& names, std::string& value, const std::string& help);
  void option(const std::string& names, uint64_t& value, Range<uint64_t> range, const std::string& help);
  void option(const std::string& names, double& value, Range<double> range, const std::string& help);
  void option(const std::string& names, std::vector<std::string>& value, const std::string& help);
  // One value, commas and all, each time it is given.
  void repeated(const std::string& names, std::vector<std::string>& value, const std::string& help);
  // What follows the options is for another program: parse() stops at the first word that is no option of this
  // command, and rest() gives that word and all behind it.
  void stop_at_first_word();
  // Was this option on the command line?
  bool given(const std::string& name) const;
  std::vector<std::string> rest() const;
  // The hint below a word that is no option of this command: which one may have been meant.
  std::string help_for(const std::string& word) const;

  // An exit status when the command ends here: help was asked for (0), or the line is wrong (64).
  std::optional<int> parse(int argc, char** argv);

 private:
  std::string name_;
  std::unique_ptr<CLI::App> app_;
};

}  // namespace xtrace::cli
