// The launches that gpu_timing_test times, made in memory, the same in each of its processes.
#pragma once

#include "replay/backend.h"

namespace xtrace::replay {

enum class TimedLaunch : uint64_t { chain, stream, in_place, two_modes, drifting, burn, ring };
LaunchImage timed_launch(TimedLaunch which);

constexpr unsigned ring_ctas = 132, ring_hops = 132 * 20;
struct Hop {
  uint64_t received, sent, sm;
};

}  // namespace xtrace::replay
