// What copies do to the barrier in shared memory on which they complete.
#pragma once

#include "replay/interp/step.h"
#include "replay/interp/value/mbarrier.h"

namespace xtrace::replay::interp {

// Changes the barrier at `p`, for lane `lane`; nothing when `p` is nullptr, since the step has failed then.
void change_barrier(Step& s, std::byte* p, const value::MbarrierChange& by, unsigned lane);

}  // namespace xtrace::replay::interp
