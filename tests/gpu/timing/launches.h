// The launches that gpu_timing_test times, made in memory, the same in each of its processes.
#pragma once

#include "replay/backend.h"

namespace xtrace::replay {

enum class TimedLaunch : uint64_t { chain, stream, in_place, two_modes, drifting, burn, ring, known };
LaunchImage timed_launch(TimedLaunch which);

constexpr unsigned ring_ctas = 132, ring_hops = 132 * 20;
struct Hop {
  uint64_t received, sent, sm;
};

// Of `known`: warps, and what each writes about itself, 8 words of which the first are stretches.
constexpr unsigned known_ctas = 132, known_warps = 2 * known_ctas, known_stretches = 5;

}  // namespace xtrace::replay
