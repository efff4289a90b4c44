// All 2^32 operands of every function, or of those named: check_mufu [FUNCTION]... Minutes on one core.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/mufu/hash.h"

int main(int argc, char** argv) {
  using namespace xtrace::mufu;
  unsigned different = 0, functions_done = 0;
  const auto all = recorded();
  for (const Function& f : functions) {
    if (argc > 1 && std::none_of(argv + 1, argv + argc, [&](const char* a) { return std::strcmp(a, f.name) == 0; })) continue;
    const auto r = std::find_if(all.begin(), all.end(), [&](const Recorded& x) { return x.name == f.name; });
    if (r == all.end()) return std::printf("h200.txt lacks %s\n", f.name), 1;
    unsigned here = 0;
    for (unsigned e = 0; e < exponents; ++e)
      if (sum_of(f, e) != r->sums[e]) ++here, std::printf("%s: differs in operands %08x and up\n", f.name, e << 23);
    std::printf("%s: %u signs and exponents, %u differ\n", f.name, exponents, here);
    std::fflush(stdout);
    different += here, ++functions_done;
  }
  if (functions_done == 0) return std::printf("no such function\n"), 64;
  return different == 0 ? 0 : 1;
}
