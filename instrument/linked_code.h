// Code of separate compilation (nvcc -rdc=true), put into the form of whole-program compilation, in which everything else here reads it.
// Linked, each function has a section of its own, and all go by absolute addresses that the loader fills in [nvcc 13.0, sm_80 and sm_90]:
//   MOV R20, 32@lo(kernel + next); MOV R21, 32@hi(kernel + next); CALL.ABS.NOINC function    R_CUDA_ABS32_LO_32, _HI_32, R_CUDA_ABS47_34
//   CALL.ABS.NOINC R8                                     a pointer: 64@function in a variable or a vtable, or 32@lo, 32@hi of it in MOV
//   RET.ABS.NODEC R20
// Here the kernel's section gets a copy of every function that it may reach, calls and returns are relative to it (CALL.REL, RET.REL), and
// return addresses are offsets in it. Recorded memory holds pointers as they were in the recorded process, and kernels store and compare
// them: they keep those values, and the functions that they point to lie as far from each other as they did. A call through one is
// CALL.REL R8 with the distance from there to here as its base, which is known before loading.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "instrument/cubin/kernel_info.h"

namespace xtrace::instrument {

// Where functions lay in the recorded process, by index of their symbols.
using FunctionAddresses = std::map<uint32_t, uint64_t>;

// The kernel's code refers to functions by relocations.
bool is_linked(const cubin::Image& image, const cubin::KernelInfo& info);

// Of code that does. Unsupported by name: a function to which pointers may lead whose address is not among `addresses`, and whatever refers to
// a function in a way that is not known. Where no pointer is involved, the code itself can still be loaded: `why_not`, and no cubin.
struct WholeProgram {
  Bytes cubin;
  std::string why_not;
};
Result<WholeProgram> as_whole_program(cubin::Image image, std::string_view kernel, const FunctionAddresses& addresses);

// A function in the kernel's section to which pointers may lead: it has the symbol of the section that was its own.
bool is_pointed_to(const cubin::LocalFunction& function);

}  // namespace xtrace::instrument
