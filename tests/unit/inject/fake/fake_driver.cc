#include "tests/unit/inject/fake/fake_driver.h"
#include "tests/unit/inject/fake/fake_state.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fake {
State& state() {
  static State* s = new State;  // used by exit handlers
  return *s;
}
}  // namespace fake

namespace {

using namespace fake;

const std::vector<Kernel>& kernels() {
  static const auto* table = new std::vector<Kernel>{
      {"scale",
       {{0, 8}, {8, 4}, {12, 4}},
       10,
       0,
       [](const void* const* v) {
         if (value<CUdeviceptr>(v, 0) == state().fault_at) state().launch_result = state().wait_result = CUDA_ERROR_ILLEGAL_ADDRESS;
         float* data = memory_at<float>(value<CUdeviceptr>(v, 0));
         for (int i = 0; i < value<int>(v, 2); ++i) data[i] *= value<float>(v, 1);
       }},
      {"block_sum",
       {{0, 8}, {8, 8}, {16, 4}},
       16,
       1024,
       [](const void* const* v) {
         // Through a pointer in memory, so that the reach of the recorder can be seen: in[0..1] is an
         // address.
         CUdeviceptr target;
         std::memcpy(&target, memory_at<char>(value<CUdeviceptr>(v, 0)), 8);
         *memory_at<int>(target) += value<int>(v, 2);
         *memory_at<float>(value<CUdeviceptr>(v, 1)) = 1;
       }},
      {"variables",
       {{0, 8}, {8, 4}},
       24,
       128,
       [](const void* const* v) { *memory_at<int>(value<CUdeviceptr>(v, 0)) = value<int>(v, 1); }},
      {"xtrace_silent", {}, 4, 0, [](const void* const*) {}},  // of the recorder's own module, which is text
  };
  return *table;
}

CUdeviceptr map_memory(size_t size, unsigned type, int device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const size_t rounded = (size + 0xffff) & ~size_t{0xffff};
  void* p = mmap(reinterpret_cast<void*>(s.next), rounded, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (p == MAP_FAILED) std::abort();
  s.next += rounded + 0x10000;
  const auto address = reinterpret_cast<CUdeviceptr>(p);
  s.memory[address] = {size, type, device, false};
  return address;
}

std::pair<const CUdeviceptr, Memory>* find_memory(CUdeviceptr address) {
  State& s = state();
  auto it = s.memory.upper_bound(address);
  if (it == s.memory.begin()) return nullptr;
  --it;
  return address - it->first < it->second.size ? &*it : nullptr;
}

void announce(Module& m) {
  State& s = state();
  if (m.announced) return;
  m.announced = true;
  if (s.callback == nullptr ||
      !s.enabled.contains({CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED}))
    return;
  CUpti_ModuleResourceData module{m.id, m.cubin.size(), reinterpret_cast<const char*>(m.cubin.data())};
  CUpti_ResourceData data{};
  data.context = reinterpret_cast<CUcontext>(0x10);
  data.resourceDescriptor = &module;
  s.callback(s.user, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED, &data);
}

// `image` is a length and a cubin: the fake does not read ELF.
Module make_module(const void* image) {
  uint64_t size;
  std::memcpy(&size, image, 8);
  Module m;
  if (std::memcmp(image, ".version", 8) == 0) return m.announced = true, m;  // PTX
  const auto* bytes = static_cast<const std::byte*>(image) + 8;
  m.cubin.assign(bytes, bytes + size);
  m.id = state().next_module++;
  return m;
}

// Variables get memory that is no allocation: the driver's own.
void make_variables(Module& m) {
  // All that fixtures/cubins/src/variables.cu has but `functions`, which the driver pretends not to know.
  const std::pair<const char*, size_t> known[] = {
      {"weights", 64}, {"limit", 4}, {"counter", 4}, {"scratch", 256}, {"scratch_pointer", 8}};
  for (const auto& [name, size] : known) {
    const CUdeviceptr address = map_memory(size, CU_MEMORYTYPE_DEVICE, 0);
    const std::lock_guard lock(state().mutex);
    state().memory.erase(address);
    std::memset(memory_at<void>(address), name[0], size);
    m.variables.push_back({name, address, size});
  }
}

void load_if_late(Module& m) {
  if (!state().announce_late) announce(m);
}

const Kernel* find_kernel(const char* name) {
  for (const Kernel& k : kernels())
    if (std::strcmp(k.name, name) == 0) return &k;
  return nullptr;
}

CUresult param_info(const Function& f, size_t i, size_t* offset, size_t* size) {
  if (i >= f.kernel->params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = f.kernel->params[i].offset;
  *size = f.kernel->params[i].size;
  return CUDA_SUCCESS;
}

CUresult launch(CUfunction handle, const CUlaunchConfig& config, const void* const* values) {
  if (state().launch_result != CUDA_SUCCESS) return state().launch_result;
  if (!state().capturing.contains(config.hStream)) return run(handle, config.hStream, values);
  announce(*function_of(handle)->module);
  capture_kernel(config.hStream, handle, config, values);
  return CUDA_SUCCESS;
}

CUresult wait() {
  State& s = state();
  std::unique_lock lock(s.wait_mutex);
  s.released.wait(lock, [&] { return !s.hanging; });
  s.busy = false;
  return s.wait_result;
}

}  // namespace

bool fake::is_pooled(CUdeviceptr address) {
  const std::lock_guard lock(state().mutex);
  const auto* m = find_memory(address);
  return m != nullptr && m->second.pooled;
}

CUresult fake::run(CUfunction handle, CUstream, const void* const* values) {
  State& s = state();
  Function& f = *function_of(handle);
  announce(*f.module);
  s.busy = true;
  f.kernel->run(values);
  return CUDA_SUCCESS;
}

extern "C" {

CUdeviceptr fake_last_host_memory() { return state().last_host_memory; }
CUdeviceptr fake_hidden_alloc(size_t size) { return map_memory(size, CU_MEMORYTYPE_DEVICE, 0); }
void fake_set_device(CUdeviceptr address, int device) { state().memory.at(address).device = device; }
void fake_hang() {
  const std::lock_guard lock(state().wait_mutex);
  state().hanging = true;
}
void fake_release() {
  const std::lock_guard lock(state().wait_mutex);
  state().hanging = false;
  state().released.notify_all();
}
void fake_fail_launch(CUresult launch, CUresult wait_result) {
  state().launch_result = launch;
  state().wait_result = wait_result;
}
void fake_fault_at(CUdeviceptr address) { state().fault_at = address; }
void fake_fail_update() { state().fail_update = true; }
void fake_announce_late() { state().announce_late = true; }
unsigned fake_reads_while_busy() { return state().reads_while_busy; }

void fake_set_subscriber(fake_callback callback, void* user) {
  state().callback = callback;
  state().user = user;
}
void fake_enable(CUpti_CallbackDomain domain, CUpti_CallbackId id, int on) {
  if (on != 0)
    state().enabled.insert({domain, id});
  else
    state().enabled.erase({domain, id});
}

CUresult cuInit(unsigned) {
  const char* library = std::getenv("CUDA_INJECTION64_PATH");
  if (library == nullptr || *library == 0) return CUDA_SUCCESS;
  void* handle = dlopen(library, RTLD_NOW);
  if (handle == nullptr) return CUDA_SUCCESS;
  if (auto start = reinterpret_cast<int (*)()>(dlsym(handle, "InitializeInjection"))) start();
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult r, const char** text) {
  *text = r == CUDA_SUCCESS                 ? "CUDA_SUCCESS"
          : r == CUDA_ERROR_INVALID_VALUE   ? "CUDA_ERROR_INVALID_VALUE"
          : r == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : r == CUDA_ERROR_NOT_FOUND       ? "CUDA_ERROR_NOT_FOUND"
                                            : "CUDA_ERROR_UNKNOWN";
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* v) { return *v = 13000, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  return std::strncpy(name, "Fake GPU", size), CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* v, CUdevice_attribute a, CUdevice) {
  *v = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
       : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                           : 132;
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t* v, CUdevice) { return *v = 1ull << 30, CUDA_SUCCESS; }
CUresult cuDeviceGetUuid_v2(CUuuid* u, CUdevice) { return std::memset(u, 0xab, sizeof(*u)), CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* c) { return *c = reinterpret_cast<CUcontext>(0x10), CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* d) { return *d = 0, CUDA_SUCCESS; }
CUresult cuCtxSynchronize() { return wait(); }
CUresult cuStreamCreate(CUstream* s, unsigned) {
  static std::atomic<uint64_t> next{0x1000};
  *s = reinterpret_cast<CUstream>(next += 0x10);
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* status) {
  *status = state().capturing.contains(s) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  if (s == CU_STREAM_LEGACY && !state().capturing.empty()) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::swap(*mode, current);
  return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void** p, size_t size, unsigned) {
  const CUdeviceptr address = map_memory(size, CU_MEMORYTYPE_HOST, -1);
  *p = memory_at<void>(address);
  const std::lock_guard lock(state().mutex);
  state().last_host_memory = address;
  return CUDA_SUCCESS;
}
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  const std::lock_guard lock(state().mutex);
  const auto* m = find_memory(address);
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *static_cast<CUdeviceptr*>(values[i]) = m != nullptr ? m->first : 0;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *static_cast<size_t*>(values[i]) = m != nullptr ? m->second.size : 0;
        break;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(values[i]) = m != nullptr ? m->second.type : 0;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) = m != nullptr ? m->second.device : -1;
        break;
      case CU_POINTER_ATTRIBUTE_CONTEXT:
        *static_cast<CUcontext*>(values[i]) = m == nullptr || m->second.pooled ? nullptr : reinterpret_cast<CUcontext>(0x10);
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* p, size_t size) {
  return TRACED(cuMemAlloc_v2, nullptr, (p, size),
                { return *p = map_memory(size, CU_MEMORYTYPE_DEVICE, 0), CUDA_SUCCESS; });
}
CUresult cuMemAllocAsync(CUdeviceptr* p, size_t size, CUstream stream) {
  return TRACED(cuMemAllocAsync, nullptr, (p, size, stream), {
    *p = map_memory(size, CU_MEMORYTYPE_DEVICE, 0);
    const std::lock_guard lock(state().mutex);
    return state().memory.at(*p).pooled = true, CUDA_SUCCESS;
  });
}
CUresult cuMemAllocManaged(CUdeviceptr* p, size_t size, unsigned flags) {
  return TRACED(cuMemAllocManaged, nullptr, (p, size, flags),
                { return *p = map_memory(size, CU_MEMORYTYPE_UNIFIED, 0), CUDA_SUCCESS; });
}
CUresult cuMemFree_v2(CUdeviceptr p) {
  return TRACED(cuMemFree_v2, nullptr, (p), {
    const std::lock_guard lock(state().mutex);
    return state().memory.erase(p) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t size) {
  return TRACED(cuMemcpyHtoD_v2, nullptr, (to, from, size),
                { return std::memcpy(memory_at<void>(to), from, size), CUDA_SUCCESS; });
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  return TRACED(cuMemcpyDtoHAsync_v2, nullptr, (to, from, size, stream), {
    if (state().busy) ++state().reads_while_busy;
    return std::memcpy(to, memory_at<void>(from), size), CUDA_SUCCESS;
  });
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return TRACED(cuModuleLoadData, nullptr, (module, image), {
    auto* m = new Module(make_module(image));
    make_variables(*m);
    *module = reinterpret_cast<CUmodule>(m);
    load_if_late(*m);
    return CUDA_SUCCESS;
  });
}
CUresult cuModuleGetFunction(CUfunction* f, CUmodule module, const char* name) {
  return TRACED(cuModuleGetFunction, nullptr, (f, module, name), {
    const Kernel* k = find_kernel(name);
    if (k == nullptr) return CUDA_ERROR_NOT_FOUND;
    static auto& functions = *new std::deque<Function>;   // they last as long as the program
    functions.push_back({k, reinterpret_cast<Module*>(module)});
    *f = reinterpret_cast<CUfunction>(&functions.back());
    return CUDA_SUCCESS;
  });
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* p, size_t* size, CUmodule module, const char* name) {
  for (const Variable& v : reinterpret_cast<Module*>(module)->variables)
    if (std::strcmp(v.name, name) == 0) return *p = v.address, *size = v.size, CUDA_SUCCESS;
  return CUDA_ERROR_NOT_FOUND;
}
CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit, void** jit_values,
                           unsigned n, CUlibraryOption* options, void** option_values, unsigned m) {
  return TRACED(cuLibraryLoadData, nullptr, (library, code, jit, jit_values, n, options, option_values, m), {
    auto* l = new Library{make_module(code)};
    make_variables(l->module);
    *library = reinterpret_cast<CUlibrary>(l);
    return CUDA_SUCCESS;  // announced when a function is made: lazy loading
  });
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return TRACED(cuLibraryGetKernel, nullptr, (kernel, library, name), {
    const Kernel* k = find_kernel(name);
    if (k == nullptr) return CUDA_ERROR_NOT_FOUND;
    auto* f = new Function{k, &reinterpret_cast<Library*>(library)->module};
    *kernel = reinterpret_cast<CUkernel>(reinterpret_cast<uint64_t>(f) | 1);
    return CUDA_SUCCESS;
  });
}
CUresult cuKernelGetFunction(CUfunction* f, CUkernel kernel) {
  if (!is_kernel(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  Function* p = function_of(kernel);
  load_if_late(*p->module);
  *f = reinterpret_cast<CUfunction>(p);
  return CUDA_SUCCESS;
}
CUresult cuKernelGetLibrary(CUlibrary* l, CUkernel) { return *l = nullptr, CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuKernelGetName(const char** name, CUkernel k) {
  if (!is_kernel(k)) return CUDA_ERROR_INVALID_HANDLE;
  return *name = function_of(k)->kernel->name, CUDA_SUCCESS;
}
CUresult cuKernelGetParamInfo(CUkernel k, size_t i, size_t* offset, size_t* size) {
  return is_kernel(k) ? param_info(*function_of(k), i, offset, size) : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuFuncGetParamInfo(CUfunction f, size_t i, size_t* offset, size_t* size) {
  return is_kernel(f) ? CUDA_ERROR_INVALID_HANDLE : param_info(*function_of(f), i, offset, size);
}
CUresult cuFuncGetName(const char** name, CUfunction f) {
  return *name = function_of(f)->kernel->name, CUDA_SUCCESS;
}
CUresult cuFuncGetModule(CUmodule* m, CUfunction f) {
  if (is_kernel(f)) return CUDA_ERROR_INVALID_HANDLE;
  return *m = reinterpret_cast<CUmodule>(function_of(f)->module), CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* v, CUfunction_attribute a, CUfunction f) {
  const Kernel& k = *function_of(f)->kernel;
  *v = a == CU_FUNC_ATTRIBUTE_NUM_REGS                ? k.registers
       : a == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES     ? k.static_shared
       : a == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
                                                      : 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) {
  return TRACED(cuStreamBeginCapture_v2, nullptr, (s, mode),
                { return state().capturing.insert(s), CUDA_SUCCESS; });
}
CUresult cuStreamEndCapture(CUstream s, CUgraph* graph) {
  return TRACED(cuStreamEndCapture, nullptr, (s, graph),
                { return state().capturing.erase(s), *graph = end_capture(s), CUDA_SUCCESS; });
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream s, void** values, void** extra) {
  return TRACED(cuLaunchKernel, function_of(f)->kernel->name,
                (f, gx, gy, gz, bx, by, bz, shared, s, values, extra), {
                  CUlaunchConfig config{};
                  config.gridDimX = gx, config.gridDimY = gy, config.gridDimZ = gz;
                  config.blockDimX = bx, config.blockDimY = by, config.blockDimZ = bz;
                  config.hStream = s;
                  if (values != nullptr) return launch(f, config, values);
                  std::vector<void*> from_buffer;  // extra[1] is the buffer
                  for (const Param& p : function_of(f)->kernel->params)
                    from_buffer.push_back(static_cast<char*>(extra[1]) + p.offset);
                  return launch(f, config, from_buffer.data());
                });
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** values, void** extra) {
  return TRACED(cuLaunchKernelEx, function_of(f)->kernel->name, (config, f, values, extra),
                { return launch(f, *config, values); });
}
}
