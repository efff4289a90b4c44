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
// The same with summand and result in half precision: the sum is rounded to nearest even.
uint16_t hmma_f16(std::span<const uint16_t, 16> a, std::span<const uint16_t, 16> b, uint16_t c);

// A sum that is the same in whatever order, in whatever steps and with whatever rounding it is formed: all
// summands are multiples of one power of two, and together they are below 2^24 of it.
class ExactSum {
 public:
  void add(
      double summand);  // a product of two half-precision or bfloat16 numbers, or a single-precision number
  // Single precision. Nothing: it is not such a sum, or not a normal number or +0.
  std::optional<uint32_t> value() const;

 private:
  double sum_ = 0, magnitude_ = 0;
  int unit_ = 1 << 20;                    // exponent of the power of two
  bool known_ = true, positive_ = false;  // no summand is infinite or not a number; one is not -0
};

}  // namespace xtrace::replay::interp::value
