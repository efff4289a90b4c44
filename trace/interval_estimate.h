// What an interval would be with no clock in the kernel at all: the same site measured in several replays, by all CTAs and by
// ever fewer of them, and the line through these means continued to none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace xtrace::trace {

// One replay of one site.
struct RateMean {
  uint32_t one_in = 1;     // CTAs that were measured: one in this many
  double cycles = 0;       // mean over their executions
  uint64_t samples = 0;
};

struct IntervalEstimate {
  double cycles = 0;       // at rate zero
  double error = 0;        // half of its 95 % interval, from how the replays scatter around the line; one cycle at least
  double deviation = 0;    // of `cycles`, by the same
  bool converged = false;  // without the densest rate the line ends within the error
  uint32_t replays = 0;
};

// Nothing with fewer than four replays with samples, or with one rate only.
std::optional<IntervalEstimate> estimate_interval(std::span<const RateMean> replays);

}  // namespace xtrace::trace
