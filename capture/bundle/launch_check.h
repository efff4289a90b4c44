// The rules that a launch obeys (the "Must" of bundle.capnp). The writer refuses to store what breaks one and
// the reader refuses to hand it out, by the same function.
#pragma once

#include "base/status.h"
#include "capture/bundle/launch_record.h"

namespace xtrace::bundle {

constexpr uint64_t chunks_of(uint64_t size) { return size / chunk_bytes + (size % chunk_bytes != 0); }
constexpr uint64_t attribute_bytes = 64;  // sizeof(CUlaunchAttributeValue) [CUDA 13.0 headers]

Status check_launch(const LaunchRecord& launch);

}  // namespace xtrace::bundle
