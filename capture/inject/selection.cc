#include "capture/inject/selection.h"

#include <cxxabi.h>
#include <regex.h>

#include <cstdlib>

namespace xtrace::inject {

// regcomp rather than std::regex: the matcher of libstdc++ recurses once a character and kernel names run to
// kilobytes.
struct LaunchSelector::Pattern {
  regex_t compiled{};
  bool valid = false;
  ~Pattern() {
    if (valid) regfree(&compiled);
  }
  bool matches(const std::string& text) const { return regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0; }
};

std::string demangle(const std::string& symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return out;
}

Result<LaunchSelector> LaunchSelector::make(const std::string& pattern, const bundle::LaunchSpec& spec) {
  LaunchSelector selector;
  selector.spec_ = spec;
  if (pattern.empty()) return selector;
  selector.pattern_ = std::make_shared<Pattern>();
  if (const int error = regcomp(&selector.pattern_->compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB)) {
    char text[128] = {};
    regerror(error, &selector.pattern_->compiled, text, sizeof(text));
    return bad_input("kernel: '{}' is not a POSIX extended regular expression: {}", pattern, text);
  }
  selector.pattern_->valid = true;
  return selector;
}

LaunchSelector::Answer LaunchSelector::count() {
  const uint64_t ordinal = matched_++;
  if (taken_ >= spec_.max || !spec_.covers(ordinal)) return Answer::not_asked;
  ++taken_;
  return Answer::take;
}

LaunchSelector::Answer LaunchSelector::next(const std::string& mangled) {
  if (pattern_ != nullptr) {
    auto [it, fresh] = known_.try_emplace(mangled, false);
    if (fresh) it->second = pattern_->matches(mangled) || pattern_->matches(demangle(mangled));
    if (!it->second) return Answer::other_kernel;
  }
  return count();
}

LaunchSelector::Answer LaunchSelector::next_unnamed() {
  return pattern_ != nullptr ? Answer::other_kernel : count();
}

}  // namespace xtrace::inject
