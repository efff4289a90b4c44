#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace xtrace {

void check_failed(const char* expression, const char* file, int line, const char* why) {
  std::fprintf(stderr, "xtrace: internal error: %s (%s is false at %s:%d)\n", why, expression, file, line);
  std::abort();
}

}  // namespace xtrace
