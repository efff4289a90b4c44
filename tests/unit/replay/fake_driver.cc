#include "tests/unit/replay/fake_driver.h"

#include <elf.h>

#include <cstdlib>

namespace xtrace::replay {

namespace {
FakeDriver* fake = nullptr;
}  // namespace

FakeDriver::FakeDriver() {
  XT_CHECK(fake == nullptr, "one fake driver at a time");
  fake = this;
}
FakeDriver::~FakeDriver() {
  for (void* p : pinned_) std::free(p);
  fake = nullptr;
}

Bytes FakeDriver::add_code(Code code) {
  Bytes elf;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shentsize = sizeof(Elf64_Shdr);
  append(elf, header);
  append(elf, static_cast<uint64_t>(codes_.size()));
  codes_.push_back(std::move(code));
  return elf;
}

std::byte* FakeDriver::at(CUdeviceptr address, size_t size) {
  auto it = mapped_.upper_bound(address);
  if (it != mapped_.begin()) {
    --it;
    if (address - it->first + size <= it->second.size()) return it->second.data() + (address - it->first);
  }
  for (auto& [handle, m] : loaded_)
    for (auto& [name, v] : codes_[m.code].variables)
      if (address >= v.address && address - v.address + size <= v.size)
        return m.memory[name].data() + (address - v.address);
  XT_CHECK(false, "access to device memory that is not mapped");
  return nullptr;
}

bool FakeDriver::is_mapped(CUdeviceptr address) {
  auto it = mapped_.upper_bound(address);
  return it != mapped_.begin() && address - std::prev(it)->first < std::prev(it)->second.size();
}

size_t FakeDriver::used_bytes() const {
  size_t n = 0;
  for (const auto& [address, bytes] : mapped_) n += bytes.size();
  return n;
}

bool FakeDriver::free_range(const AddressSpan& span) const {
  for (const AddressSpan& t : taken)
    if (t.overlaps(span)) return false;
  for (const auto& [address, r] : reserved_)
    if (r.overlaps(span)) return false;
  for (const auto& [address, bytes] : mapped_)
    if (AddressSpan{address, address + bytes.size()}.overlaps(span)) return false;
  return true;
}

CUdeviceptr FakeDriver::place(uint64_t from, uint64_t size) const {
  while (!free_range({from, from + size})) from += window_alignment;
  return from;
}

void FakeDriver::pump() {
  while (!queue_.empty() && queue_.front().run()) queue_.pop_front();
}

// Handles of the backend's own kernels.
constexpr uintptr_t own_module = 8, own_clocks = 24;

struct FakeDriver::Api {
  static FakeDriver& f() {
    ++fake->calls;
    return *fake;
  }
  static void queue(std::function<void()> what) {
    fake->queue_.push_back({[what = std::move(what)] {
      what();
      return true;
    }});
  }
  static CUresult waiting() {
    fake->pump();
    if (fake->sticky != CUDA_SUCCESS) return fake->sticky;
    return fake->queue_.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  }
  static CUresult reserve(CUdeviceptr* out, size_t size, size_t alignment, CUdeviceptr hint,
                          unsigned long long) {
    FakeDriver& d = f();
    if (size % map_granule != 0) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t wanted = align_up(hint, std::max<uint64_t>(alignment, window_alignment));
    if (wanted + size > address_limit) return CUDA_ERROR_OUT_OF_MEMORY;
    if (size < window_alignment)
      *out = d.place(0x7fa000000000, size);
    else
      *out = d.free_range({wanted, wanted + size}) ? wanted : d.place(0x600000000000, size);
    d.reserved_[*out] = {*out, *out + size};
    return CUDA_SUCCESS;
  }
  static CUresult map(CUdeviceptr at, size_t size, size_t, CUmemGenericAllocationHandle handle,
                      unsigned long long) {
    FakeDriver& d = f();
    for (const auto& [address, r] : d.reserved_)
      if (r.contains({at, at + size}) && d.physical_.count(handle) != 0) {
        d.mapped_[at] = Bytes(size, std::byte{0x5c});
        return CUDA_SUCCESS;
      }
    return CUDA_ERROR_INVALID_VALUE;
  }
  static CUresult launch(const CUlaunchConfig* config, CUfunction function, void** params, void** extra) {
    FakeDriver& d = f();
    if (d.launch_result != CUDA_SUCCESS) return d.launch_result;
    if (params != nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!d.loaded_.count(reinterpret_cast<CUmodule>(function))) return d.own_kernel(function, *config, extra);
    Launch l;
    l.config = *config;
    l.attributes.assign(config->attrs, config->attrs + config->numAttrs);
    if (extra != nullptr) {
      if (extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER || extra[2] != CU_LAUNCH_PARAM_BUFFER_SIZE ||
          extra[4] != CU_LAUNCH_PARAM_END)
        return CUDA_ERROR_INVALID_VALUE;
      const auto* p = static_cast<const std::byte*>(extra[1]);
      l.params.assign(p, p + *static_cast<size_t*>(extra[3]));
    }
    d.launches.push_back(l);
    const Code& code = d.codes_[d.loaded_.at(reinterpret_cast<CUmodule>(function)).code];
    d.queue_.push_back({[&d, &code, given = l.params] {
      const double us = code.run(d, given);
      if (us < 0) return false;
      d.clock_ += us;
      return true;
    }});
    return CUDA_SUCCESS;
  }
};

// The backend's own kernels: those that read clocks do, at `mhz`, the others do nothing.
CUresult FakeDriver::own_kernel(CUfunction function, const CUlaunchConfig& config, void** extra) {
  if (function != reinterpret_cast<CUfunction>(own_clocks)) return CUDA_SUCCESS;
  uint64_t params[2];
  std::memcpy(params, extra[1], sizeof params);
  queue_.push_back({[this, out = params[0], rounds = params[1], ctas = config.gridDimX] {
    for (uint64_t k = 0; k < ctas * rounds; ++k) {
      clock_ += 1.0 / ctas;   // the next tick
      const uint64_t stamp[] = {k / rounds, static_cast<uint64_t>(clock_ * mhz), static_cast<uint64_t>(clock_ * 1000)};
      std::memcpy(at(out + k * sizeof stamp, sizeof stamp), stamp, sizeof stamp);
    }
    return true;
  }});
  return CUDA_SUCCESS;
}

DriverApi FakeDriver::api() {
  using A = Api;
  DriverApi t;
  t.Init = [](unsigned) { return A::f().init_result; };
  t.DriverGetVersion = [](int* v) { return *v = 13000, A::f(), CUDA_SUCCESS; };
  t.GetErrorName = [](CUresult r, const char** s) {
    *s = r == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
         : r == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE"
         : r == CUDA_ERROR_NO_DEVICE     ? "CUDA_ERROR_NO_DEVICE"
                                         : nullptr;
    return *s != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  t.GetErrorString = [](CUresult, const char** s) { return *s = "as the fake says", CUDA_SUCCESS; };
  t.DeviceGetCount = [](int* n) { return *n = A::f().devices, CUDA_SUCCESS; };
  t.DeviceGet = [](CUdevice* d, int i) { return *d = i, A::f(), CUDA_SUCCESS; };
  t.DeviceGetName = [](char* s, int n, CUdevice) {
    std::snprintf(s, static_cast<size_t>(n), "Fake GPU");
    return A::f(), CUDA_SUCCESS;
  };
  t.DeviceGetAttribute = [](int* v, CUdevice_attribute a, CUdevice) {
    *v = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
         : a == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE            ? 1 << 20
         : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
         : a == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT     ? 132
                                                             : 1;
    return A::f(), CUDA_SUCCESS;
  };
  t.DevicePrimaryCtxRetain = [](CUcontext*, CUdevice) { return A::f(), CUDA_SUCCESS; };
  t.DevicePrimaryCtxRelease = [](CUdevice) { return A::f(), CUDA_SUCCESS; };
  t.CtxSetCurrent = [](CUcontext) { return A::f(), CUDA_SUCCESS; };
  t.MemGetInfo = [](size_t* free, size_t* total) {
    *total = A::f().total_bytes;
    *free = *total - std::min(*total, fake->used_bytes());
    return CUDA_SUCCESS;
  };
  t.MemAddressReserve = A::reserve;
  t.MemAddressFree = [](CUdeviceptr p, size_t size) {
    const auto it = A::f().reserved_.find(p);
    if (it == fake->reserved_.end() || it->second.size() != size) return CUDA_ERROR_INVALID_VALUE;
    fake->reserved_.erase(it);
    return CUDA_SUCCESS;
  };
  t.MemCreate = [](CUmemGenericAllocationHandle* h, size_t size, const CUmemAllocationProp*,
                   unsigned long long) {
    if (A::f().used_bytes() + size > fake->total_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    *h = fake->next_++;
    fake->physical_[*h] = size;
    return CUDA_SUCCESS;
  };
  t.MemRelease = [](CUmemGenericAllocationHandle h) {
    return A::f().physical_.erase(h) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  t.MemMap = A::map;
  t.MemUnmap = [](CUdeviceptr p, size_t size) {
    const auto it = A::f().mapped_.find(p);
    if (it == fake->mapped_.end() || it->second.size() != size) return CUDA_ERROR_INVALID_VALUE;
    fake->mapped_.erase(it);
    return CUDA_SUCCESS;
  };
  t.MemSetAccess = [](CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return A::f(), CUDA_SUCCESS; };
  t.MemHostAlloc = [](void** p, size_t size, unsigned) {
    if (!A::f().pinned_memory && size > 4096) return CUDA_ERROR_OUT_OF_MEMORY;
    fake->pinned_.insert(*p = std::malloc(size));
    return CUDA_SUCCESS;
  };
  t.MemFreeHost = [](void* p) {
    if (A::f().pinned_.erase(p) == 0) return CUDA_ERROR_INVALID_VALUE;
    std::free(p);
    return CUDA_SUCCESS;
  };
  t.MemHostGetDevicePointer = [](CUdeviceptr* d, void* p, unsigned) {
    *d = reinterpret_cast<CUdeviceptr>(p);
    return A::f(), CUDA_SUCCESS;
  };
  t.MemcpyHtoDAsync = [](CUdeviceptr d, const void* s, size_t n, CUstream) {
    const auto* p = static_cast<const std::byte*>(s);
    A::queue(
        [d, bytes = Bytes(p, p + n)] { std::memcpy(fake->at(d, bytes.size()), bytes.data(), bytes.size()); });
    return A::f(), CUDA_SUCCESS;
  };
  t.MemcpyDtoHAsync = [](void* d, CUdeviceptr s, size_t n, CUstream) {
    A::queue([=] { std::memcpy(d, fake->at(s, n), n); });
    return A::f(), CUDA_SUCCESS;
  };
  t.MemcpyDtoDAsync = [](CUdeviceptr d, CUdeviceptr s, size_t n, CUstream) {
    A::queue([=] { std::memcpy(fake->at(d, n), fake->at(s, n), n); });
    return A::f(), CUDA_SUCCESS;
  };
  t.MemsetD8Async = [](CUdeviceptr d, unsigned char v, size_t n, CUstream) {
    A::queue([=] { std::memset(fake->at(d, n), v, n); });
    return A::f(), CUDA_SUCCESS;
  };
  t.DeviceGetDefaultMemPool = [](CUmemoryPool* p, CUdevice) { return *p = nullptr, A::f(), CUDA_SUCCESS; };
  t.MemAllocFromPoolAsync = [](CUdeviceptr* p, size_t n, CUmemoryPool, CUstream) {
    if (A::f().used_bytes() + n > fake->total_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    *p = fake->pool_base;
    for (uint64_t a : fake->pool_) *p = std::max<CUdeviceptr>(*p, a + fake->mapped_[a].size());
    fake->mapped_[*p] = Bytes(n, std::byte{0x5c});
    fake->pool_.insert(*p);
    return CUDA_SUCCESS;
  };
  t.MemFreeAsync = [](CUdeviceptr p, CUstream) {
    if (A::f().pool_.erase(p) == 0) return CUDA_ERROR_INVALID_VALUE;
    fake->mapped_.erase(p);
    return CUDA_SUCCESS;
  };
  t.ModuleLoadData = [](CUmodule* m, const void* image) {
    if (*static_cast<const char*>(image) == '\n') return *m = reinterpret_cast<CUmodule>(own_module), A::f(), CUDA_SUCCESS;
    uint64_t code;
    std::memcpy(&code, static_cast<const std::byte*>(image) + sizeof(Elf64_Ehdr), sizeof code);
    *m = reinterpret_cast<CUmodule>(A::f().next_++ * 16);
    Module& loaded = fake->loaded_[*m];
    loaded.code = code;
    for (const auto& [name, v] : fake->codes_[code].variables) loaded.memory[name] = Bytes(v.size);
    return CUDA_SUCCESS;
  };
  t.ModuleUnload = [](CUmodule m) {
    if (m == reinterpret_cast<CUmodule>(own_module)) return A::f(), CUDA_SUCCESS;
    return A::f().loaded_.erase(m) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  t.ModuleGetFunction = [](CUfunction* f, CUmodule m, const char* name) {
    if (m == reinterpret_cast<CUmodule>(own_module)) {
      *f = reinterpret_cast<CUfunction>(std::string_view(name) == "xtrace_clocks" ? own_clocks : own_module);
      return A::f(), CUDA_SUCCESS;
    }
    if (A::f().codes_[fake->loaded_.at(m).code].kernel != name) return CUDA_ERROR_NOT_FOUND;
    *f = reinterpret_cast<CUfunction>(m);
    return CUDA_SUCCESS;
  };
  t.ModuleGetGlobal = [](CUdeviceptr* p, size_t* n, CUmodule m, const char* name) {
    const auto& variables = A::f().codes_[fake->loaded_.at(m).code].variables;
    const auto it = variables.find(name);
    if (it == variables.end()) return CUDA_ERROR_NOT_FOUND;
    *p = it->second.address;
    *n = it->second.size;
    return CUDA_SUCCESS;
  };
  t.FuncSetAttribute = [](CUfunction f, CUfunction_attribute a, int v) {
    A::f().function_attributes[{f, static_cast<int>(a)}] = v;
    return CUDA_SUCCESS;
  };
  t.FuncGetAttribute = [](int* v, CUfunction_attribute a, CUfunction) {
    *v = a == CU_FUNC_ATTRIBUTE_NUM_REGS ? 40 : a == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES ? 8 : 1024;
    return A::f(), CUDA_SUCCESS;
  };
  t.LaunchKernelEx = A::launch;
  t.OccupancyMaxActiveBlocksPerMultiprocessor = [](int* n, CUfunction, int block, size_t) {
    return *n = 2048 / block, A::f(), CUDA_SUCCESS;
  };
  t.OccupancyMaxActiveClusters = [](int* n, CUfunction, const CUlaunchConfig* c) {
    return *n = static_cast<int>(c->numAttrs) * 7, A::f(), CUDA_SUCCESS;
  };
  t.StreamCreate = [](CUstream* s, unsigned) {
    return *s = reinterpret_cast<CUstream>(16), A::f(), CUDA_SUCCESS;
  };
  t.StreamDestroy = [](CUstream) { return A::f(), CUDA_SUCCESS; };
  t.StreamQuery = [](CUstream) { return A::f(), A::waiting(); };
  t.StreamWaitValue32 = [](CUstream, CUdeviceptr flag, cuuint32_t value, unsigned) {
    ++A::f().gates;
    fake->queue_.push_back({[=] {
      return static_cast<int32_t>(*reinterpret_cast<const volatile uint32_t*>(flag) - value) >= 0;
    }});
    return CUDA_SUCCESS;
  };
  t.EventCreate = [](CUevent* e, unsigned) {
    *e = reinterpret_cast<CUevent>(A::f().next_++ * 16);
    fake->events_[*e] = 0;
    return CUDA_SUCCESS;
  };
  t.EventRecord = [](CUevent e, CUstream) {
    A::f().events_[e] = -1;
    A::queue([e] { fake->events_[e] = fake->clock_; });
    return CUDA_SUCCESS;
  };
  t.EventQuery = [](CUevent e) {
    A::f();
    A::waiting();
    if (fake->sticky != CUDA_SUCCESS) return fake->sticky;
    return fake->events_.at(e) >= 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  };
  t.EventDestroy = [](CUevent e) {
    return A::f().events_.erase(e) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  t.EventElapsedTime = [](float* ms, CUevent a, CUevent b) {
    *ms = static_cast<float>((A::f().events_.at(b) - fake->events_.at(a)) / 1000);
    return CUDA_SUCCESS;
  };
  return t;
}

}  // namespace xtrace::replay
