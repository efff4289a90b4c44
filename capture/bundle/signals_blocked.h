// Blocks every signal for the life of the object. Threads that are started meanwhile inherit the mask: those of the recorder and of the
// writer must never run the application's signal handlers.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace xtrace::bundle {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace xtrace::bundle
