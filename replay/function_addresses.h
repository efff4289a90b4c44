// Where the functions of linked code (nvcc -rdc=true) lay in the recorded process. The driver does not say; but variables that begin with the
// address of a function (tables, vtables) were recorded.
#pragma once

#include <map>

#include "base/status.h"
#include "replay/backend.h"

namespace xtrace::replay {

// By the index of the function's symbol in the launch's code. Not those of which two variables hold unlike addresses: the program has
// written to one of them.
Result<std::map<uint32_t, uint64_t>> recorded_function_addresses(const LaunchImage& launch);

}  // namespace xtrace::replay
