// The two 16-bit floating-point formats, half precision and bfloat16, as pure functions of bit patterns. What
// is not a number comes out as the canonical one, 0x7fff, in both. [PTX ISA]
#pragma once

#include <cstdint>

#include "replay/interp/value/float.h"

namespace xtrace::replay::interp::value {

struct Narrow {
  int fraction_bits, least_exponent;
  uint16_t infinity, one;
};
constexpr Narrow half_format{10, -14, 0x7c00, 0x3c00};
constexpr Narrow brain_format{7, -126, 0x7f80, 0x3f80};

constexpr bool narrow_nan(uint16_t v, const Narrow& f) { return (v & 0x7fff) > f.infinity; }
// .FTZ: a subnormal becomes a zero of its sign.
constexpr uint16_t narrow_flush(uint16_t v, const Narrow& f) {
  return (v & f.infinity) == 0 ? static_cast<uint16_t>(v & 0x8000) : v;
}
double narrow_to_double(uint16_t v, const Narrow& f);
// A sum is given as add_to_odd forms it.
uint16_t double_to_narrow(double v, const Narrow& f, Rounding r = Rounding::nearest);

uint16_t narrow_add(uint16_t a, uint16_t b, const Narrow& f);
uint16_t narrow_mul(uint16_t a, uint16_t b, const Narrow& f);
uint16_t narrow_fma(uint16_t a, uint16_t b, uint16_t c, const Narrow& f);
// A number wins over what is not one, unless `nan` (.NAN); -0 < +0. [PTX ISA: min, max]
uint16_t narrow_minmax(uint16_t a, uint16_t b, bool minimum, bool nan, const Narrow& f);
// .SAT: into [0, 1]; what is not a number becomes +0. [PTX ISA]
uint16_t narrow_saturate(uint16_t v, const Narrow& f);

// The two 8-bit formats. E4M3 has no infinities; what is too large becomes the largest number of its sign, what
// is not a number 0x7f. [OCP FP8]
uint8_t double_to_fp8(double v, bool e4m3);  // saturates (.SATFINITE)
uint16_t fp8_to_half(uint8_t v, bool e4m3);

}  // namespace xtrace::replay::interp::value
