#pragma once

#include "base/bytes.h"

namespace xtrace::replay {
// kernels.cu, compiled by nvcc.
ByteView test_cubin();
}  // namespace xtrace::replay
