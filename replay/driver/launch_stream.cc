#include "replay/driver/launch_stream.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace xtrace::replay {

Status LaunchStream::open() {
  XT_CU(api_, StreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
  void* host = nullptr;
  XT_CU(api_, MemHostAlloc, &host, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP);
  flag_ = static_cast<uint32_t*>(host);
  *flag_ = ticket_;
  XT_CU(api_, MemHostGetDevicePointer, &flag_device_, flag_, 0);
  return {};
}

void LaunchStream::close() {
  for (CUevent e : events_) api_.EventDestroy(e);
  if (flag_ != nullptr) api_.MemFreeHost(flag_);
  if (stream_ != nullptr) api_.StreamDestroy(stream_);
  abandon();
}

void LaunchStream::abandon() {
  events_.clear();
  flag_ = nullptr;
  stream_ = nullptr;
}

Status LaunchStream::close_gate() {
  // The comparison is cyclic in 32 bits (>= 0 as a signed difference), so the ticket may wrap.
  XT_CU(api_, StreamWaitValue32, stream_, flag_device_, ticket_ + 1, CU_STREAM_WAIT_VALUE_GEQ);
  ++ticket_;
  return {};
}

void LaunchStream::open_gate() {
  if (flag_ != nullptr) std::atomic_ref<uint32_t>(*flag_).store(ticket_, std::memory_order_release);
}

Result<CUevent> LaunchStream::event(size_t i) {
  while (events_.size() <= i) {
    CUevent e = nullptr;
    XT_CU(api_, EventCreate, &e, CU_EVENT_DEFAULT);
    events_.push_back(e);
  }
  return events_[i];
}

Status LaunchStream::record(size_t i) {
  XT_TRY(CUevent e, event(i));
  XT_CU(api_, EventRecord, e, stream_);
  return {};
}

Result<double> LaunchStream::microseconds_between(size_t first, size_t second) {
  float milliseconds = 0;
  XT_CU(api_, EventElapsedTime, &milliseconds, events_.at(first), events_.at(second));
  return double{milliseconds} * 1000.0;
}

template <typename Query>
Result<LaunchStream::Wait> LaunchStream::poll(Query query, const char* call, double seconds) {
  using clock = std::chrono::steady_clock;
  const clock::time_point start = clock::now();
  while (true) {
    const CUresult r = query();
    if (r == CUDA_SUCCESS) return Wait::done;
    if (r != CUDA_ERROR_NOT_READY) {
      XT_TRY_STATUS(api_.check(r, call));
    }
    const double passed = std::chrono::duration<double>(clock::now() - start).count();
    if (passed > seconds) return Wait::timed_out;
    // Short kernels are waited for without sleeping; a long one costs one wake-up each 100 microseconds.
    if (passed > 0.002) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

Result<LaunchStream::Wait> LaunchStream::wait_event(size_t i, double seconds) {
  XT_TRY(CUevent e, event(i));
  return poll([&] { return api_.EventQuery(e); }, "cuEventQuery", seconds);
}

Result<LaunchStream::Wait> LaunchStream::wait_idle(double seconds) {
  return poll([&] { return api_.StreamQuery(stream_); }, "cuStreamQuery", seconds);
}

}  // namespace xtrace::replay
