// What the files of the fake driver share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/inject/fake/fake_driver.h"

namespace fake {

struct Memory {  // of a pool: no context owns it
  size_t size = 0;
  unsigned type = CU_MEMORYTYPE_DEVICE;
  int device = 0;
  bool pooled = false;
};
struct Variable {
  const char* name;
  CUdeviceptr address;
  size_t size;
};
struct Param {
  size_t offset, size;
};
// The kernels of fixtures/cubins that the test uses, and what they do here.
struct Kernel {
  const char* name;
  std::vector<Param> params;
  int registers, static_shared;
  void (*run)(const void* const* values);
};

template <typename T>
T& value(const void* const* values, int i) {
  return *const_cast<T*>(static_cast<const T*>(values[i]));
}
template <typename T>
T* memory_at(CUdeviceptr address) {
  return reinterpret_cast<T*>(address);
}

struct Module {
  std::vector<std::byte> cubin;
  uint32_t id = 0;
  bool announced = false;
  std::vector<Variable> variables;
};
struct Function {
  const Kernel* kernel;
  Module* module;
};
struct Library {
  Module module;
};

struct State {
  CUdeviceptr last_host_memory = 0;
  std::recursive_mutex mutex;
  fake_callback callback = nullptr;
  void* user = nullptr;
  std::set<std::pair<int, uint32_t>> enabled;
  std::map<CUdeviceptr, Memory> memory;
  CUdeviceptr next = 0x5a0000000000;
  uint32_t next_module = 1;
  std::set<CUstream> capturing;
  CUresult launch_result = CUDA_SUCCESS, wait_result = CUDA_SUCCESS;
  CUdeviceptr fault_at = 0;
  bool fail_update = false;
  bool announce_late = false;
  std::mutex wait_mutex;
  std::condition_variable released;
  bool hanging = false;
  std::atomic<bool> busy{false};  // launched and not waited for
  std::atomic<unsigned> reads_while_busy{0};
  std::atomic<uint32_t> correlation{1};
};
State& state();

// ENTER, the call, EXIT.
template <typename Params, typename Body>
CUresult traced(uint32_t cbid, const char* name, Params params, const char* symbol, Body body) {
  State& s = state();
  bool on;
  {
    const std::lock_guard lock(s.mutex);
    on = s.callback != nullptr && s.enabled.contains({CUPTI_CB_DOMAIN_DRIVER_API, cbid});
  }
  if (!on) return body();
  CUresult result = CUDA_SUCCESS;
  uint64_t correlation_data = 0;
  CUpti_CallbackData data{};
  data.callbackSite = CUPTI_API_ENTER;
  data.functionName = name;
  data.functionParams = &params;
  data.functionReturnValue = &result;
  data.symbolName = symbol;
  data.context = reinterpret_cast<CUcontext>(0x10);
  data.correlationData = &correlation_data;
  data.correlationId = s.correlation++;
  s.callback(s.user, CUPTI_CB_DOMAIN_DRIVER_API, cbid, &data);
  result = body();
  data.callbackSite = CUPTI_API_EXIT;
  s.callback(s.user, CUPTI_CB_DOMAIN_DRIVER_API, cbid, &data);
  return result;
}
#define UNPACK(...) __VA_ARGS__
#define TRACED(name, symbol, params, ...)                                     \
  traced(CUPTI_DRIVER_TRACE_CBID_##name, #name, name##_params{UNPACK params}, \
         symbol, [&]() -> CUresult __VA_ARGS__)

// Functions are even, kernels (of libraries) odd, so that each kind of handle refuses the other.
inline bool is_kernel(const void* handle) { return (reinterpret_cast<uint64_t>(handle) & 1) != 0; }
inline Function* function_of(const void* handle) {
  return reinterpret_cast<Function*>(reinterpret_cast<uint64_t>(handle) & ~1ull);
}

// fake_driver.cc: as the launch calls do it, without a callback.
CUresult run(CUfunction handle, CUstream stream, const void* const* values);
bool is_pooled(CUdeviceptr address);
// fake_graphs.cc: a launch into a stream that is being captured; the graph of a capture that ends.
void capture_kernel(CUstream stream, CUfunction handle, const CUlaunchConfig& config, const void* const* values);
CUgraph end_capture(CUstream stream);

}  // namespace fake
