// Which launches are recorded: a kernel name pattern and a LaunchSpec over the launches that match it.
// Not thread-safe: the recorder calls it under its lock.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "base/kernel_pattern.h"
#include "base/status.h"
#include "capture/bundle/record_settings.h"

namespace xtrace::inject {

// The demangled form of a C++ symbol, or the symbol itself.
std::string demangle(const std::string& symbol);

class LaunchSelector {
 public:
  // bad_input when the pattern is no POSIX extended regular expression. An empty pattern matches every
  // kernel.
  static Result<LaunchSelector> make(const std::string& pattern, const bundle::LaunchSpec& spec);

  enum class Answer {
    take,
    other_kernel,  // the name does not match
    not_asked,     // the name matches, the ordinal is not asked for
  };
  // Counts the launch when its kernel matches.
  Answer next(const std::string& mangled);
  // A launch of something that has no single kernel name (a graph): matches only when every kernel does.
  Answer next_unnamed();

  bool has_pattern() const { return pattern_.has_value(); }
  uint64_t matched() const { return matched_; }
  // No later launch can be taken.
  bool exhausted() const { return taken_ >= spec_.max || spec_.over_at(matched_); }

 private:
  Answer count();

  std::optional<KernelPattern> pattern_;
  bundle::LaunchSpec spec_;
  uint64_t matched_ = 0, taken_ = 0;
  std::unordered_map<std::string, bool> known_;  // mangled name -> matches
};

}  // namespace xtrace::inject
