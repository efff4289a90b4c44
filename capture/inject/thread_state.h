// What the recorder knows about a thread of the application: the driver calls it is in, and whether the
// driver calls it makes now are the recorder's own.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/hash.h"
#include "capture/inject/allocations.h"
#include "capture/inject/driver_calls.h"

namespace xtrace::inject {

struct PendingLaunch;
struct PendingGraph;
void delete_pending(PendingLaunch* p) noexcept;
void delete_pending(PendingGraph* p) noexcept;
struct PendingDeleter {
  template <typename T>
  void operator()(T* p) const noexcept {
    delete_pending(p);
  }
};

// One driver call between its ENTER and its EXIT.
struct Frame {
  uint32_t cbid = 0, correlation = 0;
  CallClass cls = CallClass::ignored;
  bool in_gate = false;                                   // must leave the shared side
  std::vector<Hash128> loaded;                            // cubins loaded inside it
  std::vector<Allocation> removed;                        // frees: to be put back should the call fail
  std::unique_ptr<PendingLaunch, PendingDeleter> launch;  // a launch that is being recorded
  std::unique_ptr<PendingGraph, PendingDeleter> graph;    // a graph launch of which kernels are
  bool records() const { return launch != nullptr || graph != nullptr; }
};

struct ThreadState {
  unsigned guard = 0;
  std::vector<Frame> frames;
};

// A pthread key instead of thread_local: callbacks can come while a thread's C++ thread-locals are destroyed
// already.
class ThreadStates {
 public:
  ThreadStates() {
    ok_ = pthread_key_create(&key_, [](void* p) { delete static_cast<ThreadState*>(p); }) == 0;
  }
  bool ok() const { return ok_; }
  ThreadState& here() {
    void* p = pthread_getspecific(key_);
    if (p == nullptr) {
      p = new ThreadState;
      pthread_setspecific(key_, p);
    }
    return *static_cast<ThreadState*>(p);
  }

 private:
  pthread_key_t key_{};
  bool ok_ = false;
};

// While it lives, driver calls of this thread are the recorder's own.
class Guard {
 public:
  explicit Guard(ThreadState& state) : state_(state) { ++state_.guard; }
  ~Guard() { --state_.guard; }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  ThreadState& state_;
};

}  // namespace xtrace::inject
