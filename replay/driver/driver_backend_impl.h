// The class behind make_driver_backend(); driver_backend.cc holds its life and memory, driver_launch.cc
// launches, driver_timing.cc timing.
#pragma once

#include <map>
#include <optional>

#include "replay/driver/device_kernels.h"
#include "replay/driver/driver_backend.h"
#include "replay/driver/launch_stream.h"
#include "replay/driver/loaded_module.h"
#include "replay/driver/physical.h"
#include "replay/driver/placed_memory.h"

namespace xtrace::replay {

class DriverBackend final : public Backend {
 public:
  DriverBackend(const DriverApi& api, const DriverOptions& options);
  ~DriverBackend() override;
  Status open();

  const BackendInfo& info() const override { return info_; }
  Status prepare(const LaunchImage& launch) override;
  Result<DevPtr> allocate(uint64_t bytes, const char* purpose) override;
  Status allocate_at(DevPtr address, uint64_t bytes, const char* purpose) override;
  Status release(DevPtr buffer) override;
  Status fill(DevPtr address, uint64_t bytes, uint8_t value) override;
  Status write(DevPtr address, ByteView bytes) override;
  Result<Bytes> read(DevPtr address, uint64_t bytes) override;
  uint64_t free_bytes() const override;
  Result<ModuleHandle> load(ByteView cubin) override;
  Status unload(ModuleHandle module) override;
  Result<Resources> resources(ModuleHandle module) override;
  Status restore(ModuleHandle module, RestoreScope scope) override;
  Result<RunOutcome> run(ModuleHandle module) override;
  Result<RunOutcome> run_disturbed(ModuleHandle module, uint32_t amount) override;
  Result<std::vector<Bytes>> read_regions(ModuleHandle module) override;
  Result<DevPtr> region_address(ModuleHandle module, size_t index) override;
  Result<Bytes> read_region(ModuleHandle module, size_t index) override;
  void set_written_regions(std::vector<bool> written) override;
  Result<TimingResult> time(const TimingRequest& request) override;
  Result<std::vector<ClockReading>> read_clocks() override;
  std::vector<std::string> notes() const override;
  Status finish() override;

 private:
  // The error of a dead backend, or of a call that needs a prepared launch.
  Status usable(bool needs_launch) const;
  Result<LoadedModule*> module(ModuleHandle handle);
  // A failed driver call on memory or modules: sticky errors kill the backend.
  template <typename T>
  Result<T> watch(Result<T> result);
  void die(Error error);
  Status drain(const char* what);

  Status open_context();
  Status describe_device();
  Status upload_variables(const LaunchImage& launch);
  Status queue_restore(const LoadedModule& m, RestoreScope scope);
  // Queues one launch; the CUDA result is returned as it is, for the caller to judge.
  CUresult queue_launch(LoadedModule& m);
  // Timing, in driver_timing.cc.
  Status open_timing(size_t samples);
  Status queue_sample(LoadedModule& m, uint32_t launches, size_t sample);
  Status queue_samples(const std::vector<LoadedModule*>& modules, uint32_t launches);
  Result<std::vector<TimedSample>> collect_samples(size_t samples, uint32_t launches);
  Result<std::vector<TimedSample>> take_samples(const std::vector<LoadedModule*>& modules, uint32_t launches);
  Result<double> event_tick();

  DriverApi api_;
  DriverOptions options_;
  BackendInfo info_;
  CUdevice device_ = 0;
  bool context_retained_ = false;
  std::optional<Error> dead_;

  LaunchStream stream_{api_};
  CUstream beside_ = nullptr;              // of what disturbs a launch; made when first needed
  DeviceBuffers buffers_{api_, device_, caller_buffers_at};  // allocate()
  DeviceBuffers pristine_{api_, device_, own_buffers_at};
  PlacedMemory memory_{api_, device_, pristine_, stream_};

  DeviceKernels kernels_{api_};
  CUdeviceptr stamps_ = 0, sweep_ = 0;     // of the timing of this launch; 0 until it begins, or without memory for it
  uint64_t stamps_bytes_ = 0, sweep_bytes_ = 0;
  double event_tick_ = 0;                  // microseconds; 0 until measured

  bool prepared_ = false;
  LaunchContext launch_;
  std::vector<bool> written_;
  CUdeviceptr variables_pristine_ = 0;     // `before` of every module variable, packed
  std::vector<uint64_t> variable_offset_;  // per region
  std::map<ModuleHandle, LoadedModule> modules_;
  ModuleHandle next_module_ = 1;
};

template <typename T>
Result<T> DriverBackend::watch(Result<T> result) {
  if (result || result.error().kind != ErrorKind::device) return result;
  // Whether the context is lost is the driver's to say: a sticky error comes back from every later call.
  const CUresult now = api_.StreamQuery(stream_.handle());
  if (now != CUDA_SUCCESS && now != CUDA_ERROR_NOT_READY) die(result.error());
  return result;
}

}  // namespace xtrace::replay
