// The CUDA driver API as a table of typed function pointers, opened at run time: nothing of CUDA is linked,
// so one build runs on machines with and without a driver. Tests fill the table with functions of their own.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>
#include <string_view>

#include "base/status.h"

// The functions used: name without "cu", and the driver version whose signature is asked for (the _vNNNNN of
// cudaTypedefs.h), so that an older driver never gets called with newer arguments.
#define XTRACE_DRIVER_FUNCTIONS(X)                   \
  X(Init, 2000)                                      \
  X(DriverGetVersion, 2020)                          \
  X(GetErrorName, 6000)                              \
  X(GetErrorString, 6000)                            \
  X(DeviceGetCount, 2000)                            \
  X(DeviceGet, 2000)                                 \
  X(DeviceGetName, 2000)                             \
  X(DeviceGetAttribute, 2000)                        \
  X(DevicePrimaryCtxRetain, 7000)                    \
  X(DevicePrimaryCtxRelease, 11000)                  \
  X(CtxSetCurrent, 4000)                             \
  X(MemGetInfo, 3020)                                \
  X(MemAddressReserve, 10020)                        \
  X(MemAddressFree, 10020)                           \
  X(MemCreate, 10020)                                \
  X(MemRelease, 10020)                               \
  X(MemMap, 10020)                                   \
  X(MemUnmap, 10020)                                 \
  X(MemSetAccess, 10020)                             \
  X(MemHostAlloc, 2020)                              \
  X(MemFreeHost, 2000)                               \
  X(MemHostGetDevicePointer, 3020)                   \
  X(MemcpyHtoDAsync, 3020)                           \
  X(MemcpyDtoHAsync, 3020)                           \
  X(MemcpyDtoDAsync, 3020)                           \
  X(MemsetD8Async, 3020)                             \
  X(DeviceGetDefaultMemPool, 11020)                  \
  X(MemAllocFromPoolAsync, 11020)                    \
  X(MemFreeAsync, 11020)                             \
  X(ModuleLoadData, 2000)                            \
  X(ModuleUnload, 2000)                              \
  X(ModuleGetFunction, 2000)                         \
  X(ModuleGetGlobal, 3020)                           \
  X(FuncSetAttribute, 9000)                          \
  X(FuncGetAttribute, 2020)                          \
  X(LaunchKernelEx, 11060)                           \
  X(OccupancyMaxActiveBlocksPerMultiprocessor, 6050) \
  X(OccupancyMaxActiveClusters, 11070)               \
  X(StreamCreate, 2000)                              \
  X(StreamDestroy, 4000)                             \
  X(StreamQuery, 2000)                               \
  X(StreamWaitValue32, 11070)                        \
  X(EventCreate, 2000)                               \
  X(EventRecord, 2000)                               \
  X(EventQuery, 2000)                                \
  X(EventDestroy, 4000)                              \
  X(EventElapsedTime, 2000)

namespace xtrace::replay {

struct DriverApi {
#define XTRACE_DRIVER_MEMBER(name, version) PFN_cu##name##_v##version name = nullptr;
  XTRACE_DRIVER_FUNCTIONS(XTRACE_DRIVER_MEMBER)
#undef XTRACE_DRIVER_MEMBER

  // Opens libcuda.so.1 (it stays open for the life of the process) and fills the table. environment error
  // when there is no driver or it lacks a function. Does not call cuInit.
  static Result<DriverApi> load();

  // "CUDA_ERROR_INVALID_VALUE (invalid argument)"; the number alone when the driver does not know it.
  std::string text(CUresult result) const;
  // Converts a result to a Status of kind device (environment for lack of memory), naming the call.
  Status check(CUresult result, std::string_view call) const;
};

}  // namespace xtrace::replay

// Calls a driver function through the table and returns its failure from the enclosing function.
#define XT_CU(api, name, ...) XT_TRY_STATUS((api).check((api).name(__VA_ARGS__), "cu" #name))
