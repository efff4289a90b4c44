#include "replay/driver/driver_api.h"

#include <dlfcn.h>

namespace xtrace::replay {

Result<DriverApi> DriverApi::load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return with_hint(environment("no CUDA driver: {}", why != nullptr ? why : "libcuda.so.1 did not open"),
                     "replay needs a machine with an NVIDIA GPU and its driver");
  }
  const auto get = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr)
    return with_hint(environment("the CUDA driver is too old: it has no cuGetProcAddress_v2"),
                     "a driver for CUDA 12.0 or later is needed");
  DriverApi api;
  void* function = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
#define XTRACE_DRIVER_LOAD(name, version)                                                               \
  function = nullptr;                                                                                   \
  if (get("cu" #name, &function, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) != CUDA_SUCCESS || \
      found != CU_GET_PROC_ADDRESS_SUCCESS || function == nullptr)                                      \
    return with_hint(environment("the CUDA driver does not offer cu" #name " of version {}", version),  \
                     "a driver for CUDA 12.0 or later is needed");                                      \
  api.name = reinterpret_cast<decltype(api.name)>(function);
  XTRACE_DRIVER_FUNCTIONS(XTRACE_DRIVER_LOAD)
#undef XTRACE_DRIVER_LOAD
  return api;
}

std::string DriverApi::text(CUresult result) const {
  const char *name = nullptr, *what = nullptr;
  if (GetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr)
    return fmt::format("CUDA error {}", static_cast<int>(result));
  if (GetErrorString(result, &what) != CUDA_SUCCESS || what == nullptr) return name;
  return fmt::format("{} ({})", name, what);
}

Status DriverApi::check(CUresult result, std::string_view call) const {
  if (result == CUDA_SUCCESS) return {};
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return environment("{} failed: {}", call, text(result));
  return device("{} failed: {}", call, text(result));
}

}  // namespace xtrace::replay
