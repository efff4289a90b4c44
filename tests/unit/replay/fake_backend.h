// A Backend in host memory whose "kernel" is a function: for tests of what drives a backend.
#pragma once

#include <functional>
#include <map>

#include "replay/backend.h"

namespace xtrace::replay {

class FakeBackend final : public Backend {
 public:
  // Changes the regions as the kernel would; `run` counts launches from 0. An empty string is success,
  // anything else the failure.
  using Kernel = std::function<std::string(std::vector<Bytes>& regions, uint32_t run)>;
  explicit FakeBackend(Kernel kernel) : kernel_(std::move(kernel)) { info_.name = "fake"; }

  const BackendInfo& info() const override { return info_; }
  Status prepare(const LaunchImage& launch) override {
    before_ = launch.before;
    memory_ = before_;
    // Memory is dirty until restore(): a session that forgets to restore must be seen.
    for (Bytes& m : memory_) std::fill(m.begin(), m.end(), std::byte{0xee});
    written_.assign(before_.size(), true);
    return {};
  }
  Result<DevPtr> allocate(uint64_t bytes, const char*) override {
    const DevPtr at{next_ += 0x100000};
    buffers_[at.value] = Bytes(bytes);
    return at;
  }
  Status release(DevPtr buffer) override {
    if (buffers_.erase(buffer.value) == 0) return internal("no such buffer");
    return {};
  }
  Status fill(DevPtr address, uint64_t bytes, uint8_t value) override {
    Bytes& b = buffers_.at(address.value);
    std::fill_n(b.begin(), bytes, std::byte{value});
    return {};
  }
  Status write(DevPtr address, ByteView bytes) override {
    std::copy(bytes.begin(), bytes.end(), buffers_.at(address.value).begin());
    return {};
  }
  Result<Bytes> read(DevPtr address, uint64_t bytes) override {
    const Bytes& b = buffers_.at(address.value);
    return Bytes(b.begin(), b.begin() + static_cast<ptrdiff_t>(bytes));
  }
  uint64_t free_bytes() const override { return 1 << 30; }

  Result<ModuleHandle> load(ByteView) override { return ++modules_; }
  Status unload(ModuleHandle) override { return {}; }
  Result<Resources> resources(ModuleHandle) override { return Resources{}; }
  Status restore(ModuleHandle, RestoreScope scope) override {
    for (size_t i = 0; i < memory_.size(); ++i)
      if (scope == RestoreScope::all || written_[i]) memory_[i] = before_[i];
    ++restores;
    return {};
  }
  Result<RunOutcome> run(ModuleHandle) override {
    RunOutcome o;
    o.failure = kernel_(memory_, runs++);
    o.completed = o.failure.empty();
    o.microseconds = runs;
    return o;
  }
  Result<RunOutcome> run_disturbed(ModuleHandle module, uint32_t) override {
    ++disturbed;
    return run(module);
  }
  Result<DevPtr> region_address(ModuleHandle, size_t) override { return unsupported("the fake has no addresses"); }
  Result<std::vector<Bytes>> read_regions(ModuleHandle) override { return memory_; }
  void set_written_regions(std::vector<bool> written) override { written_ = std::move(written); }
  Result<TimingResult> time(const TimingRequest&) override {
    return unsupported("the fake does not measure time");
  }
  Status finish() override { return {}; }

  const std::vector<bool>& written() const { return written_; }
  uint32_t runs = 0, restores = 0, disturbed = 0;

 private:
  Kernel kernel_;
  BackendInfo info_;
  std::vector<Bytes> before_, memory_;
  std::vector<bool> written_;
  std::map<uint64_t, Bytes> buffers_;
  uint64_t next_ = 0;
  ModuleHandle modules_ = 0;
};

}  // namespace xtrace::replay
