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

// Generic addresses of shared and local memory are those of these windows; recorded memory lies elsewhere.
constexpr uint64_t shared_window = 0x7ff1'0000'0000, local_window = 0x7ff2'0000'0000,
                   window_bytes = 1ull << 24;

constexpr uint32_t modelled_sm_count = 132;
// Clocks of an H200 count from its start: their upper words are not zero.
constexpr uint64_t first_clock = 3'000'000'000'000, first_nanosecond = 1'700'000'000'000'000'000;
constexpr double nanoseconds_per_cycle = 1000.0 / 1755;  // H200's base of the modelled clock [guess]

}  // namespace xtrace::replay::interp
