// The driver entry points that the recorder calls, looked up at run time in the libcuda.so.1 of the
// application: the injected library links neither it nor CUPTI. One X-macro is the table; members have the
// types of cuda.h.
#pragma once

#include <cuda.h>

#include <string>

#include "base/status.h"

namespace xtrace::inject {

// X(member, symbol): must exist.
#define XT_DRIVER_REQUIRED(X)                         \
  X(cuGetErrorName, "cuGetErrorName")                 \
  X(cuDriverGetVersion, "cuDriverGetVersion")         \
  X(cuDeviceGetName, "cuDeviceGetName")               \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute")     \
  X(cuDeviceTotalMem, "cuDeviceTotalMem_v2")          \
  X(cuDeviceGetUuid, "cuDeviceGetUuid_v2")            \
  X(cuCtxGetCurrent, "cuCtxGetCurrent")               \
  X(cuCtxSetCurrent, "cuCtxSetCurrent")               \
  X(cuCtxGetDevice, "cuCtxGetDevice")                 \
  X(cuCtxSynchronize, "cuCtxSynchronize")             \
  X(cuStreamCreate, "cuStreamCreate")                 \
  X(cuStreamSynchronize, "cuStreamSynchronize")       \
  X(cuStreamIsCapturing, "cuStreamIsCapturing")       \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2")        \
  X(cuMemHostAlloc, "cuMemHostAlloc")                 \
  X(cuPointerGetAttributes, "cuPointerGetAttributes") \
  X(cuModuleGetGlobal, "cuModuleGetGlobal_v2")        \
  X(cuModuleGetFunction, "cuModuleGetFunction")       \
  X(cuFuncGetAttribute, "cuFuncGetAttribute")         \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode")
// X(member, symbol): newer drivers only; null when absent.
#define XT_DRIVER_OPTIONAL(X)                     \
  X(cuFuncGetModule, "cuFuncGetModule")           \
  X(cuFuncGetName, "cuFuncGetName")               \
  X(cuFuncGetParamInfo, "cuFuncGetParamInfo")     \
  X(cuFuncLoad, "cuFuncLoad")                     \
  X(cuGraphNodeSetParams, "cuGraphNodeSetParams") \
  X(cuKernelGetFunction, "cuKernelGetFunction")   \
  X(cuKernelGetLibrary, "cuKernelGetLibrary")     \
  X(cuKernelGetName, "cuKernelGetName")           \
  X(cuKernelGetParamInfo, "cuKernelGetParamInfo") \
  X(cuLibraryGetGlobal, "cuLibraryGetGlobal")     \
  X(cuLibraryGetKernel, "cuLibraryGetKernel")     \
  X(cuMemAllocAsync, "cuMemAllocAsync")           \
  X(cuMemGetAccess, "cuMemGetAccess")

// X(member, symbol): what graphs are read, followed and run by. Null when absent; graph launches are then refused by name.
#define XT_DRIVER_GRAPHS(X)                                            \
  X(cuGraphChildGraphNodeGetGraph, "cuGraphChildGraphNodeGetGraph")    \
  X(cuGraphClone, "cuGraphClone")                                      \
  X(cuGraphDestroy, "cuGraphDestroy")                                  \
  X(cuGraphExecGetFlags, "cuGraphExecGetFlags")                        \
  X(cuGraphExecUpdate, "cuGraphExecUpdate_v2")                         \
  X(cuGraphGetEdges_v2, "cuGraphGetEdges_v2")                          \
  X(cuGraphGetNodes, "cuGraphGetNodes")                                \
  X(cuGraphKernelNodeGetAttribute, "cuGraphKernelNodeGetAttribute")    \
  X(cuGraphKernelNodeGetParams, "cuGraphKernelNodeGetParams_v2")       \
  X(cuGraphKernelNodeSetParams, "cuGraphKernelNodeSetParams_v2")       \
  X(cuGraphMemcpyNodeGetParams, "cuGraphMemcpyNodeGetParams")          \
  X(cuGraphMemcpyNodeSetParams, "cuGraphMemcpyNodeSetParams")          \
  X(cuGraphMemsetNodeGetParams, "cuGraphMemsetNodeGetParams")          \
  X(cuGraphMemsetNodeSetParams, "cuGraphMemsetNodeSetParams")          \
  X(cuGraphNodeGetType, "cuGraphNodeGetType")                          \
  X(cuLaunchKernelEx, "cuLaunchKernelEx")                              \
  X(cuMemAlloc, "cuMemAlloc_v2")                                       \
  X(cuMemcpy3DAsync, "cuMemcpy3DAsync_v2")                             \
  X(cuMemsetD2D16Async, "cuMemsetD2D16Async")                          \
  X(cuMemsetD2D32Async, "cuMemsetD2D32Async")                          \
  X(cuMemsetD2D8Async, "cuMemsetD2D8Async")                            \
  X(cuMemsetD16Async, "cuMemsetD16Async")                              \
  X(cuMemsetD32Async, "cuMemsetD32Async")                              \
  X(cuMemsetD8Async, "cuMemsetD8Async")                                \
  X(cuModuleLoadData, "cuModuleLoadData")

struct DriverApi {
#define XT_MEMBER(member, symbol) decltype(&::member) member = nullptr;
  XT_DRIVER_REQUIRED(XT_MEMBER)
  XT_DRIVER_OPTIONAL(XT_MEMBER)
  XT_DRIVER_GRAPHS(XT_MEMBER)
#undef XT_MEMBER

  // Never loads a second driver: libcuda.so.1 is in the process already.
  static Result<DriverApi> load();
  // "CUDA_ERROR_INVALID_VALUE"
  std::string name_of(CUresult result) const;
};

// Errors of an earlier kernel that every later call of the context answers with.
bool broken_for_good(CUresult result);

// Ends the function around it with "CALL failed: ERROR" when the driver's call does not succeed.
#define XT_TRY_DRIVER(api, call, ...)                                                                \
  do {                                                                                               \
    if (const CUresult r_ = (api).call(__VA_ARGS__); r_ != CUDA_SUCCESS)                             \
      return unsupported("{} failed: {}", #call, (api).name_of(r_));                                 \
  } while (false)

}  // namespace xtrace::inject
