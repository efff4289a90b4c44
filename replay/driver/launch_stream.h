// The stream everything of a replay runs on, with a gate and a watchdog.
//
// Gate: the GPU waits for a host flag, so that a launch and the events around it are all queued before the
// first of them runs; without it the event interval of a short kernel contains the CPU's launch latency.
// Watchdog: waiting is polling with a deadline. Nothing can stop a kernel that does not end, so a passed
// deadline ends the use of the context (the caller marks the backend dead and the process leaves by _exit).
#pragma once

#include <cstdint>
#include <vector>

#include "replay/driver/driver_api.h"

namespace xtrace::replay {

class LaunchStream {
 public:
  explicit LaunchStream(const DriverApi& api) : api_(api) {}
  ~LaunchStream() { close(); }
  LaunchStream(const LaunchStream&) = delete;
  LaunchStream& operator=(const LaunchStream&) = delete;

  Status open();
  void close();
  // Forgets every handle without calling the driver: a context with a hung kernel would block.
  void abandon();

  CUstream handle() const { return stream_; }

  // Closes the gate behind everything queued so far. Must be followed by open_gate(), on every path.
  Status close_gate();
  void open_gate();

  // Event number i of a pool that grows; recorded on this stream.
  Result<CUevent> event(size_t i);
  Status record(size_t i);
  Result<double> microseconds_between(size_t first, size_t second);

  enum class Wait { done, timed_out };
  // Polls until event i is done, `seconds` pass (timed_out), or the device reports an error.
  Result<Wait> wait_event(size_t i, double seconds);
  // The same for everything queued.
  Result<Wait> wait_idle(double seconds);

 private:
  template <typename Query>
  Result<Wait> poll(Query query, const char* call, double seconds);

  const DriverApi& api_;
  CUstream stream_ = nullptr;
  std::vector<CUevent> events_;
  uint32_t* flag_ = nullptr;  // pinned; the GPU reads it through flag_device_
  CUdeviceptr flag_device_ = 0;
  uint32_t ticket_ = 0;
};

// Opens the gate when it leaves the scope.
class GateGuard {
 public:
  explicit GateGuard(LaunchStream& stream) : stream_(stream) {}
  ~GateGuard() { stream_.open_gate(); }
  GateGuard(const GateGuard&) = delete;
  GateGuard& operator=(const GateGuard&) = delete;

 private:
  LaunchStream& stream_;
};

}  // namespace xtrace::replay
