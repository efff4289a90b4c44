// A backend between the replay and the interpreter that can break whatever passes through it.
#pragma once

#include <functional>

#include "replay/backend.h"

namespace xtrace::cli {

// Where the last block's counter lies of those that were executed; zeros fill up its line.
inline size_t last_counter(const Bytes& counters) {
  size_t at = counters.size() - sizeof(wire::BlockCount);
  while (at > 0 && read_at<wire::BlockCount>(counters, at, "counter")->warps == 0) at -= sizeof(wire::BlockCount);
  return at;
}

class Saboteur final : public replay::Backend {
 public:
  Saboteur(std::unique_ptr<replay::Backend> inner, ByteView clean_code) : inner_(std::move(inner)), clean_(clean_code) {
    info_ = inner_->info();
  }

  // What a test may set.
  std::function<void(Bytes& cubin)> on_splice;                      // of each spliced cubin, before it is loaded
  std::function<void(Bytes& bytes)> on_records;                     // what is read from buffers named "trace records"
  std::function<void(Bytes& bytes)> on_counters;                    // likewise from "block counters"
  std::function<void(Bytes& bytes, size_t region)> on_output;       // of spliced code, when a region is read
  std::function<void(Bytes& bytes, size_t region)> on_clean_output; // of the clean code, likewise
  std::function<Result<replay::TimingResult>(const replay::TimingRequest&)> on_time;   // set: the backend measures time
  std::string device;                                               // the interpreter's, unless set
  uint64_t largest_records = 0;                                     // bytes of the largest buffer named "trace records"
  size_t spliced = 0;                                               // cubins loaded that are not the clean one

  const replay::BackendInfo& info() const override {
    info_.measures_time = on_time != nullptr;
    if (!device.empty()) info_.device = device;
    return info_;
  }
  Status prepare(const replay::LaunchImage& launch) override { return inner_->prepare(launch); }
  Result<DevPtr> allocate(uint64_t bytes, const char* purpose) override {
    auto at = inner_->allocate(bytes, purpose);
    if (at && std::string_view(purpose) == "trace records") {
      records_.push_back({at->value, at->value + bytes});
      largest_records = std::max(largest_records, bytes);
    }
    if (at && std::string_view(purpose) == "block counters") counters_.push_back({at->value, at->value + bytes});
    return at;
  }
  Status release(DevPtr buffer) override {
    for (auto* all : {&records_, &counters_}) std::erase_if(*all, [&](const auto& r) { return r.first == buffer.value; });
    return inner_->release(buffer);
  }
  Status fill(DevPtr a, uint64_t n, uint8_t v) override { return inner_->fill(a, n, v); }
  Status write(DevPtr a, ByteView b) override { return inner_->write(a, b); }
  Result<Bytes> read(DevPtr a, uint64_t n) override {
    auto bytes = inner_->read(a, n);
    for (const auto& [begin, end] : records_)
      if (bytes && on_records && a.value >= begin && a.value < end) on_records(*bytes);
    for (const auto& [begin, end] : counters_)
      if (bytes && on_counters && a.value >= begin && a.value < end) on_counters(*bytes);
    return bytes;
  }
  uint64_t free_bytes() const override { return inner_->free_bytes(); }
  Result<replay::ModuleHandle> load(ByteView cubin) override {
    if (std::equal(cubin.begin(), cubin.end(), clean_.begin(), clean_.end())) return inner_->load(cubin);
    ++spliced;
    Bytes changed(cubin.begin(), cubin.end());
    if (on_splice) on_splice(changed);
    auto module = inner_->load(changed);
    if (module) probed_.push_back(*module);
    return module;
  }
  Status unload(replay::ModuleHandle m) override { return inner_->unload(m); }
  Result<replay::Resources> resources(replay::ModuleHandle m) override { return inner_->resources(m); }
  Status restore(replay::ModuleHandle m, replay::RestoreScope s) override { return inner_->restore(m, s); }
  Result<replay::RunOutcome> run(replay::ModuleHandle m) override { return inner_->run(m); }
  Result<DevPtr> region_address(replay::ModuleHandle m, size_t r) override { return inner_->region_address(m, r); }
  Result<std::vector<Bytes>> read_regions(replay::ModuleHandle m) override {
    auto all = inner_->read_regions(m);
    if (all && on_output && is_probed(m))
      for (size_t r = 0; r < all->size(); ++r) on_output((*all)[r], r);
    return all;
  }
  Result<Bytes> read_region(replay::ModuleHandle m, size_t r) override {
    auto bytes = inner_->read_region(m, r);
    if (bytes && on_clean_output && !is_probed(m)) on_clean_output(*bytes, r);
    return bytes;
  }
  void set_written_regions(std::vector<bool> w) override { inner_->set_written_regions(std::move(w)); }
  Result<replay::TimingResult> time(const replay::TimingRequest& r) override { return on_time ? on_time(r) : inner_->time(r); }
  Status finish() override {
    records_.clear();
    counters_.clear();
    return inner_->finish();
  }

 private:
  bool is_probed(replay::ModuleHandle m) const { return std::find(probed_.begin(), probed_.end(), m) != probed_.end(); }

  std::unique_ptr<replay::Backend> inner_;
  ByteView clean_;
  mutable replay::BackendInfo info_;
  std::vector<std::pair<uint64_t, uint64_t>> records_, counters_;
  std::vector<replay::ModuleHandle> probed_;
};

}  // namespace xtrace::cli
