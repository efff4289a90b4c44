// The parameter block of a launch, from either of the two forms in which an application hands it over. Bytes
// between parameters are zero: the application never defines them, and equal launches must give equal blocks.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "capture/bundle/launch_record.h"

namespace xtrace::inject {

struct ParamBlock {
  std::vector<bundle::Param> params;  // by offset
  Bytes bytes;
};

// Checks a layout that came from the driver or from a cubin: sorted by offset, disjoint, at most 64 KiB.
Result<std::vector<bundle::Param>> checked_layout(std::vector<bundle::Param> params);

// `values[i]` points to the value of parameter i, in the order of declaration, which is the order of offsets.
Result<ParamBlock> from_pointers(std::vector<bundle::Param> layout, const void* const* values);
// `buffer` is the block as CU_LAUNCH_PARAM_BUFFER_POINTER gives it.
Result<ParamBlock> from_buffer(std::vector<bundle::Param> layout, const void* buffer, size_t size);

}  // namespace xtrace::inject
