// The compiled kernels, inside the program: it runs far from where it was built.
#include "tests/gpu/timing/cubins.h"

#define XTRACE_CUBIN(extra)                                                                              \
  asm(".section .rodata\n.balign 16\n"                                                                   \
      "xtrace_timing_begin_" #extra ": .incbin \"" XTRACE_TIMING_CUBINS "/extra" #extra ".cubin\"\n"     \
      "xtrace_timing_end_" #extra ": .byte 0\n.previous\n");                                             \
  extern "C" const std::byte begin_##extra[] asm("xtrace_timing_begin_" #extra);                         \
  extern "C" const std::byte end_##extra[] asm("xtrace_timing_end_" #extra);

XTRACE_CUBIN(0)
XTRACE_CUBIN(2)
XTRACE_CUBIN(5)
XTRACE_CUBIN(10)

namespace xtrace::replay {
ByteView timing_cubin(unsigned extra_percent) {
  switch (extra_percent) {
    case 2: return {begin_2, end_2};
    case 5: return {begin_5, end_5};
    case 10: return {begin_10, end_10};
    default: return {begin_0, end_0};
  }
}
}  // namespace xtrace::replay
