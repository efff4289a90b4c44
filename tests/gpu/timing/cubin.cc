// The compiled kernels, inside the program: it runs far from where it was built.
#include "tests/gpu/timing/cubin.h"

asm(".section .rodata\n.balign 16\n"
    "xtrace_timing_begin: .incbin \"" XTRACE_TIMING_CUBIN "\"\n"
    "xtrace_timing_end: .byte 0\n.previous\n");
extern "C" const std::byte timing_begin[] asm("xtrace_timing_begin");
extern "C" const std::byte timing_end[] asm("xtrace_timing_end");

namespace xtrace::replay {
ByteView timing_cubin() { return {timing_begin, timing_end}; }
}  // namespace xtrace::replay
