#include "replay/interp/value/narrow.h"

#include <algorithm>

namespace xtrace::replay::interp::value {

double narrow_to_double(uint16_t v, const Narrow& f) {
  const int exponent = (v & 0x7fff) >> f.fraction_bits;
  const int fraction = v & ((1 << f.fraction_bits) - 1);
  double r;
  if ((v & 0x7fff) >= f.infinity)
    r = fraction == 0 ? INFINITY : NAN;
  else if (exponent == 0)
    r = std::ldexp(fraction, f.least_exponent - f.fraction_bits);
  else
    r = std::ldexp(fraction + (1 << f.fraction_bits), exponent - 1 + f.least_exponent - f.fraction_bits);
  return (v & 0x8000) != 0 ? -r : r;
}

uint16_t double_to_narrow(double v, const Narrow& f, Rounding r) {
  if (std::isnan(v)) return nan16;
  const auto sign = static_cast<uint16_t>(std::signbit(v) ? 0x8000 : 0);
  v = std::fabs(v);
  if (std::isinf(v)) return static_cast<uint16_t>(sign | f.infinity);
  if (v == 0) return sign;
  const int exponent = std::max(std::ilogb(v), f.least_exponent);
  const bool cuts = r == Rounding::zero || r == (sign != 0 ? Rounding::up : Rounding::down),
             raises = r == (sign != 0 ? Rounding::down : Rounding::up);
  const uint16_t beyond = cuts ? f.infinity - 1 : f.infinity;
  if (exponent > -f.least_exponent + 1) return static_cast<uint16_t>(sign | beyond);
  // In units of the last place: exact, since the factor is a power of two.
  const double units = std::ldexp(v, f.fraction_bits - exponent);
  const double whole = cuts ? std::trunc(units) : raises ? std::ceil(units) : std::nearbyint(units);
  // A carry out of the fraction runs into the exponent by itself, up to infinity.
  return static_cast<uint16_t>(sign +
                               (static_cast<uint32_t>(exponent - f.least_exponent) << f.fraction_bits) +
                               static_cast<uint32_t>(whole));
}

uint16_t narrow_add(uint16_t a, uint16_t b, const Narrow& f) {
  return double_to_narrow(add_to_odd(narrow_to_double(a, f), narrow_to_double(b, f)), f);
}
uint16_t narrow_mul(uint16_t a, uint16_t b, const Narrow& f) {
  return double_to_narrow(narrow_to_double(a, f) * narrow_to_double(b, f), f);
}
uint16_t narrow_fma(uint16_t a, uint16_t b, uint16_t c, const Narrow& f) {
  return double_to_narrow(add_to_odd(narrow_to_double(a, f) * narrow_to_double(b, f), narrow_to_double(c, f)),
                          f);
}

uint16_t narrow_minmax(uint16_t a, uint16_t b, bool minimum, bool nan, const Narrow& f) {
  const bool a_nan = narrow_nan(a, f), b_nan = narrow_nan(b, f);
  if (a_nan || b_nan) return nan || (a_nan && b_nan) ? nan16 : a_nan ? b : a;
  const double x = narrow_to_double(a, f), y = narrow_to_double(b, f);
  const bool less = x < y || (x == y && (a >> 15) > (b >> 15));
  return less == minimum ? a : b;
}

uint16_t narrow_saturate(uint16_t v, const Narrow& f) {
  if (narrow_nan(v, f) || (v & 0x8000) != 0) return 0;
  return std::min(v, f.one);
}

uint8_t double_to_fp8(double v, bool e4m3) {
  if (std::isnan(v)) return 0x7f;
  const int fraction_bits = e4m3 ? 3 : 2, least_exponent = e4m3 ? -6 : -14;
  const double largest = e4m3 ? 448 : 57344;
  const auto sign = static_cast<uint8_t>(std::signbit(v) ? 0x80 : 0);
  v = std::min(std::fabs(v), largest);
  if (v == 0) return sign;
  const int exponent = std::max(std::ilogb(v), least_exponent);
  const double units = std::nearbyint(std::ldexp(v, fraction_bits - exponent));
  return static_cast<uint8_t>(sign + (static_cast<uint32_t>(exponent - least_exponent) << fraction_bits) +
                              static_cast<uint32_t>(units));
}
uint16_t fp8_to_half(uint8_t v, bool e4m3) {
  const auto wide = static_cast<uint16_t>(v << 8);
  if (!e4m3) return narrow_nan(wide, half_format) ? nan16 : wide;
  if ((v & 0x7f) == 0x7f) return nan16;
  const int exponent = v >> 3 & 15, fraction = v & 7;
  const double r = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return double_to_narrow((v & 0x80) != 0 ? -r : r, half_format);
}

}  // namespace xtrace::replay::interp::value
