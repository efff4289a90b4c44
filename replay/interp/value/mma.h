// Sums of products as the tensor cores of sm_90 form them.
#pragma once

#include <cstdint>
#include <span>

#include "replay/interp/value/narrow.h"

namespace xtrace::replay::interp::value {

// c + a[0]*b[0] + ... + a[15]*b[15] of half-precision (or bfloat16) factors in single precision, as one
// HMMA.16816.F32 adds: products are exact, all summands are aligned to the largest exponent with 25 bits
// behind the leading one and cut off there, the sum is exact, and its result is cut off to single precision.
// [measured H200: tests/values]
uint32_t hmma_f32(std::span<const uint16_t, 16> a, std::span<const uint16_t, 16> b, uint32_t c,
                  const Narrow& format = half_format);
// The same for eight products of TF32 numbers, each the upper 19 bits of a word. [measured H200: cuBLAS]
uint32_t hmma_tf32(std::span<const uint32_t, 8> a, std::span<const uint32_t, 8> b, uint32_t c);
// The same with summand and result in half precision: the sum is rounded to nearest even.
uint16_t hmma_f16(std::span<const uint16_t, 16> a, std::span<const uint16_t, 16> b, uint16_t c);

}  // namespace xtrace::replay::interp::value
