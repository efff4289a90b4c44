#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "instrument/sass/printer.h"

namespace xtrace::sass {
namespace {

// 20 significant digits; from 1e9 on, 20 digits after the point with an exponent. Infinities, NaNs and minus
// zero carry a space that stays before a comma. [nvdisasm 13]
std::string print_real(double v, bool negative, bool quiet) {
  if (std::isinf(v)) return negative ? "-INF " : "+INF ";
  if (std::isnan(v)) return std::string(negative ? "-" : "+") + (quiet ? "QNAN " : "SNAN ");
  if (v == 0) return negative ? "-0.0 " : "0";
  return std::fabs(v) >= 1e9 ? fmt::format("{:.20e}", v) : fmt::format("{:.20g}", v);
}

}  // namespace

std::string print_f32(uint32_t bits) {
  return print_real(std::bit_cast<float>(bits), bits >> 31 != 0, (bits >> 22 & 1) != 0);
}

std::string print_f64_high(uint32_t high) {
  return print_real(std::bit_cast<double>(uint64_t{high} << 32), high >> 31 != 0, (high >> 19 & 1) != 0);
}

std::string print_f16(uint16_t bits) {
  const bool negative = bits >> 15 != 0;
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double v;
  if (exponent == 31) {
    v = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    v = std::ldexp(fraction, -24);
  } else {
    v = std::ldexp(1024 + fraction, exponent - 25);
  }
  return print_real(negative ? -v : v, negative, (fraction >> 9) != 0);
}

std::string print_bf16(uint16_t bits) { return print_f32(uint32_t{bits} << 16); }

}  // namespace xtrace::sass
