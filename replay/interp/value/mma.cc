#include "replay/interp/value/mma.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

namespace xtrace::replay::interp::value {
namespace {

// value = significand * 2^exponent; the leading bit of a normal summand stands at bit `leading`.
struct Summand {
  int64_t significand = 0;
  int exponent = 0;  // of the leading bit's place
  int scale = 0;     // exponent of bit 0
};

struct Factor {
  int32_t significand;  // signed
  int exponent;         // of the leading bit of a normal number
  bool infinite, nan;
};
Factor split(uint16_t h, const Narrow& f) {
  const int bias = 1 - f.least_exponent, e = (h & 0x7fff) >> f.fraction_bits;
  const int32_t hidden = 1 << f.fraction_bits, fraction = h & (hidden - 1);
  const bool special = (h & f.infinity) == f.infinity;
  Factor x{e == 0 ? fraction : fraction | hidden, e == 0 ? 1 - bias : e - bias, special && fraction == 0,
           special && fraction != 0};
  if ((h & 0x8000) != 0) x.significand = -x.significand;
  return x;
}

// The upper 19 bits of single precision.
Factor split_tf32(uint32_t v) {
  const int e = static_cast<int>(v >> 23 & 0xff);
  const auto fraction = static_cast<int32_t>(v >> 13 & 0x3ff);
  Factor x{e == 0 ? fraction : fraction | 0x400, e == 0 ? -126 : e - 127, e == 0xff && fraction == 0,
           e == 0xff && fraction != 0};
  if ((v >> 31) != 0) x.significand = -x.significand;
  return x;
}

constexpr int fraction_bits = 25;

// sum * 2^unit, or the bits of what is infinite or not a number.
struct Total {
  int64_t sum = 0;
  int unit = 0;
  std::optional<uint32_t> special;
};
// factors(i): a pair, the i-th of `count`, with so many bits of fraction each.
template <size_t count, typename Factors>
Total add_products(Factors factors, int factor_bits, uint32_t c) {
  std::array<Summand, count + 1> s;
  bool nan = is_nan(c), above = c == 0x7f800000, below = c == 0xff800000;
  for (size_t i = 0; i < count; ++i) {
    const auto [x, y] = factors(i);
    s[i] = {int64_t{x.significand} * y.significand, x.exponent + y.exponent,
            x.exponent + y.exponent - 2 * factor_bits};
    if (x.nan || y.nan) nan = true;
    if (!x.infinite && !y.infinite) continue;
    if (s[i].significand == 0) nan = true;
    (s[i].significand < 0 ? below : above) = true;
  }
  if (nan || (above && below)) return {0, 0, nan32};
  if (above || below) return {0, 0, above ? 0x7f800000 : 0xff800000};
  const int ce = static_cast<int>(c >> 23 & 0xff);
  int64_t cf = c & 0x7fffff;
  if (ce != 0) cf |= 0x800000;
  const int cexp = ce == 0 ? -126 : ce - 127;
  s[count] = {(c >> 31) != 0 ? -cf : cf, cexp, cexp - 23};

  int largest = -1000;
  for (const Summand& x : s)
    if (x.significand != 0) largest = std::max(largest, x.exponent);
  if (largest == -1000) return {};           // zeros only: their sum has no sign
  const int unit = largest - fraction_bits;  // exponent of bit 0 of the sum
  int64_t sum = 0;
  for (const Summand& x : s) {
    if (x.significand == 0) continue;  // its exponent says nothing
    const int shift = x.scale - unit;
    const int64_t magnitude = x.significand < 0 ? -x.significand : x.significand;
    const int64_t aligned = shift >= 0 ? magnitude << shift : shift > -63 ? magnitude >> -shift : 0;
    sum += x.significand < 0 ? -aligned : aligned;
  }
  return {sum, unit, {}};
}

Total add_products(std::span<const uint16_t, 16> a, std::span<const uint16_t, 16> b, uint32_t c, const Narrow& format) {
  return add_products<16>([&](size_t i) { return std::pair(split(a[i], format), split(b[i], format)); },
                          format.fraction_bits, c);
}

// Cut off to single precision.
uint32_t single(const Total& total) {
  const auto& [sum, unit, special] = total;
  if (special) return *special;
  if (sum == 0) return 0;
  const uint32_t sign = sum < 0 ? 0x80000000 : 0;
  auto magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  int top = 63 - std::countl_zero(magnitude);
  int exponent = unit + top;
  if (exponent > 127) return sign | 0x7f800000;
  if (exponent < -126) {  // subnormal: bit 0 stands for 2^-149
    const int shift = unit + 149;
    const uint64_t f = shift >= 0 ? magnitude << shift : shift > -63 ? magnitude >> -shift : 0;
    return sign | static_cast<uint32_t>(f);
  }
  const uint64_t f = top >= 23 ? magnitude >> (top - 23) : magnitude << (23 - top);
  return sign | static_cast<uint32_t>(exponent + 127) << 23 | (static_cast<uint32_t>(f) & 0x7fffff);
}

}  // namespace

uint32_t hmma_f32(std::span<const uint16_t, 16> a, std::span<const uint16_t, 16> b, uint32_t c,
                  const Narrow& format) {
  return single(add_products(a, b, c, format));
}
uint32_t hmma_tf32(std::span<const uint32_t, 8> a, std::span<const uint32_t, 8> b, uint32_t c) {
  return single(add_products<8>([&](size_t i) { return std::pair(split_tf32(a[i]), split_tf32(b[i])); }, 10, c));
}

uint16_t hmma_f16(std::span<const uint16_t, 16> a, std::span<const uint16_t, 16> b, uint16_t c) {
  const auto [sum, unit, special] =
      add_products(a, b, canonical(static_cast<float>(half_to_double(c))), half_format);
  if (special) return double_to_half(f32(*special));
  const uint16_t r = double_to_half(std::ldexp(static_cast<double>(sum), unit));
  return r == 0x8000 ? uint16_t{0} : r;  // a sum that vanishes has no sign
}

}  // namespace xtrace::replay::interp::value
