// In the injected library a broken invariant must not abort the application: it throws, and the border of
// every callback turns it into the end of the recording. Linked ahead of base/check.cc, into the shared
// library only.
#include <stdexcept>
#include <string>

#include "base/check.h"

namespace xtrace {

void check_failed(const char* expression, const char* file, int line, const char* why) {
  throw std::logic_error(std::string(why) + " (" + expression + ", " + file + ":" + std::to_string(line) +
                         ")");
}

}  // namespace xtrace
