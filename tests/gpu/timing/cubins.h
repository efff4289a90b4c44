#pragma once

#include "base/bytes.h"

namespace xtrace::replay {
// kernels.cu with this many percent of work more: 0, 2, 5 or 10.
ByteView timing_cubin(unsigned extra_percent);
}  // namespace xtrace::replay
