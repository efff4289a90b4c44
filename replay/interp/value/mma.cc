#include "replay/interp/value/mma.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace xtrace::replay::interp::value {
namespace {

// value = significand * 2^exponent; the leading bit of a normal summand stands at bit `leading`.
struct Summand {
  int64_t significand = 0;
  int exponent = 0;  // of the leading bit's place
  int scale = 0;     // exponent of bit 0
};

struct Half {
  int32_t significand;  // 11 bits, signed
  int exponent;         // of bit 10
  bool finite;
};
Half split(uint16_t h) {
  const int e = h >> 10 & 31;
  const int32_t f = h & 0x3ff;
  Half x{e == 0 ? f : f | 0x400, e == 0 ? -14 : e - 15, e != 31};
  if ((h & 0x8000) != 0) x.significand = -x.significand;
  return x;
}

constexpr int fraction_bits = 25;

}  // namespace

std::optional<uint32_t> hmma_16816_f32(std::span<const uint16_t, 16> a, std::span<const uint16_t, 16> b,
                                       uint32_t c) {
  std::array<Summand, 17> s;
  for (size_t i = 0; i < 16; ++i) {
    const Half x = split(a[i]), y = split(b[i]);
    if (!x.finite || !y.finite) return std::nullopt;
    s[i] = {int64_t{x.significand} * y.significand, x.exponent + y.exponent, x.exponent + y.exponent - 20};
  }
  const int ce = static_cast<int>(c >> 23 & 0xff);
  if (ce == 0xff) return std::nullopt;
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

void ExactSum::add(double summand) {
  known_ &= std::isfinite(summand);
  positive_ |= summand != 0 || !std::signbit(summand);
  if (!known_ || summand == 0) return;
  // No summand is a subnormal double.
  const auto bits = std::bit_cast<uint64_t>(summand);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1075;
  unit_ = std::min(unit_, exponent + std::countr_zero(bits | 1ull << 52));
  sum_ += summand;
  magnitude_ += std::fabs(summand);
}

std::optional<uint32_t> ExactSum::value() const {
  if (!known_ || !positive_) return std::nullopt;
  if (magnitude_ == 0) return uint32_t{0};
  if (magnitude_ >= std::ldexp(1.0, unit_ + 24)) return std::nullopt;
  const double size = std::fabs(sum_);
  if (size != 0 && (size < 0x1p-126 || size >= 0x1p128)) return std::nullopt;
  return std::bit_cast<uint32_t>(static_cast<float>(sum_));
}

}  // namespace xtrace::replay::interp::value
