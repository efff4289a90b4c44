#include "capture/inject/driver_calls.h"

#include <cupti.h>

namespace xtrace::inject {
namespace {

#define XT_CALL(name, cls)                                    \
  {                                                           \
    CUPTI_DRIVER_TRACE_CBID_##name, #name, CallClass::cls, {} \
  }
#define XT_IGNORED(name, why) \
  { CUPTI_DRIVER_TRACE_CBID_##name, #name, CallClass::ignored, why }
constexpr std::string_view old_abi = "32-bit or pre-3.2 form; no current library calls it";
constexpr std::string_view host =
    "host memory; found by asking the driver when a kernel is given its address";
constexpr std::string_view graphics = "graphics interoperation; found by asking the driver";
constexpr std::string_view query = "asks only";

constexpr DriverCall table[] = {
    XT_CALL(cuLaunchKernel, launch_kernel),
    XT_CALL(cuLaunchKernel_ptsz, launch_kernel),
    XT_CALL(cuLaunchKernelEx, launch_kernel_ex),
    XT_CALL(cuLaunchKernelEx_ptsz, launch_kernel_ex),
    XT_CALL(cuLaunchCooperativeKernel, launch_cooperative),
    XT_CALL(cuLaunchCooperativeKernel_ptsz, launch_cooperative),
    XT_CALL(cuLaunch, launch_legacy),
    XT_CALL(cuLaunchGrid, launch_legacy),
    XT_CALL(cuLaunchGridAsync, launch_legacy),
    XT_CALL(cuLaunchCooperativeKernelMultiDevice, launch_multi_device),
    XT_CALL(cuGraphLaunch, launch_graph),
    XT_CALL(cuGraphLaunch_ptsz, launch_graph),
    XT_CALL(cuGraphInstantiate, graph_instantiate),
    XT_CALL(cuGraphInstantiate_v2, graph_instantiate),
    XT_CALL(cuGraphInstantiateWithFlags, graph_instantiate),
    XT_CALL(cuGraphInstantiateWithParams, graph_instantiate),
    XT_CALL(cuGraphInstantiateWithParams_ptsz, graph_instantiate),
    XT_CALL(cuGraphExecDestroy, graph_destroy_exec),
    XT_CALL(cuGraphExecKernelNodeSetParams, graph_set_kernel),
    XT_CALL(cuGraphExecKernelNodeSetParams_v2, graph_set_kernel_v2),
    XT_CALL(cuGraphExecMemcpyNodeSetParams, graph_set_memcpy),
    XT_CALL(cuGraphExecMemsetNodeSetParams, graph_set_memset),
    XT_CALL(cuGraphExecNodeSetParams, graph_set_node),
    XT_CALL(cuGraphExecChildGraphNodeSetParams, graph_set_other),
    XT_CALL(cuGraphExecHostNodeSetParams, graph_set_other),
    XT_CALL(cuGraphExecEventRecordNodeSetEvent, graph_set_other),
    XT_CALL(cuGraphExecEventWaitNodeSetEvent, graph_set_other),
    XT_CALL(cuGraphExecExternalSemaphoresSignalNodeSetParams, graph_set_other),
    XT_CALL(cuGraphExecExternalSemaphoresWaitNodeSetParams, graph_set_other),
    XT_CALL(cuGraphExecBatchMemOpNodeSetParams, graph_set_other),
    XT_CALL(cuGraphNodeSetEnabled, graph_set_enabled),
    XT_IGNORED(cuGraphExecGetFlags, query),
    XT_CALL(cuGraphExecUpdate, graph_update),
    XT_CALL(cuGraphExecUpdate_v2, graph_update),
    XT_IGNORED(cuLaunchHostFunc, "runs on the host"),
    XT_IGNORED(cuLaunchHostFunc_ptsz, "runs on the host"),

    XT_CALL(cuMemAlloc_v2, alloc),
    XT_CALL(cuMemAllocPitch_v2, alloc_pitch),
    XT_CALL(cuMemAllocManaged, alloc_managed),
    XT_CALL(cuMemAllocAsync, alloc_async),
    XT_CALL(cuMemAllocAsync_ptsz, alloc_async),
    XT_CALL(cuMemAllocFromPoolAsync, alloc_async),
    XT_CALL(cuMemAllocFromPoolAsync_ptsz, alloc_async),
    XT_CALL(cuMemMap, map),
    XT_CALL(cuMemFree_v2, free),
    XT_CALL(cuMemFreeAsync, free),
    XT_CALL(cuMemFreeAsync_ptsz, free),
    XT_CALL(cuMemUnmap, unmap),
    XT_IGNORED(cuMemAlloc, old_abi),
    XT_IGNORED(cu64MemAlloc, old_abi),
    XT_IGNORED(cuMemAllocPitch, old_abi),
    XT_IGNORED(cu64MemAllocPitch, old_abi),
    XT_IGNORED(cuMemFree, old_abi),
    XT_IGNORED(cu64MemFree, old_abi),
    XT_IGNORED(cuMemAllocHost, host),
    XT_IGNORED(cuMemAllocHost_v2, host),
    XT_IGNORED(cuMemFreeHost, host),
    XT_IGNORED(cuMemHostAlloc, host),
    XT_IGNORED(cu64MemHostAlloc, host),
    XT_IGNORED(cuMemHostAlloc_v2, host),
    XT_IGNORED(cuMemMapArrayAsync, "sparse arrays: textures are not recorded"),
    XT_IGNORED(cuMemMapArrayAsync_ptsz, "sparse arrays: textures are not recorded"),
    XT_IGNORED(cuMemAddressFree, "gives back addresses; what was mapped there was unmapped before"),
    XT_IGNORED(cuMemGetAllocationGranularity, query),
    XT_IGNORED(cuMemGetAllocationPropertiesFromHandle, query),
    XT_IGNORED(cuMemRetainAllocationHandle, query),
    XT_IGNORED(cuGraphAddMemAllocNode, "allocates when its graph runs; found by asking the driver"),
    XT_IGNORED(cuGraphAddMemFreeNode, "frees when its graph runs"),
    XT_IGNORED(cuGraphMemAllocNodeGetParams, query),
    XT_IGNORED(cuGraphMemFreeNodeGetParams, query),
    XT_IGNORED(cuGraphicsUnmapResources, graphics),
    XT_IGNORED(cuGraphicsUnmapResources_ptsz, graphics),
    XT_IGNORED(cuD3D10UnmapResources, graphics),
    XT_IGNORED(cuD3D9UnmapResources, graphics),
    XT_IGNORED(cuD3D9UnmapVertexBuffer, graphics),
    XT_IGNORED(cuGLUnmapBufferObject, graphics),
    XT_IGNORED(cuGLUnmapBufferObjectAsync, graphics),
    XT_IGNORED(cuBinaryFree, "frees host memory of the linker"),
    XT_IGNORED(cuNNSetAllocator, "private; never seen"),

    XT_CALL(cuModuleLoad, make_module),
    XT_CALL(cuModuleLoadData, make_module),
    XT_CALL(cuModuleLoadDataEx, make_module),
    XT_CALL(cuModuleLoadFatBinary, make_module),
    XT_CALL(cuModuleUnload, drop_handles),
    XT_CALL(cuModuleGetFunction, make_function),
    XT_CALL(cuLibraryLoadData, make_library),
    XT_CALL(cuLibraryLoadFromFile, make_library),
    XT_CALL(cuLibraryUnload, drop_handles),
    XT_CALL(cuLibraryGetKernel, make_kernel),
    XT_CALL(cuLibraryGetModule, library_module),
    XT_CALL(cuKernelGetFunction, kernel_function),
    XT_CALL(cuFuncLoad, load_function),

    XT_CALL(cuStreamBeginCapture, capture_begin),
    XT_CALL(cuStreamBeginCapture_ptsz, capture_begin),
    XT_CALL(cuStreamBeginCapture_v2, capture_begin),
    XT_CALL(cuStreamBeginCapture_v2_ptsz, capture_begin),
    XT_CALL(cuStreamBeginCaptureToGraph, capture_begin),
    XT_CALL(cuStreamBeginCaptureToGraph_ptsz, capture_begin),
    XT_CALL(cuStreamEndCapture, capture_end),
    XT_CALL(cuStreamEndCapture_ptsz, capture_end),
    XT_CALL(cuStreamDestroy, stream_destroy),
    XT_CALL(cuStreamDestroy_v2, stream_destroy),
};
#undef XT_CALL
#undef XT_IGNORED

bool contains(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

}  // namespace

std::span<const DriverCall> driver_calls() { return table; }

bool must_be_listed(std::string_view name) {
  for (const std::string_view word : {"Launch", "Alloc", "Free", "MemMap", "Unmap", "GraphExec", "GraphInstantiate"})
    if (contains(name, word)) return true;
  return false;
}

CallClass class_of_unlisted(std::string_view name) {
  if (contains(name, "Launch")) return CallClass::launch_unknown;
  if (name.starts_with("cuGraphExec")) return CallClass::graph_set_other;
  if (contains(name, "Graph")) return CallClass::ignored;  // graph nodes do nothing until a launch
  for (const std::string_view word :
       {"Memcpy", "Memset", "WriteValue", "BatchMemOp", "MemPrefetch", "MemDiscard"})
    if (contains(name, word)) return CallClass::writes;
  return CallClass::ignored;
}

}  // namespace xtrace::inject
