// Calls through function pointers, CALL.REL Ra 0x0. A pointer is the function's offset in the kernel's section of code, or, where several
// kernels share it, what a table in constant bank 2 of each makes into that [nvcc 13.0, sm_75 to sm_100]. Kernels store pointers and compare
// them, so they keep their values: in spliced code, where functions have moved by unlike distances, these calls go by a table of branches
// that lie as far from its base as the functions did from the beginning of the section. In linked code (linked_code.h) a pointer is an address
// of the recorded process, and the calls have a base of their own.
#pragma once

#include "instrument/code.h"

namespace xtrace::instrument {

// Empty where a call through a register has no function to lead to, or two have unlike bases: it may lead anywhere then.
FunctionPointers find_function_pointers(const Code& code, const cubin::Image& image, const cubin::KernelInfo& info);

// The table that stands at `pc`: a branch for each function that pointers may lead to, to its label (by instruction), and traps between them.
Result<std::vector<sass::RawInst>> branches_of_pointers(const Code& code, uint32_t pc, const std::vector<uint32_t>& label);

}  // namespace xtrace::instrument
