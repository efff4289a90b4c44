#include "replay/interp/value/mma.h"

#include <algorithm>
#include <array>
#include <bit>

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

constexpr int fraction_bits = 25;

}  // namespace

uint32_t hmma_16816_f32(std::span<const uint16_t, 16> a, std::span<const uint16_t, 16> b, uint32_t c,
                        const Narrow& format) {
  std::array<Summand, 17> s;
  bool nan = is_nan(c), above = c == 0x7f800000, below = c == 0xff800000;
  for (size_t i = 0; i < 16; ++i) {
    const Factor x = split(a[i], format), y = split(b[i], format);
    s[i] = {int64_t{x.significand} * y.significand, x.exponent + y.exponent,
            x.exponent + y.exponent - 2 * format.fraction_bits};
    if (x.nan || y.nan) nan = true;
    if (!x.infinite && !y.infinite) continue;
    if (s[i].significand == 0) nan = true;
    (s[i].significand < 0 ? below : above) = true;
  }
  if (nan || (above && below)) return nan32;
  if (above || below) return above ? 0x7f800000 : 0xff800000;
  const int ce = static_cast<int>(c >> 23 & 0xff);
  int64_t cf = c & 0x7fffff;
  if (ce != 0) cf |= 0x800000;
  const int cexp = ce == 0 ? -126 : ce - 127;
  s[16] = {(c >> 31) != 0 ? -cf : cf, cexp, cexp - 23};

  int largest = -1000;
  for (const Summand& x : s)
    if (x.significand != 0) largest = std::max(largest, x.exponent);
  if (largest == -1000) {
    // Zeros only: -0 when all are negative zeros would need the signs of the products.
    return uint32_t{0};
  }
  const int unit = largest - fraction_bits;  // exponent of bit 0 of the sum
  int64_t sum = 0;
  for (const Summand& x : s) {
    if (x.significand == 0) continue;  // its exponent says nothing
    const int shift = x.scale - unit;
    const int64_t magnitude = x.significand < 0 ? -x.significand : x.significand;
    const int64_t aligned = shift >= 0 ? magnitude << shift : shift > -63 ? magnitude >> -shift : 0;
    sum += x.significand < 0 ? -aligned : aligned;
  }
  if (sum == 0) return uint32_t{0};
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

}  // namespace xtrace::replay::interp::value
