#include "capture/inject/selection.h"

#include <cxxabi.h>

#include <cstdlib>

namespace xtrace::inject {

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
  XT_TRY(selector.pattern_, KernelPattern::parse(pattern));
  return selector;
}

LaunchSelector::Answer LaunchSelector::count() {
  const uint64_t ordinal = matched_++;
  if (taken_ >= spec_.max || !spec_.covers(ordinal)) return Answer::not_asked;
  ++taken_;
  return Answer::take;
}

LaunchSelector::Answer LaunchSelector::next(const std::string& mangled) {
  if (pattern_) {
    auto [it, fresh] = known_.try_emplace(mangled, false);
    if (fresh) it->second = pattern_->matches(mangled, demangle(mangled));
    if (!it->second) return Answer::other_kernel;
  }
  return count();
}

LaunchSelector::Answer LaunchSelector::next_unnamed() {
  return pattern_ ? Answer::other_kernel : count();
}

}  // namespace xtrace::inject
