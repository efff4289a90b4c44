// Waits until a context is idle, on all its streams, but not forever: a kernel that waits for the host would
// otherwise hang the application inside the recorder. The wait runs in a thread of its own, which stays
// blocked in cuCtxSynchronize when the time is over; until it comes back every later wait fails at once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "capture/inject/driver_api.h"

namespace xtrace::inject {

class Drainer {
 public:
  // `on_thread_start` runs first in the waiting thread (to mark its driver calls as the recorder's own).
  Drainer(const DriverApi& api, std::function<void()> on_thread_start);

  struct Outcome {
    bool idle = false;
    CUresult result = CUDA_SUCCESS;  // of cuCtxSynchronize; an error here is a failed kernel
    std::string why;                 // when not idle
  };
  Outcome drain(CUcontext context, std::chrono::milliseconds timeout);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // also held by the thread, which is never joined
  bool started_ = false;
};

}  // namespace xtrace::inject
