#include "capture/inject/driver_api.h"

#include <dlfcn.h>

namespace xtrace::inject {

Result<DriverApi> DriverApi::load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return environment("libcuda.so.1 is not loaded in this process");
  DriverApi api;
#define XT_OPTIONAL(member, symbol) \
  api.member = reinterpret_cast<decltype(api.member)>(dlsym(library, symbol));
#define XT_REQUIRED(member, symbol) \
  XT_OPTIONAL(member, symbol)       \
  if (api.member == nullptr) return environment("this libcuda.so.1 has no {}", symbol);
  XT_DRIVER_REQUIRED(XT_REQUIRED)
  XT_DRIVER_OPTIONAL(XT_OPTIONAL)
  XT_DRIVER_GRAPHS(XT_OPTIONAL)
#undef XT_REQUIRED
#undef XT_OPTIONAL
  return api;
}

bool broken_for_good(CUresult r) {
  switch (r) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ECC_UNCORRECTABLE: return true;
    default: return false;
  }
}

std::string DriverApi::name_of(CUresult result) const {
  const char* text = nullptr;
  if (cuGetErrorName(result, &text) == CUDA_SUCCESS && text != nullptr) return text;
  return fmt::format("CUresult {}", static_cast<int>(result));
}

}  // namespace xtrace::inject
