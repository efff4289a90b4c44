#include "base/notice.h"

#include <cstdio>
#include <string>

namespace xtrace {

void say(fmt::string_view text, fmt::format_args values) {
  const std::string said = fmt::vformat(text, values);
  std::fwrite(said.data(), 1, said.size(), stderr);
}

}  // namespace xtrace
