#include "capture/inject/kernel_handle.h"

namespace xtrace::inject {
namespace {

// Index by index until the driver says that there is no such parameter. False when the very first call fails
// for another reason than the index, or when the driver has no such call.
template <typename Call>
bool read_layout(Call&& call, std::vector<bundle::Param>* layout) {
  layout->clear();
  for (size_t i = 0; i < 8192; ++i) {
    size_t offset = 0, size = 0;
    const CUresult r = call(i, &offset, &size);
    if (r == CUDA_ERROR_INVALID_VALUE) return true;
    if (r != CUDA_SUCCESS) return false;
    layout->push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(size)});
  }
  return false;
}

bool has_first_param(const DriverApi& api, CUfunction f) {
  size_t offset = 0, size = 0;
  return api.cuFuncGetParamInfo != nullptr && api.cuFuncGetParamInfo(f, 0, &offset, &size) == CUDA_SUCCESS;
}
bool has_first_param(const DriverApi& api, CUkernel k) {
  size_t offset = 0, size = 0;
  return api.cuKernelGetParamInfo != nullptr &&
         api.cuKernelGetParamInfo(k, 0, &offset, &size) == CUDA_SUCCESS;
}

enum class Kind { function, kernel, unknown };

// A function without parameters fails the first two questions, so two more are needed.
Kind kind_of(const DriverApi& api, CUfunction launched) {
  const auto as_kernel = reinterpret_cast<CUkernel>(launched);
  if (has_first_param(api, launched)) return Kind::function;
  if (has_first_param(api, as_kernel)) return Kind::kernel;
  CUmodule module = nullptr;
  if (api.cuFuncGetModule != nullptr && api.cuFuncGetModule(&module, launched) == CUDA_SUCCESS)
    return Kind::function;
  CUfunction function = nullptr;
  if (api.cuKernelGetFunction != nullptr && api.cuKernelGetFunction(&function, as_kernel) == CUDA_SUCCESS)
    return Kind::kernel;
  return Kind::unknown;
}

}  // namespace

std::vector<uint64_t> KernelHandle::handles() const {
  return {reinterpret_cast<uint64_t>(function), reinterpret_cast<uint64_t>(kernel),
          reinterpret_cast<uint64_t>(module), reinterpret_cast<uint64_t>(library)};
}

Result<KernelHandle> resolve_kernel(const DriverApi& api, CUfunction launched, const char* symbol) {
  KernelHandle h;
  const Kind kind = kind_of(api, launched);
  if (kind == Kind::unknown)
    return unsupported("the launched handle is neither a function nor a kernel of the driver");
  const char* name = nullptr;
  if (kind == Kind::kernel) {
    h.kernel = reinterpret_cast<CUkernel>(launched);
    if (api.cuKernelGetFunction != nullptr && api.cuKernelGetFunction(&h.function, h.kernel) != CUDA_SUCCESS)
      h.function = nullptr;
    if (api.cuKernelGetLibrary != nullptr && api.cuKernelGetLibrary(&h.library, h.kernel) != CUDA_SUCCESS)
      h.library = nullptr;
    if (api.cuKernelGetName != nullptr && api.cuKernelGetName(&name, h.kernel) != CUDA_SUCCESS)
      name = nullptr;
    h.layout_known =
        api.cuKernelGetParamInfo != nullptr &&
        read_layout([&](auto... a) { return api.cuKernelGetParamInfo(h.kernel, a...); }, &h.layout);
  } else {
    h.function = launched;
    if (api.cuFuncGetName != nullptr && api.cuFuncGetName(&name, h.function) != CUDA_SUCCESS) name = nullptr;
    h.layout_known =
        api.cuFuncGetParamInfo != nullptr &&
        read_layout([&](auto... a) { return api.cuFuncGetParamInfo(h.function, a...); }, &h.layout);
  }
  if (h.function != nullptr) {
    if (api.cuFuncLoad != nullptr) api.cuFuncLoad(h.function);  // a failure shows up at the launch itself
    if (api.cuFuncGetModule != nullptr && api.cuFuncGetModule(&h.module, h.function) != CUDA_SUCCESS)
      h.module = nullptr;
  }
  if (name == nullptr) name = symbol;
  if (name == nullptr || *name == 0) return unsupported("the driver does not name the launched kernel");
  h.name = name;
  return h;
}

bundle::FunctionAttributes function_attributes(const DriverApi& api, const KernelHandle& handle) {
  bundle::FunctionAttributes out;
  if (handle.function == nullptr) return out;
  auto get = [&](CUfunction_attribute attribute) {
    int value = -1;
    return api.cuFuncGetAttribute(&value, attribute, handle.function) == CUDA_SUCCESS ? value : -1;
  };
  out.max_dynamic_shared = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  out.preferred_carveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  out.non_portable_cluster = get(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  out.registers = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
  out.local_bytes = get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  out.static_shared = get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  out.constant_bytes = get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  out.max_threads = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  return out;
}

ObservedFunction observed_function(const bundle::FunctionAttributes& attributes) {
  return {attributes.registers, attributes.static_shared};
}

bool has_kernel(const DriverApi& api, const KernelHandle& handle, const std::string& name) {
  if (handle.library != nullptr && api.cuLibraryGetKernel != nullptr) {
    CUkernel kernel = nullptr;
    return api.cuLibraryGetKernel(&kernel, handle.library, name.c_str()) == CUDA_SUCCESS;
  }
  CUfunction function = nullptr;
  return handle.module != nullptr && api.cuModuleGetFunction(&function, handle.module, name.c_str()) == CUDA_SUCCESS;
}

Dim3 required_cluster(const DriverApi& api, const KernelHandle& handle) {
  if (handle.function == nullptr) return {0, 0, 0};
  auto get = [&](CUfunction_attribute attribute) {
    int value = 0;
    return api.cuFuncGetAttribute(&value, attribute, handle.function) == CUDA_SUCCESS && value > 0
               ? static_cast<uint32_t>(value)
               : 0u;
  };
  const Dim3 d{get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH), get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
               get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)};
  return d.x == 0 || d.y == 0 || d.z == 0 ? Dim3{0, 0, 0} : d;
}

}  // namespace xtrace::inject
