#include "replay/interp/value/mufu.h"

#include <bit>
#include <cmath>

#include "replay/interp/value/float.h"

namespace xtrace::replay::interp::value {
namespace {

std::optional<uint32_t> high_word(double v) {
  if (std::isnan(v) || (v != 0 && std::fabs(v) < 0x1p-1022)) return std::nullopt;
  return static_cast<uint32_t>(std::bit_cast<uint64_t>(v) >> 32);
}
bool is_plain64(uint32_t high) {
  const uint32_t exponent = high >> 20 & 0x7ff;
  return exponent != 0x7ff && (exponent != 0 || (high & 0x7fffffff) == 0);
}

}  // namespace

std::optional<uint32_t> mufu_rcp(uint32_t a) {
  if (is_nan(a)) return nan32;
  if (is_subnormal(a)) return std::nullopt;
  const uint32_t r = bits32(1.0f / f32(a));
  if (is_subnormal(r)) return std::nullopt;
  return r;
}

std::optional<uint32_t> mufu_rcp64h(uint32_t a) {
  if (!is_plain64(a)) return std::nullopt;
  return high_word(1.0 / f64(0, a));
}

std::optional<uint32_t> mufu_rsq64h(uint32_t a) {
  if (!is_plain64(a) || a >> 31 != 0) return std::nullopt;
  return high_word(1.0 / std::sqrt(f64(0, a)));
}

}  // namespace xtrace::replay::interp::value
