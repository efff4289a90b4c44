// Special registers. Time is modelled: the clock is the warp's own, which control bits and a latency table
// advance.
#pragma once

#include <cstdint>

#include "replay/interp/step.h"

namespace xtrace::replay::interp {

bool special_register_known(uint32_t index);
// `index` is known.
uint32_t special_register(const Step& s, uint32_t index, unsigned lane);
// The upper word of a 64-bit read.
uint32_t special_register_high(const Step& s, uint32_t index, unsigned lane);

// Generic addresses of shared and local memory are those of these windows; recorded memory lies elsewhere. In
// the window of shared memory every CTA of a cluster has a part, by its rank [vendor code: PRMT 0x654 puts
// the rank into the byte above]; without clusters there is rank 0 alone.
constexpr uint64_t shared_window = 0x7ff1'0000'0000, local_window = 0x7ff2'0000'0000,
                   window_bytes = 1ull << 24;
constexpr unsigned most_cluster_ctas = 16, rank_shift = 24;
constexpr uint64_t shared_window_bytes = most_cluster_ctas * window_bytes;
// What comes before a kernel's own shared memory on sm_90; part of its static size where it has any. [vendor code]
constexpr uint32_t reserved_shared_bytes = 0x400;
constexpr bool in_shared_window(uint64_t address) { return address - shared_window < shared_window_bytes; }
constexpr bool in_local_window(uint64_t address) { return address - local_window < window_bytes; }
// The memory through which the CTAs of a cooperative launch meet. The driver provides it on hardware.
constexpr uint64_t grid_barrier_address = 0x7ff3'0000'0000;
constexpr uint32_t grid_barrier_bytes = 256;
// Where generic addresses of parameters point to: constant bank 0, of which only the parameters are there.
constexpr uint64_t bank0_window = 0x7ff4'0000'0000;

constexpr uint32_t modelled_sm_count = 132;
// Clocks of an H200 count from its start: their upper words are not zero.
constexpr uint64_t first_clock = 3'000'000'000'000, first_nanosecond = 1'700'000'000'000'000'000;
constexpr double nanoseconds_per_cycle = 1000.0 / 1755;  // H200's base of the modelled clock [guess]

}  // namespace xtrace::replay::interp
