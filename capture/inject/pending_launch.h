// A launch that is being recorded, between its ENTER and its EXIT.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "capture/inject/cubin_index.h"
#include "capture/inject/gate.h"
#include "capture/inject/kernel_handle.h"
#include "capture/inject/launch_call.h"
#include "capture/inject/snapshot.h"

namespace xtrace::inject {

struct PendingLaunch {
  explicit PendingLaunch(Gate& g) : gate(g) {}
  ~PendingLaunch() { open_gate(); }
  PendingLaunch(const PendingLaunch&) = delete;
  PendingLaunch& operator=(const PendingLaunch&) = delete;

  void open_gate() {
    if (std::exchange(holds_gate, false)) gate.release();
  }

  void take_call(LaunchCall c) {
    call = std::move(c);
    record.grid = call.grid;
    record.block = call.block;
    record.cluster = call.cluster;
    record.dynamic_shared_bytes = call.dynamic_shared;
    record.cooperative = call.cooperative;
    record.stream = reinterpret_cast<uint64_t>(call.stream);
    record.attributes = call.attributes;
  }

  Gate& gate;
  bool holds_gate = false;

  bundle::LaunchRecord record;
  LaunchCall call;
  KernelHandle handle;
  CUcontext context = nullptr;
  int device = -1;
  std::optional<CubinIndex::Choice> cubin;
  std::unique_ptr<Snapshot> snapshot;
  double seconds = 0;  // spent by the recorder
};

// Adds the time of a scope.
class SpentTime {
 public:
  explicit SpentTime(double& sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~SpentTime() { sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  SpentTime(const SpentTime&) = delete;
  SpentTime& operator=(const SpentTime&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace xtrace::inject
