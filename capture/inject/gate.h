// Holds other threads back while one thread takes a snapshot, so that nothing changes device memory between
// the images before and after the launch but the launch itself.
//
// Shared side: driver calls that may change memory (launches, copies, frees), from ENTER to EXIT. Exclusive
// side: the snapshot of one launch, from before its ENTER images to after its EXIT images. Waiting for the
// exclusive side is bounded (a call can be stuck behind a kernel that never ends); waiting for the shared
// side ends with the snapshot, which is bounded itself.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace xtrace::inject {

class Gate {
 public:
  void enter() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !held_; });
    ++inside_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) changed_.notify_all();
  }
  // False when calls of other threads did not end in time.
  bool acquire(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    if (!changed_.wait_until(lock, deadline, [this] { return !held_; })) return false;
    held_ = true;  // from here on nobody new enters
    if (changed_.wait_until(lock, deadline, [this] { return inside_ == 0; })) return true;
    held_ = false;
    changed_.notify_all();
    return false;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned inside_ = 0;
  bool held_ = false;
};

}  // namespace xtrace::inject
