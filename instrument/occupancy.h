// How many CTAs fit on an SM, as the CUDA programming guide's table of limits says: used to find how far the register
// count may rise at no cost. The driver's own answer is reported beside it after loading.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "instrument/instrument.h"

namespace xtrace::instrument {

// CTAs of `shape` per SM with `registers` a thread and `static_shared` bytes (KernelInfo::shared_bytes); 0 when the launch can not run at all.
uint32_t ctas_per_sm(unsigned sm, const LaunchShape& shape, uint32_t registers, uint32_t static_shared);

// Largest register count >= `registers` with the same occupancy (and at most 255).
uint32_t free_register_count(unsigned sm, const LaunchShape& shape, uint32_t registers, uint32_t static_shared);
// Largest register count with which the launch can still run.
uint32_t launchable_register_count(unsigned sm, const LaunchShape& shape);

}  // namespace xtrace::instrument
