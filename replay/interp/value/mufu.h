// The special function unit. Its results are table approximations, not roundings of the exact value. Modelled
// are the functions whose last bits the code that uses them corrects again (division and square root), by the
// rounded exact value; the fixtures recorded on an H200 agree. All others are refused until they have been
// measured.
#pragma once

#include <cstdint>
#include <optional>

namespace xtrace::replay::interp::value {

// 1 / a. Nothing for operands and results that are subnormal: what the hardware gives there was not measured.
std::optional<uint32_t> mufu_rcp(uint32_t a);
// High word of 1 / x and of 1 / sqrt(x) for the double whose high word is `a` and whose low word is zero.
std::optional<uint32_t> mufu_rcp64h(uint32_t a);
std::optional<uint32_t> mufu_rsq64h(uint32_t a);

}  // namespace xtrace::replay::interp::value
