#include "capture/inject/drainer.h"

#include <thread>

#include "capture/bundle/signals_blocked.h"


namespace xtrace::inject {

struct Drainer::Shared {
  DriverApi api;
  std::function<void()> on_start;
  std::mutex mutex;
  std::condition_variable changed;
  CUcontext request = nullptr;  // set by drain, cleared by the thread when done
  CUresult result = CUDA_SUCCESS;
  bool busy = false;

  void run() {
    on_start();
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return request != nullptr; });
      const CUcontext context = request;
      lock.unlock();
      CUresult r = api.cuCtxSetCurrent(context);
      // A capture in global mode on another thread would make the wait an error there.
      CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
      if (r == CUDA_SUCCESS) r = api.cuThreadExchangeStreamCaptureMode(&mode);
      if (r == CUDA_SUCCESS) r = api.cuCtxSynchronize();
      lock.lock();
      result = r;
      request = nullptr;
      busy = false;
      changed.notify_all();
    }
  }
};

Drainer::Drainer(const DriverApi& api, std::function<void()> on_thread_start)
    : shared_(std::make_shared<Shared>()) {
  shared_->api = api;
  shared_->on_start = std::move(on_thread_start);
}

Drainer::Outcome Drainer::drain(CUcontext context, std::chrono::milliseconds timeout) {
  Outcome outcome;
  if (!started_) {
    const bundle::SignalsBlocked blocked;
    std::thread([shared = shared_] { shared->run(); }).detach();
    started_ = true;
  }
  std::unique_lock lock(shared_->mutex);
  if (shared_->busy) {
    outcome.why = "the device has been busy since an earlier wait gave up";
    return outcome;
  }
  shared_->busy = true;
  shared_->request = context;
  shared_->changed.notify_all();
  if (!shared_->changed.wait_for(lock, timeout, [this] { return !shared_->busy; })) {
    outcome.why =
        fmt::format("the device did not become idle within {:.1f} s (a kernel that waits for the host?)",
                    static_cast<double>(timeout.count()) / 1000);
    return outcome;
  }
  outcome.idle = true;
  outcome.result = shared_->result;
  return outcome;
}

}  // namespace xtrace::inject
