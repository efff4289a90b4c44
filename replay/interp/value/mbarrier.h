// The 64-bit state of a barrier in shared memory (mbarrier).
//
//   63      parity of the phase under way
//   62:43   arrivals that it lacks, as 2^20 - n       [ptxas 13: mbarrier.pending_count]
//   41:21   bytes that copies still have to bring, as 2^21 - n         [measured H200]
//   20:1    arrivals of a phase, as 2^20 - n          [ptxas 13: mbarrier.init writes n to both places]
//
// A phase is over when it lacks neither arrivals nor bytes; the next one then begins. [PTX ISA: mbarrier]
#pragma once

#include <cstdint>

namespace xtrace::replay::interp::value {

struct MbarrierChange {
  int32_t arrivals = 0;  // that have come; -1: one more is awaited
  int32_t bytes = 0;     // that are awaited from now on; negative: that have come
  uint32_t dropped = 0;  // arrivals that later phases do not have
};

// False: a count leaves its range, and nothing is changed.
bool change(uint64_t& state, const MbarrierChange& by);

constexpr bool parity(uint64_t state) { return state >> 63 != 0; }

}  // namespace xtrace::replay::interp::value
