// What .nv.info says of places in the code of a function, for a kernel whose section got a copy of that code.
#pragma once

#include "instrument/cubin/kernel_info.h"

namespace xtrace::cubin {

// Appends the instruction offsets in the records of the function of section `text`, moved on by `at`, to those of the kernel. Unsupported by
// name: an attribute of which it is not known where its offsets are.
Status join_info(Image& image, const KernelInfo& kernel, uint32_t text, uint32_t at);

}  // namespace xtrace::cubin
