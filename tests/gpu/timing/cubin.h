#pragma once

#include "base/bytes.h"

namespace xtrace::replay {
ByteView timing_cubin();   // kernels.cu
}  // namespace xtrace::replay
