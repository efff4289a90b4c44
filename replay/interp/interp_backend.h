// The backend that executes a launch on the CPU: the embedded one, for machines without a GPU, and the
// independent witness of what spliced code does. It never measures time (BackendInfo::measures_time is false,
// and time() is refused).
//
// A run that does something hardware would stop at (an access outside recorded memory, a trap, a deadlock, no
// end) gives RunOutcome::completed = false with the place in the text, and the backend stays usable. What is
// not implemented is an unsupported error.
#pragma once

#include <memory>

#include "replay/backend.h"
#include "replay/interp/engine.h"

namespace xtrace::replay {

struct InterpOptions {
  uint64_t instruction_limit = interp::EngineOptions{}.instruction_limit;  // of warps, for one launch
  bool late = false;  // results come as late as the control bits allow: interp/late.h
};

class InterpBackend : public Backend {
 public:
  // Logs of later runs go to `sink`; nullptr ends that.
  virtual void set_witness(interp::WitnessSink* sink) = 0;
  // Of the last run that completed.
  virtual const interp::EngineResult& last_result() const = 0;
};

std::unique_ptr<InterpBackend> make_interp_backend(const InterpOptions& options = {});

}  // namespace xtrace::replay
