// The constant banks that a kernel reads: bank 0 (geometry, stack, parameters) as the driver lays it out on
// sm_90, banks 2, 3 and 4 from the cubin, with the recorded contents of __constant__ variables and the
// recorded addresses of module variables.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "capture/bundle/launch_record.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/arch.h"
#include "replay/backend.h"

namespace xtrace::replay::interp {

// Eight bytes that hold the address of something that was not recorded: a function of the driver, a string.
// Who reads them is refused.
struct UnknownConstant {
  unsigned bank = 0;
  uint64_t offset = 0;
  std::string symbol;
};

struct ConstantBanks {
  std::map<unsigned, Bytes> bytes;
  std::vector<UnknownConstant> unknown;
  uint64_t parameters = 0;  // their offset in bank 0

  ByteView bank(unsigned number) const;  // empty when the kernel has none
  // The one that a read touches, or nullptr.
  const UnknownConstant* unknown_in(unsigned bank, uint64_t offset, uint64_t size) const;
};

// The recorded region of a module's variable; nullptr: there is none.
const bundle::Region* region_of(const LaunchImage& launch, const std::string& symbol);

Result<ConstantBanks> constant_banks(const cubin::Image& image, const cubin::KernelInfo& kernel,
                                     const sass::Arch& arch, const LaunchImage& launch, uint32_t local_bytes);

}  // namespace xtrace::replay::interp
