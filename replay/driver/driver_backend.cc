#include "replay/driver/driver_backend.h"

#include <cstdlib>
#include <fstream>
#include <set>

#include "base/log.h"
#include "replay/driver/driver_backend_impl.h"
#include "replay/session.h"

namespace xtrace::replay {

namespace {

// "580.159.04" from /proc/driver/nvidia/version, whose first line has it between words; empty when it is not
// there.
std::string kernel_driver_version() {
  std::ifstream in("/proc/driver/nvidia/version");
  std::string word;
  while (in >> word) {
    const bool digits_and_dots = word.find_first_not_of("0123456789.") == std::string::npos;
    if (digits_and_dots && word.find('.') != std::string::npos) return word;
  }
  return {};
}

// Waiting for plain copies and module loads: far beyond any of them.
constexpr double drain_seconds = 300;

}  // namespace

Result<std::unique_ptr<Backend>> make_driver_backend(const DriverOptions& options) {
  XT_TRY(const DriverApi api, DriverApi::load());
  return make_driver_backend(api, options);
}

Result<std::unique_ptr<Backend>> make_driver_backend(const DriverApi& api, const DriverOptions& options) {
  auto backend = std::make_unique<DriverBackend>(api, options);
  XT_TRY_STATUS(backend->open());
  return std::unique_ptr<Backend>(std::move(backend));
}

DriverBackend::DriverBackend(const DriverApi& api, const DriverOptions& options)
    : api_(api), options_(options) {}

DriverBackend::~DriverBackend() {
  if (dead_) {
    memory_.abandon();
    buffers_.abandon();
    pristine_.abandon();
    stream_.abandon();
    return;
  }
  if (!context_retained_) {
    stream_.abandon();
    return;
  }
  if (Status s = finish(); !s) {
    log_warning("ending the replay: {}", s.error().to_string());
    if (dead_) {
      stream_.abandon();
      return;
    }
  }
  kernels_.close();
  stream_.close();
  if (beside_ != nullptr) api_.StreamDestroy(beside_);
  api_.DevicePrimaryCtxRelease(device_);
}

Status DriverBackend::open() {
  // Lazy loading would load code at the first launch, in the middle of a measurement.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  XT_TRY_STATUS(open_context());
  XT_TRY_STATUS(describe_device());
  return stream_.open();
}

Status DriverBackend::open_context() {
  const CUresult init = api_.Init(0);
  if (init == CUDA_ERROR_NO_DEVICE)
    return with_hint(environment("no GPU: cuInit says {}", api_.text(init)),
                     "check nvidia-smi and CUDA_VISIBLE_DEVICES");
  XT_TRY_STATUS(api_.check(init, "cuInit"));
  int count = 0;
  XT_CU(api_, DeviceGetCount, &count);
  if (options_.device < 0 || options_.device >= count)
    return with_hint(environment("no GPU {}: the driver shows {}", options_.device, count),
                     "check nvidia-smi and CUDA_VISIBLE_DEVICES");
  XT_CU(api_, DeviceGet, &device_, options_.device);
  CUcontext context = nullptr;
  XT_CU(api_, DevicePrimaryCtxRetain, &context, device_);
  context_retained_ = true;
  XT_CU(api_, CtxSetCurrent, context);
  return {};
}

Status DriverBackend::describe_device() {
  info_.name = "driver";
  info_.measures_time = true;
  char name[256] = {};
  XT_CU(api_, DeviceGetName, name, sizeof name - 1, device_);
  info_.device = name;
  int major = 0, minor = 0, sms = 0, version = 0, vmm = 0, l2 = 0;
  XT_CU(api_, DeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_);
  XT_CU(api_, DeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_);
  XT_CU(api_, DeviceGetAttribute, &sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_);
  XT_CU(api_, DeviceGetAttribute, &l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device_);
  XT_CU(api_, DeviceGetAttribute, &vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device_);
  XT_CU(api_, DriverGetVersion, &version);
  info_.sm = static_cast<uint32_t>(major * 10 + minor);
  info_.sm_count = static_cast<uint32_t>(sms);
  info_.l2_bytes = static_cast<uint64_t>(std::max(l2, 0));
  info_.driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  if (const std::string kernel = kernel_driver_version(); !kernel.empty())
    info_.driver += " (" + kernel + ")";
  if (vmm == 0)
    return unsupported("{} has no virtual memory management: memory can not be placed at recorded addresses",
                       name);
  return {};
}

Status DriverBackend::usable(bool needs_launch) const {
  if (dead_) return tl::make_unexpected(*dead_);
  if (needs_launch && !prepared_) return internal("no launch is prepared");
  return {};
}

void DriverBackend::die(Error error) {
  if (dead_) return;
  if (error.hint.empty()) error.hint = "the GPU context is lost: start the replay in a new process";
  dead_ = std::move(error);
}

Status DriverBackend::drain(const char* what) {
  Result<LaunchStream::Wait> w = stream_.wait_idle(drain_seconds);
  if (!w) {
    die(std::move(w).error().in(what));
    return usable(false);
  }
  if (*w == LaunchStream::Wait::timed_out) {
    die(device("{} did not end within {} s", what, drain_seconds).value());
    return usable(false);
  }
  return {};
}

Result<LoadedModule*> DriverBackend::module(ModuleHandle handle) {
  const auto it = modules_.find(handle);
  if (it == modules_.end()) return internal("module {} is not loaded", handle);
  return &it->second;
}

Status DriverBackend::prepare(const LaunchImage& launch) {
  XT_TRY_STATUS(usable(false));
  if (prepared_) return internal("prepare() before finish() of the previous launch");
  const std::string& kernel = launch.record.kernel;
  const auto failed = [&](Status s) {
    return tl::make_unexpected(std::move(s).error().in(fmt::format("preparing the launch of {}", kernel)));
  };
  XT_TRY_STATUS(check_launch(launch));
  XT_TRY(launch_.setup, launch_setup(launch.record));
  launch_.record = launch.record;
  for (bundle::Region& r : launch_.record.regions) {
    r.before.clear();
    r.after.clear();
  }
  launch_.pointer_hits = pointers_to_variables(launch);
  launch_.pinned = find_pinned_variables(launch, launch_.pointer_hits);
  for (const size_t i : launch_.pinned.regions) launch_.record.regions[i].kind = bundle::RegionKind::device;
  written_.assign(launch.record.regions.size(), true);
  if (Status s = watch(memory_.place(launch_.record.regions, launch.before, options_.keep_free_bytes)); !s) return failed(std::move(s));
  prepared_ = true;
  if (Status s = watch(upload_variables(launch)); !s) {
    // The first error is the one to report.
    static_cast<void>(finish());
    return failed(std::move(s));
  }
  return {};
}

Status DriverBackend::upload_variables(const LaunchImage& launch) {
  uint64_t total = 0;
  const std::vector<bundle::Region>& regions = launch_.record.regions;
  variable_offset_.assign(regions.size(), 0);
  for (size_t i = 0; i < regions.size(); ++i) {
    if (is_placed(regions[i].kind)) continue;
    variable_offset_[i] = total;
    total += align_up(launch.before[i].size(), 256);
  }
  if (total == 0) return {};
  XT_TRY(variables_pristine_, pristine_.allocate(total, "the pristine copy of module variables"));
  for (size_t i = 0; i < regions.size(); ++i)
    if (!is_placed(regions[i].kind) && !launch.before[i].empty())
      XT_CU(api_, MemcpyHtoDAsync, variables_pristine_ + variable_offset_[i], launch.before[i].data(),
            launch.before[i].size(), stream_.handle());
  return drain("uploading module variables");
}

Result<DevPtr> DriverBackend::allocate(uint64_t bytes, const char* purpose) {
  XT_TRY_STATUS(usable(false));
  XT_TRY(const CUdeviceptr buffer, watch(buffers_.allocate(bytes, purpose)));
  if (Status s = fill({buffer}, bytes, 0); !s) return tl::make_unexpected(std::move(s).error());
  return DevPtr{buffer};
}

Status DriverBackend::allocate_at(DevPtr address, uint64_t bytes, const char* purpose) {
  XT_TRY_STATUS(usable(false));
  XT_TRY_STATUS(watch(buffers_.allocate_at(address.value, bytes, purpose)));
  return fill(address, bytes, 0);
}

Status DriverBackend::release(DevPtr buffer) {
  XT_TRY_STATUS(usable(false));
  XT_TRY_STATUS(drain("work on a buffer"));
  return watch(buffers_.release(buffer.value));
}

Status DriverBackend::fill(DevPtr address, uint64_t bytes, uint8_t value) {
  XT_TRY_STATUS(usable(false));
  if (bytes == 0) return {};
  XT_TRY_STATUS(watch(
      api_.check(api_.MemsetD8Async(address.value, value, bytes, stream_.handle()), "cuMemsetD8Async")));
  return drain("filling a buffer");
}

Status DriverBackend::write(DevPtr address, ByteView bytes) {
  XT_TRY_STATUS(usable(false));
  if (bytes.empty()) return {};
  XT_TRY_STATUS(
      watch(api_.check(api_.MemcpyHtoDAsync(address.value, bytes.data(), bytes.size(), stream_.handle()),
                       "cuMemcpyHtoDAsync")));
  return drain("writing device memory");
}

Result<Bytes> DriverBackend::read(DevPtr address, uint64_t bytes) {
  XT_TRY_STATUS(usable(false));
  Bytes out(bytes);
  if (bytes == 0) return out;
  XT_TRY_STATUS(watch(api_.check(api_.MemcpyDtoHAsync(out.data(), address.value, bytes, stream_.handle()),
                                 "cuMemcpyDtoHAsync")));
  XT_TRY_STATUS(drain("reading device memory"));
  return out;
}

uint64_t DriverBackend::free_bytes() const {
  size_t free = 0, total = 0;
  if (dead_ || api_.MemGetInfo(&free, &total) != CUDA_SUCCESS) return 0;
  return free;
}

Result<ModuleHandle> DriverBackend::load(ByteView cubin) {
  XT_TRY_STATUS(usable(true));
  XT_TRY(LoadedModule m, watch(load_module(api_, cubin, launch_)));
  const ModuleHandle handle = next_module_++;
  modules_.emplace(handle, std::move(m));
  // The loader has put initial values into module variables; the recorded ones replace them whatever is
  // restored later.
  for (const BoundVariable& v : modules_.at(handle).variables)
    XT_TRY_STATUS(
        watch(api_.check(api_.MemcpyDtoDAsync(v.live, variables_pristine_ + variable_offset_[v.region],
                                              v.size, stream_.handle()),
                         "cuMemcpyDtoDAsync")));
  XT_TRY_STATUS(drain("setting module variables"));
  return handle;
}

Status DriverBackend::unload(ModuleHandle handle) {
  XT_TRY_STATUS(usable(true));
  XT_TRY(LoadedModule * m, module(handle));
  XT_TRY_STATUS(drain("work of a module"));
  const CUmodule loaded = m->module;
  modules_.erase(handle);
  return watch(api_.check(api_.ModuleUnload(loaded), "cuModuleUnload"));
}

Result<Resources> DriverBackend::resources(ModuleHandle handle) {
  XT_TRY_STATUS(usable(true));
  XT_TRY(LoadedModule * m, module(handle));
  return watch(module_resources(api_, *m, launch_));
}

Result<DevPtr> DriverBackend::region_address(ModuleHandle handle, size_t index) {
  XT_TRY(LoadedModule * m, module(handle));
  if (index >= launch_.record.regions.size())
    return internal("region {} asked of a launch with {}", index, launch_.record.regions.size());
  const bundle::Region& r = launch_.record.regions[index];
  if (is_placed(r.kind)) return r.address;
  for (const BoundVariable& v : m->variables)
    if (v.region == index) return DevPtr{v.live};
  return DevPtr{};  // a variable of size 0 is not bound
}

Result<Bytes> DriverBackend::read_region(ModuleHandle handle, size_t index) {
  XT_TRY_STATUS(usable(true));
  XT_TRY(const DevPtr address, region_address(handle, index));
  if (address.value == 0) return Bytes();
  return read(address, launch_.record.regions[index].size);
}

Result<std::vector<Bytes>> DriverBackend::read_regions(ModuleHandle handle) {
  std::vector<Bytes> all;
  XT_TRY_STATUS(usable(true));
  for (size_t i = 0; i < launch_.record.regions.size(); ++i) {
    XT_TRY(Bytes one, read_region(handle, i));
    all.push_back(std::move(one));
  }
  return all;
}

void DriverBackend::set_written_regions(std::vector<bool> written) {
  written.resize(launch_.record.regions.size(), true);
  written_ = std::move(written);
  memory_.set_written(written_);
}

std::vector<std::string> DriverBackend::notes() const {
  std::vector<std::string> notes = launch_.setup.notes;
  if (memory_.pristine_host_bytes() > 0)
    notes.push_back(
        fmt::format("{} MiB of recorded memory are restored from host memory: device memory is short",
                    memory_.pristine_host_bytes() >> 20));
  if (memory_.uses_pool()) notes.push_back("some recorded memory lies in the driver's default memory pool");
  for (const cubin::PinnedVariable& v : launch_.pinned.variables)
    notes.push_back(fmt::format("module variable {} lies at its recorded address {:#x}, to which memory points: the code was made to refer to it there", v.name,
                                v.address));
  // One note: a library's module has hundreds of variables, which the kernel does not use, and each probe loads a module.
  std::set<size_t> moved;
  const BoundVariable* first = nullptr;
  for (const auto& [handle, m] : modules_)
    for (const BoundVariable& v : m.variables)
      if (v.live != launch_.record.regions[v.region].address.value && moved.insert(v.region).second && first == nullptr)
        first = &v;
  if (first != nullptr) {
    const bundle::Region& r = launch_.record.regions[first->region];
    notes.push_back(fmt::format("module variables lie elsewhere than when they were recorded, and nothing points to them: {} ({:#x}, recorded at {:#x}){}",
                                r.symbol, first->live, r.address.value,
                                moved.size() > 1 ? fmt::format(" and {} more", moved.size() - 1) : ""));
  }
  return notes;
}

Status DriverBackend::finish() {
  if (dead_) {
    memory_.abandon();
    buffers_.abandon();
    pristine_.abandon();
    modules_.clear();
    prepared_ = false;
    return usable(false);
  }
  Status first;
  const auto note = [&first](Status s) {
    if (!s && first) first = std::move(s);
  };
  note(drain("the work of the launch"));
  if (dead_) return finish();
  for (const auto& [handle, m] : modules_) note(api_.check(api_.ModuleUnload(m.module), "cuModuleUnload"));
  modules_.clear();
  note(memory_.remove());
  note(buffers_.release_all());
  note(pristine_.release_all());
  variables_pristine_ = stamps_ = sweep_ = 0;
  stamps_bytes_ = sweep_bytes_ = 0;
  variable_offset_.clear();
  launch_ = {};
  written_.clear();
  prepared_ = false;
  return watch(std::move(first));
}

}  // namespace xtrace::replay
