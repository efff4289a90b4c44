// Cycles between an instruction of fixed latency and the one that reads its result: the smallest that vendor code keeps. [sass.md 5.1:
// ptxas 13, over 4.6 million instructions of sm_90] Stall counts alone make them: nothing else is certain.
#pragma once

#include "instrument/sass/effects.h"

namespace xtrace::replay::interp {

enum class Producer : uint8_t { alu, fma, half, half_on_mma, fp64, matrix, clock, uniform_move, uniform_alu, to_uniform, other };
enum class Consumer : uint8_t { alu, fma, fp64, memory, uniform, predicate, guard, uniform_guard, other };

Producer producer_of(const sass::Effects& e);
Consumer consumer_of(const sass::Effects& e);
// 0: not known.
unsigned smallest_distance(Producer from, Consumer to);

}  // namespace xtrace::replay::interp
