// Reads what the recorder needs from a cubin (instrument/cubin): kernel names, facts of a kernel, module
// variables.
#pragma once

#include <vector>

#include "capture/inject/cubin_index.h"

namespace xtrace::inject {

CubinReader cubin_reader();

// Every variable of the module that lives in memory: .nv.global* and .nv.constant3.
Result<std::vector<ModuleVariable>> module_variables(ByteView cubin);

}  // namespace xtrace::inject
