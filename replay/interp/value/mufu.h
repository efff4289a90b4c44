// The special function unit. Its results are no roundings of the exact value: a quadratic polynomial for each segment of the
// operand, evaluated in whole numbers and cut off to 24 bits. The polynomials, and how the unit squares, were found from what
// an H200 gives of every significand; results agree in all 2^32 operands of each function, and in all
// 65,536 of each 16-bit type (tests/mufu/) [measured H200].
#pragma once

#include <cstdint>

#include "replay/interp/value/narrow.h"

namespace xtrace::replay::interp::value {

// 1 / a and 1 / sqrt(a). Subnormal operands and results are flushed.
uint32_t mufu_rcp(uint32_t a);
uint32_t mufu_rsq(uint32_t a);
// sqrt(a). Subnormal operands are zeros of their sign.
uint32_t mufu_sqrt(uint32_t a);
// 2^a. Results below the normal numbers are zero.
uint32_t mufu_ex2(uint32_t a);
// log2(a). Subnormal operands of either sign are zeros.
uint32_t mufu_lg2(uint32_t a);
// Sine and cosine of `a` turns, whose fraction is cut off to 25 bits.
uint32_t mufu_sin(uint32_t a);
uint32_t mufu_cos(uint32_t a);
// tanh(a). Below 2^-8 it is `a`, subnormal numbers too.
uint32_t mufu_tanh(uint32_t a);
// One of these of a 16-bit number: made wide, and the result cut off, also where it becomes subnormal.
uint16_t mufu_narrow(uint32_t (*function)(uint32_t), uint16_t a, const Narrow& format);
// High word of 1 / x and of 1 / sqrt(x) for the double whose high word is `a`: the single-precision result of
// its upper 20 bits of significand.
uint32_t mufu_rcp64h(uint32_t a);
uint32_t mufu_rsq64h(uint32_t a);

}  // namespace xtrace::replay::interp::value
