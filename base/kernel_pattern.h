// Which kernels are meant: --kernel of all commands, the recorder's as well, and the sections of a policy.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

struct re_pattern_buffer;  // regex_t of <regex.h>

namespace xtrace {

// A POSIX extended regular expression: the matcher of std::regex recurses once a character, and kernel names run to kilobytes.
class KernelPattern {
 public:
  static Result<KernelPattern> parse(const std::string& text);
  // Within the mangled or the demangled name.
  bool matches(const std::string& kernel, const std::string& kernel_text) const;

 private:
  std::shared_ptr<re_pattern_buffer> compiled_;
};

}  // namespace xtrace
