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
  X(cuKernelGetFunction, "cuKernelGetFunction")   \
  X(cuKernelGetLibrary, "cuKernelGetLibrary")     \
  X(cuKernelGetName, "cuKernelGetName")           \
  X(cuKernelGetParamInfo, "cuKernelGetParamInfo") \
  X(cuLibraryGetGlobal, "cuLibraryGetGlobal")     \
  X(cuLibraryGetKernel, "cuLibraryGetKernel")     \
  X(cuMemGetAccess, "cuMemGetAccess")

struct DriverApi {
#define XT_MEMBER(member, symbol) decltype(&::member) member = nullptr;
  XT_DRIVER_REQUIRED(XT_MEMBER)
  XT_DRIVER_OPTIONAL(XT_MEMBER)
#undef XT_MEMBER

  // Never loads a second driver: libcuda.so.1 is in the process already.
  static Result<DriverApi> load();
  // "CUDA_ERROR_INVALID_VALUE"
  std::string name_of(CUresult result) const;
};

}  // namespace xtrace::inject
