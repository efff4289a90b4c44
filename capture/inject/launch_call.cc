#include "capture/inject/launch_call.h"

#include <cupti.h>

#include <cstring>

namespace xtrace::inject {
namespace {

struct AttributeName {
  uint32_t id;
  const char* name;
};
constexpr AttributeName attribute_names[] = {
    {CU_LAUNCH_ATTRIBUTE_IGNORE, "ignore"},
    {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, "access_policy_window"},
    {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, "cooperative"},
    {CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, "synchronization_policy"},
    {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, "cluster_dimension"},
    {CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, "cluster_scheduling_policy_preference"},
    {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, "programmatic_stream_serialization"},
    {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, "programmatic_event"},
    {CU_LAUNCH_ATTRIBUTE_PRIORITY, "priority"},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, "mem_sync_domain_map"},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, "mem_sync_domain"},
    {11, "preferred_cluster_dimension"},  // numbers from 11 on: not in the headers of 12.0 [cuda.h 13.0]
    {12, "launch_completion_event"},
    {13, "device_updatable_kernel_node"},
    {14, "preferred_shared_memory_carveout"},
    {16, "nvlink_util_centric_scheduling"},
};

template <typename P>
void take_shape(LaunchCall& call, const P& p) {
  call.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
  call.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
  call.dynamic_shared = p.sharedMemBytes;
  call.stream = p.hStream;
}

void take_attributes(LaunchCall& call, const CUlaunchConfig& config) {
  for (unsigned i = 0; i < config.numAttrs && config.attrs != nullptr; ++i) {
    const CUlaunchAttribute& a = config.attrs[i];
    bundle::LaunchAttribute out;
    out.id = static_cast<uint32_t>(a.id);
    out.name = attribute_name(out.id);
    const auto* raw = reinterpret_cast<const std::byte*>(&a.value);
    out.value.assign(raw, raw + sizeof(a.value));
    if (a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      call.cluster = {a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z};
    if (a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) call.cooperative = a.value.cooperative != 0;
    call.attributes.push_back(std::move(out));
  }
}

}  // namespace

std::string attribute_name(uint32_t id) {
  for (const AttributeName& a : attribute_names)
    if (a.id == id) return a.name;
  return fmt::format("attribute_{}", id);
}

LaunchCall decode_launch(CallClass cls, const void* params) {
  LaunchCall call;
  if (cls == CallClass::launch_kernel) {
    const auto& p = *static_cast<const cuLaunchKernel_params*>(params);
    call.function = p.f;
    take_shape(call, p);
    call.kernel_params = p.kernelParams;
    call.extra = p.extra;
  } else if (cls == CallClass::launch_cooperative) {
    const auto& p = *static_cast<const cuLaunchCooperativeKernel_params*>(params);
    call.function = p.f;
    take_shape(call, p);
    call.kernel_params = p.kernelParams;
    call.cooperative = true;
  } else {
    const auto& p = *static_cast<const cuLaunchKernelEx_params*>(params);
    if (p.config != nullptr) return call_of(*p.config, p.f, p.kernelParams, p.extra);
    call.function = p.f;
    call.kernel_params = p.kernelParams;
    call.extra = p.extra;
  }
  return call;
}

LaunchCall call_of(const CUlaunchConfig& config, CUfunction function, const void* const* params, void* const* extra) {
  LaunchCall call;
  call.function = function;
  take_shape(call, config);
  take_attributes(call, config);
  call.kernel_params = params;
  call.extra = extra;
  return call;
}

std::optional<ParamBuffer> param_buffer(void* const* extra) {
  if (extra == nullptr) return std::nullopt;
  ParamBuffer buffer;
  bool found = false;
  for (size_t i = 0; i < 16; i += 2) {  // an unterminated array must not run away
    if (extra[i] == CU_LAUNCH_PARAM_END) break;
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer.data = extra[i + 1];
      found = true;
    } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      buffer.size = *static_cast<const size_t*>(extra[i + 1]);
    }
  }
  if (!found) return std::nullopt;
  return buffer;
}

}  // namespace xtrace::inject
