#include "base/kernel_pattern.h"

#include <regex.h>

namespace xtrace {

Result<KernelPattern> KernelPattern::parse(const std::string& text) {
  auto compiled = std::make_unique<regex_t>();
  if (const int error = regcomp(compiled.get(), text.c_str(), REG_EXTENDED | REG_NOSUB); error != 0) {
    char why[128] = {};
    regerror(error, compiled.get(), why, sizeof(why));
    return with_hint(bad_input("malformed regular expression '{}': {}", text, why), "POSIX extended: ( ) [ ] { } . * + ? | ^ $ are special");
  }
  KernelPattern pattern;
  pattern.compiled_ = {compiled.release(), [](regex_t* r) {
                         regfree(r);
                         delete r;
                       }};
  return pattern;
}

bool KernelPattern::matches(const std::string& kernel, const std::string& kernel_text) const {
  const auto within = [&](const std::string& name) { return regexec(compiled_.get(), name.c_str(), 0, nullptr, 0) == 0; };
  return within(kernel) || within(kernel_text);
}

}  // namespace xtrace
