// What a kernel takes of an SM of sm_90.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace xtrace::replay::interp {

// CTAs that fit on an SM. [CUDA C++ programming guide: limits of compute capability 9.0]
uint32_t ctas_per_sm(const Dim3& block, uint32_t registers, uint32_t shared_bytes);

}  // namespace xtrace::replay::interp
