// The compiled kernels, inside the program: it runs far from where it was built.
#include "tests/gpu/replay/cubin.h"

asm(".section .rodata\n"
    ".balign 16\n"
    "xtrace_test_cubin_begin: .incbin \"" XTRACE_TEST_CUBIN
    "\"\n"
    "xtrace_test_cubin_end: .byte 0\n"
    ".previous\n");
extern "C" {
extern const std::byte begin_of_cubin[] asm("xtrace_test_cubin_begin");
extern const std::byte end_of_cubin[] asm("xtrace_test_cubin_end");
}

namespace xtrace::replay {
ByteView test_cubin() { return {begin_of_cubin, end_of_cubin}; }
}  // namespace xtrace::replay
