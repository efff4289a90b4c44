// The three launch calls of the driver, decoded from what CUPTI hands over into one form.
#pragma once

#include <cuda.h>

#include <optional>
#include <string>
#include <vector>

#include "capture/bundle/launch_record.h"
#include "capture/inject/driver_calls.h"

namespace xtrace::inject {

struct LaunchCall {
  CUfunction function = nullptr;  // may be a CUkernel in disguise: kernel_handle.h
  Dim3 grid, block, cluster{0, 0, 0};
  uint32_t dynamic_shared = 0;
  CUstream stream = nullptr;
  bool cooperative = false;
  const void* const* kernel_params = nullptr;
  void* const* extra = nullptr;
  std::vector<bundle::LaunchAttribute> attributes;
};

// `params` is CUpti_CallbackData::functionParams of a call of this class.
LaunchCall decode_launch(CallClass cls, const void* params);
// The same of a call that the recorder itself is about to make.
LaunchCall call_of(const CUlaunchConfig& config, CUfunction function, const void* const* params, void* const* extra);

// "cluster_dimension"; "attribute_N" for ids that this build does not know.
std::string attribute_name(uint32_t id);

// CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE of an `extra` array; nullopt when it has no buffer.
struct ParamBuffer {
  const void* data = nullptr;
  size_t size = 0;
};
std::optional<ParamBuffer> param_buffer(void* const* extra);

}  // namespace xtrace::inject
