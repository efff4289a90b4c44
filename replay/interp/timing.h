// The model of time: stall counts, and latencies behind scoreboards. It makes clocks that are deterministic
// and never run backwards; it says nothing about how long a kernel takes on hardware.
#pragma once

#include <algorithm>

#include "replay/interp/state.h"

namespace xtrace::replay::interp {

constexpr uint64_t launch_cycles = 500;  // from one CTA's end to the next one's start on an SM [guess]

// Cycles from issue to a result behind a write barrier, and to sources read behind a read barrier. [guess,
// orders of magnitude]
constexpr uint32_t result_cycles(Unit u) {
  switch (u) {
    case Unit::fixed:
      return 6;
    case Unit::fp64:
      return 10;
    case Unit::matrix:
      return 33;
    case Unit::global_memory:
      return 480;
    case Unit::shared_memory:
      return 30;
    case Unit::constant_memory:
      return 40;
    case Unit::conversion:
      return 24;
    case Unit::other:
      return 26;
  }
  return 6;
}
constexpr uint32_t read_cycles = 12;

// Before the instruction executes: the clock at which it issues. Afterwards advance() moves on to the next
// one.
inline void issue(Warp& w, const Inst& i) {
  for (uint32_t wait = i.wait; wait != 0; wait &= wait - 1)
    if (const auto sb = static_cast<unsigned>(__builtin_ctz(wait)); sb < w.scoreboard.size())
      w.clock = std::max(w.clock, w.scoreboard[sb]);
  if (i.write_barrier < w.scoreboard.size())
    w.scoreboard[i.write_barrier] = std::max(w.scoreboard[i.write_barrier], w.clock + result_cycles(i.unit));
  if (i.read_barrier < w.scoreboard.size())
    w.scoreboard[i.read_barrier] = std::max(w.scoreboard[i.read_barrier], w.clock + read_cycles);
}
inline void advance(Warp& w, const Inst& i) { w.clock += std::max<uint32_t>(i.stall, 1); }

}  // namespace xtrace::replay::interp
