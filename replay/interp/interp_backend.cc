#include "replay/interp/interp_backend.h"

#include <map>

#include "replay/address_plan.h"
#include "replay/interp/resources.h"
#include "replay/interp/special.h"
#include "replay/session.h"

namespace xtrace::replay {
namespace {

using interp::Program;

constexpr uint64_t buffers_from = 0x200000000000;  // device addresses of allocate()
constexpr uint64_t buffer_alignment = 2ull
                                      << 20;  // as the driver gives them; the gap behind one is never mapped
constexpr uint64_t host_bytes = 8ull << 30;   // what buffers may take of the host

class Interp final : public InterpBackend {
 public:
  explicit Interp(const InterpOptions& options) : options_(options) {
    info_.name = options.late ? "interp-late" : "interp";
    info_.device = "CPU interpreter of sm_90";
    info_.driver = "none";
    info_.sm = 90;
    info_.sm_count = interp::modelled_sm_count;
  }

  const BackendInfo& info() const override { return info_; }
  Status prepare(const LaunchImage& launch) override;
  Result<DevPtr> allocate(uint64_t bytes, const char* purpose) override;
  Status release(DevPtr buffer) override;
  Status fill(DevPtr address, uint64_t bytes, uint8_t value) override;
  Status write(DevPtr address, ByteView bytes) override;
  Result<Bytes> read(DevPtr address, uint64_t bytes) override;
  uint64_t free_bytes() const override { return host_bytes - std::min(host_bytes, buffered_); }
  Result<ModuleHandle> load(ByteView cubin) override;
  Status unload(ModuleHandle module) override;
  Result<Resources> resources(ModuleHandle module) override;
  Status restore(ModuleHandle module, RestoreScope scope) override;
  Result<RunOutcome> run(ModuleHandle module) override;
  Result<std::vector<Bytes>> read_regions(ModuleHandle module) override;
  Result<DevPtr> region_address(ModuleHandle module, size_t index) override;
  Result<Bytes> read_region(ModuleHandle module, size_t index) override;
  void set_written_regions(std::vector<bool> written) override { written_ = std::move(written); }
  Result<TimingResult> time(const TimingRequest&) override {
    return unsupported("the interpreter models time and does not measure it");
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    notes.emplace_back("executed by the CPU interpreter: clocks are modelled, not measured");
    return notes;
  }
  Status finish() override;

  void set_witness(interp::WitnessSink* sink) override { witness_ = sink; }
  const interp::EngineResult& last_result() const override { return last_; }

 private:
  Result<const Program*> program(ModuleHandle module) const;
  Result<std::byte*> bytes_at(DevPtr address, uint64_t bytes, const char* what);

  InterpOptions options_;
  BackendInfo info_;
  bool prepared_ = false;
  LaunchImage launch_;                 // `before` is what restore() copies from
  std::vector<Bytes> regions_;         // contents now
  std::map<uint64_t, Bytes> buffers_;  // by device address
  uint64_t buffered_ = 0;
  interp::MemoryMap memory_;
  std::vector<bool> written_;
  std::map<ModuleHandle, std::unique_ptr<Program>> modules_;
  ModuleHandle next_module_ = 1;
  interp::WitnessSink* witness_ = nullptr;
  interp::EngineResult last_;
};

Status Interp::prepare(const LaunchImage& launch) {
  if (prepared_) return internal("prepare() before finish() of the previous launch");
  XT_TRY_STATUS(check_launch(launch));
  XT_TRY_STATUS(interp::check_cluster(launch.record));
  launch_ = launch;
  regions_ = launch.before;
  for (size_t i = 0; i < regions_.size(); ++i) {
    const bundle::Region& r = launch.record.regions[i];
    const auto in_window = [&](uint64_t window) {
      return r.address.value < window + interp::window_bytes && r.address.value + r.size > window;
    };
    if (in_window(interp::shared_window) || in_window(interp::local_window))
      return unsupported("{} lies where the interpreter puts generic addresses of shared and local memory",
                         describe(i, r));
    XT_TRY_STATUS(memory_.add(r.address.value, regions_[i], describe(i, r)));
  }
  prepared_ = true;
  return {};
}

Result<DevPtr> Interp::allocate(uint64_t bytes, const char* purpose) {
  if (bytes > free_bytes())
    return environment("no memory for {}: {} bytes asked, {} bytes are left", purpose, bytes, free_bytes());
  const uint64_t size = std::max<uint64_t>(bytes, 1);
  const uint64_t at = memory_.free_address(buffers_from, size, buffer_alignment);
  Bytes& buffer = buffers_[at];
  buffer.resize(size);
  XT_TRY_STATUS(memory_.add(at, buffer, fmt::format("the buffer for {}", purpose)));
  buffered_ += size;
  return DevPtr{at};
}

Status Interp::release(DevPtr buffer) {
  const auto it = buffers_.find(buffer.value);
  if (it == buffers_.end()) return internal("no buffer at {:#x}", buffer.value);
  buffered_ -= it->second.size();
  memory_.remove(buffer.value);
  buffers_.erase(it);
  return {};
}

Result<std::byte*> Interp::bytes_at(DevPtr address, uint64_t bytes, const char* what) {
  std::byte* p = memory_.find(address.value, bytes);
  if (p == nullptr)
    return internal("{} of {} bytes at {:#x}: {}", what, bytes, address.value,
                    memory_.nearest(address.value));
  return p;
}

Status Interp::fill(DevPtr address, uint64_t bytes, uint8_t value) {
  if (bytes == 0) return {};
  XT_TRY(std::byte * p, bytes_at(address, bytes, "fill"));
  std::memset(p, value, bytes);
  return {};
}

Status Interp::write(DevPtr address, ByteView bytes) {
  if (bytes.empty()) return {};
  XT_TRY(std::byte * p, bytes_at(address, bytes.size(), "write"));
  std::memcpy(p, bytes.data(), bytes.size());
  return {};
}

Result<Bytes> Interp::read(DevPtr address, uint64_t bytes) {
  if (bytes == 0) return Bytes();
  XT_TRY(const std::byte* p, bytes_at(address, bytes, "read"));
  return Bytes(p, p + bytes);
}

Result<ModuleHandle> Interp::load(ByteView cubin) {
  if (!prepared_) return internal("no launch is prepared");
  XT_TRY_IN(Program p, interp::decode_program(cubin, launch_), "loading the code of kernel {}",
            launch_.record.kernel);
  const ModuleHandle handle = next_module_++;
  modules_.emplace(handle, std::make_unique<Program>(std::move(p)));
  return handle;
}

Status Interp::unload(ModuleHandle module) {
  if (modules_.erase(module) == 0) return internal("module {} is not loaded", module);
  return {};
}

Result<const Program*> Interp::program(ModuleHandle module) const {
  const auto it = modules_.find(module);
  if (it == modules_.end()) return internal("module {} is not loaded", module);
  return it->second.get();
}

Result<Resources> Interp::resources(ModuleHandle module) {
  XT_TRY(const Program* p, program(module));
  Resources r;
  r.registers = p->registers;
  r.local_bytes = p->frame_bytes;
  r.static_shared_bytes = p->shared_bytes;
  r.ctas_per_sm = interp::ctas_per_sm(launch_.record.block, p->registers,
                                      p->shared_bytes + launch_.record.dynamic_shared_bytes);
  return r;
}

Status Interp::restore(ModuleHandle module, RestoreScope scope) {
  XT_TRY(const Program* p, program(module));
  static_cast<void>(p);  // variables of all modules lie at their recorded addresses: there is one copy
  for (size_t i = 0; i < regions_.size(); ++i) {
    if (scope == RestoreScope::written && i < written_.size() && !written_[i]) continue;
    std::copy(launch_.before[i].begin(), launch_.before[i].end(), regions_[i].begin());
  }
  return {};
}

Result<RunOutcome> Interp::run(ModuleHandle module) {
  XT_TRY(const Program* p, program(module));
  const interp::EngineOptions options{options_.instruction_limit, witness_, options_.late};
  auto result = interp::execute(*p, launch_, memory_, options);
  RunOutcome outcome;
  if (result) {
    last_ = *result;
    outcome.completed = true;
    return outcome;
  }
  if (result.error().kind != ErrorKind::device) return tl::make_unexpected(std::move(result).error());
  outcome.failure = result.error().message;
  return outcome;
}

Result<DevPtr> Interp::region_address(ModuleHandle module, size_t index) {
  XT_TRY_STATUS(program(module));
  if (index >= regions_.size()) return internal("region {} asked of a launch with {}", index, regions_.size());
  return launch_.record.regions[index].address;
}

Result<Bytes> Interp::read_region(ModuleHandle module, size_t index) {
  XT_TRY(const Program* p, program(module));
  static_cast<void>(p);
  if (index >= regions_.size())
    return internal("region {} asked of a launch with {}", index, regions_.size());
  return regions_[index];
}

Result<std::vector<Bytes>> Interp::read_regions(ModuleHandle module) {
  XT_TRY(const Program* p, program(module));
  static_cast<void>(p);
  return regions_;
}

Status Interp::finish() {
  modules_.clear();
  memory_.clear();
  buffers_.clear();
  buffered_ = 0;
  regions_.clear();
  written_.clear();
  launch_ = {};
  prepared_ = false;
  return {};
}

}  // namespace

std::unique_ptr<InterpBackend> make_interp_backend(const InterpOptions& options) {
  return std::make_unique<Interp>(options);
}

}  // namespace xtrace::replay
