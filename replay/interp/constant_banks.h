// The constant banks that a kernel reads: bank 0 (geometry, stack, parameters) as the driver lays it out on
// sm_90, banks 2, 3 and 4 from the cubin, with the recorded contents of __constant__ variables and the
// recorded addresses of module variables.
#pragma once

#include <map>

#include "capture/bundle/launch_record.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/arch.h"
#include "replay/backend.h"

namespace xtrace::replay::interp {

using ConstantBanks = std::map<unsigned, Bytes>;

// unsupported, with the name, when a constant holds the address of something that was not recorded.
Result<ConstantBanks> constant_banks(const cubin::Image& image, const cubin::KernelInfo& kernel,
                                     const sass::Arch& arch, const LaunchImage& launch, uint32_t local_bytes);

}  // namespace xtrace::replay::interp
