// The special function unit. Its results are table approximations, not roundings of the exact value: what it
// gives was measured for every significand (mufu_h200.zst), and holds for all exponents. [measured H200:
// every operand of RCP and RSQ, every positive normal one of SQRT below 2^127, of EX2 from 0.25 to 2.0, 10,240 random operand sets of
// each.] Functions that were not measured so are refused.
#pragma once

#include <cstdint>

namespace xtrace::replay::interp::value {

// 1 / a and 1 / sqrt(a). Subnormal operands and results are flushed.
uint32_t mufu_rcp(uint32_t a);
uint32_t mufu_rsq(uint32_t a);
// sqrt(a). Subnormal operands are zeros of their sign.
uint32_t mufu_sqrt(uint32_t a);
// 2^a. Results below the normal numbers are zero.
uint32_t mufu_ex2(uint32_t a);
// High word of 1 / x and of 1 / sqrt(x) for the double whose high word is `a`: the single-precision result of
// its upper 20 bits of significand.
uint32_t mufu_rcp64h(uint32_t a);
uint32_t mufu_rsq64h(uint32_t a);

}  // namespace xtrace::replay::interp::value
