// The launches that gpu_timing_test times, made in memory, the same in each of its processes.
#pragma once

#include "replay/backend.h"

namespace xtrace::replay {

enum class TimedLaunch : uint64_t { chain, stream, in_place, two_modes, drifting, burn, ring, known, crowd };
LaunchImage timed_launch(TimedLaunch which);

constexpr unsigned ring_ctas = 132, ring_hops = 132 * 20;
struct Hop {
  uint64_t received, sent, sm;
};

// Of the kernel `known`, which `crowd` runs with as many warps as an SM holds in one CTA: its chains, each kind three times, and its
// barriers. Word k of the 64 that a warp writes is the time between its clock reads 2 k and 2 k + 1.
constexpr unsigned known_ctas = 132, known_kinds = 10, known_barriers = 4, known_words = 64;
constexpr unsigned known_stretches = 3 * known_kinds + known_barriers;
unsigned known_warps(TimedLaunch which);

}  // namespace xtrace::replay
