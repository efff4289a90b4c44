#include "replay/interp/value/float.h"

#include <cfenv>

// Compiled with -frounding-math (CMakeLists.txt): operations below stay between the calls that set the mode.

namespace xtrace::replay::interp::value {
namespace {

class WithRounding {
 public:
  explicit WithRounding(Rounding r) : before_(std::fegetround()) {
    constexpr int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    std::fesetround(modes[static_cast<int>(r)]);
  }
  ~WithRounding() { std::fesetround(before_); }

 private:
  int before_;
};

template <typename T, typename F>
T rounded(Rounding r, F f) {
  const WithRounding mode(r);
  volatile T result = f();
  return result;
}

bool half_nan(uint16_t h) { return (h & 0x7fff) > 0x7c00; }

}  // namespace

uint32_t i2f32(uint64_t magnitude, bool negative, Rounding r) {
  if (magnitude == 0) return 0;
  const uint32_t sign = negative ? 0x80000000 : 0;
  const int top = 63 - std::countl_zero(magnitude);
  uint32_t exponent = static_cast<uint32_t>(127 + top);
  uint64_t fraction;
  if (top <= 23) {
    fraction = magnitude << (23 - top);
  } else {
    const int drop = top - 23;
    fraction = magnitude >> drop;
    const uint64_t rest = magnitude & ((uint64_t{1} << drop) - 1), half = uint64_t{1} << (drop - 1);
    bool up = false;
    switch (r) {
      case Rounding::nearest:
        up = rest > half || (rest == half && (fraction & 1) != 0);
        break;
      case Rounding::down:
        up = rest != 0 && negative;
        break;
      case Rounding::up:
        up = rest != 0 && !negative;
        break;
      case Rounding::zero:
        break;
    }
    if (up && ++fraction == uint64_t{1} << 24) fraction >>= 1, ++exponent;
  }
  return sign | exponent << 23 | (static_cast<uint32_t>(fraction) & 0x7fffff);
}

double i2f64(uint64_t magnitude, bool negative, Rounding r) {
  if (negative && (r == Rounding::up || r == Rounding::down)) r = r == Rounding::up ? Rounding::down : Rounding::up;
  const double v = r == Rounding::nearest ? static_cast<double>(magnitude)
                                          : rounded<double>(r, [&] { return static_cast<double>(magnitude); });
  return negative ? -v : v;
}

uint64_t f2i(double v, unsigned width, bool is_signed, Rounding r) {
  v = to_integral(v, r);
  const double limit = std::ldexp(1.0, static_cast<int>(is_signed ? width - 1 : width));
  const uint64_t mask = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  if (is_signed) {
    if (v >= limit) return mask >> 1;
    if (v < -limit) return (mask >> 1) + 1;
    return static_cast<uint64_t>(static_cast<int64_t>(v)) & mask;
  }
  if (v <= 0) return 0;
  return v >= limit ? mask : static_cast<uint64_t>(v);
}

double dadd(double a, double b, Rounding r) {
  if (r == Rounding::nearest) return a + b;
  return rounded<double>(r, [&] { return a + b; });
}
double dmul(double a, double b, Rounding r) {
  if (r == Rounding::nearest) return a * b;
  return rounded<double>(r, [&] { return a * b; });
}
double dfma(double a, double b, double c, Rounding r) {
  if (r == Rounding::nearest) return std::fma(a, b, c);
  return rounded<double>(r, [&] { return std::fma(a, b, c); });
}
float fadd_rounded(float a, float b, Rounding r) {
  return rounded<float>(r, [&] { return a + b; });
}
float ffma_rounded(float a, float b, float c, Rounding r) {
  return rounded<float>(r, [&] { return std::fma(a, b, c); });
}

double half_to_double(uint16_t h) {
  const int exponent = h >> 10 & 31;
  const int fraction = h & 0x3ff;
  double v = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
             : exponent == 0 ? std::ldexp(fraction, -24)
                             : std::ldexp(1024 + fraction, exponent - 25);
  return (h & 0x8000) != 0 ? -v : v;
}

uint16_t double_to_half(double v) {
  if (std::isnan(v)) return nan16;
  const auto sign = static_cast<uint16_t>(std::signbit(v) ? 0x8000 : 0);
  v = std::fabs(v);
  if (v >= 65520) return static_cast<uint16_t>(sign | 0x7c00);  // halfway to the next step rounds to infinity
  if (v == 0) return sign;
  const int exponent = std::max(std::ilogb(v), -14);
  // In units of the last place: exact, since 2^(10 - exponent) is a power of two.
  const double units = std::nearbyint(std::ldexp(v, 10 - exponent));
  const auto n = static_cast<uint32_t>(units);  // 0..2048
  // A carry out of the fraction runs into the exponent by itself.
  return static_cast<uint16_t>(sign + (static_cast<uint32_t>(exponent + 14) << 10) + n);
}

double add_to_odd(double x, double y) {
  const double s = x + y;
  if (!std::isfinite(s)) return s;
  const double bb = s - x;
  const double error = (x - (s - bb)) + (y - bb);
  if (error == 0) return s;
  const auto bits = std::bit_cast<uint64_t>(s);
  if ((bits & 1) != 0) return s;
  // s was rounded to an even last bit: the odd neighbour on the side of the exact sum.
  return (error > 0) == (s > 0) ? std::bit_cast<double>(bits + 1) : std::bit_cast<double>(bits - 1);
}

float to_single(double v, Rounding r) {
  if (r == Rounding::nearest) return static_cast<float>(v);
  return rounded<float>(r, [&] { return static_cast<float>(v); });
}
double to_integral(double v, Rounding r) {
  switch (r) {
    case Rounding::nearest:
      return std::nearbyint(v);  // the mode of the program is to nearest even
    case Rounding::down:
      return std::floor(v);
    case Rounding::up:
      return std::ceil(v);
    case Rounding::zero:
      break;
  }
  return std::trunc(v);
}

uint16_t hfma(uint16_t a, uint16_t b, uint16_t c) {
  if (half_nan(a) || half_nan(b) || half_nan(c)) return nan16;
  return double_to_half(add_to_odd(half_to_double(a) * half_to_double(b), half_to_double(c)));
}
uint16_t hadd(uint16_t a, uint16_t b) {
  if (half_nan(a) || half_nan(b)) return nan16;
  return double_to_half(half_to_double(a) + half_to_double(b));  // exact in double: 41 bits at most
}
uint16_t hmul(uint16_t a, uint16_t b) {
  if (half_nan(a) || half_nan(b)) return nan16;
  return double_to_half(half_to_double(a) * half_to_double(b));
}

}  // namespace xtrace::replay::interp::value
