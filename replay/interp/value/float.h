// Floating-point operations on bit patterns, as pure functions of one lane's values. Single-precision and
// half-precision results that are not a number are the canonical one; doubles keep the payload of an operand.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace xtrace::replay::interp::value {

constexpr uint32_t nan32 = 0x7fffffff;  // [PTX ISA: canonical NaN of single precision]
constexpr uint16_t nan16 = 0x7fff;      // [PTX ISA: canonical NaN of half precision]

constexpr uint64_t nan64 = 0xfff8000000000000, quiet64 = 0x0008000000000000;  // [measured H200]

inline float f32(uint32_t v) { return std::bit_cast<float>(v); }
inline uint32_t bits32(float v) { return std::bit_cast<uint32_t>(v); }
inline double f64(uint32_t lo, uint32_t hi) { return std::bit_cast<double>(uint64_t{hi} << 32 | lo); }

constexpr bool is_nan(uint32_t v) { return (v & 0x7fffffff) > 0x7f800000; }
constexpr bool is_subnormal(uint32_t v) { return (v & 0x7f800000) == 0 && (v & 0x007fffff) != 0; }

inline uint32_t canonical(float v) { return v == v ? bits32(v) : nan32; }
// .FTZ: a subnormal becomes a zero of its sign.
constexpr uint32_t flush(uint32_t v) { return (v & 0x7f800000) == 0 ? v & 0x80000000 : v; }
// .SAT: into [0, 1]; what is not a number becomes +0. [PTX ISA]
inline uint32_t saturate(uint32_t v) {
  const float f = f32(v);
  if (!(f > 0)) return 0;
  return f >= 1 ? 0x3f800000 : v;
}

inline uint32_t fadd(uint32_t a, uint32_t b) { return canonical(f32(a) + f32(b)); }
inline uint32_t fmul(uint32_t a, uint32_t b) { return canonical(f32(a) * f32(b)); }
inline uint32_t ffma(uint32_t a, uint32_t b, uint32_t c) {
  return canonical(std::fma(f32(a), f32(b), f32(c)));
}

// FMNMX: a number wins over what is not one; -0 < +0. [PTX ISA: min, max]
inline uint32_t fmnmx(uint32_t a, uint32_t b, bool minimum) {
  if (is_nan(a)) return is_nan(b) ? nan32 : b;
  if (is_nan(b)) return a;
  const float x = f32(a), y = f32(b);
  const bool less = x < y || (x == y && (a >> 31) > (b >> 31));
  return less == minimum ? a : b;
}

// Comparison codes of FSETP and DSETP: F LT EQ LE GT NE GE NUM, and from 8 on the same or unordered: NAN LTU
// ... T.
template <typename T>
constexpr bool fcompare(unsigned code, T a, T b) {
  const bool ordered = a == a && b == b;
  if (!ordered) return code >= 8;
  return ((code & 1) != 0 && a < b) || ((code & 2) != 0 && a == b) || ((code & 4) != 0 && a > b);
}

enum class Rounding : uint8_t { nearest, down, up, zero };  // .RN .RM .RP .RZ, as the field codes them

// An integer as single precision.
uint32_t i2f32(uint64_t magnitude, bool negative, Rounding r);
double i2f64(uint64_t magnitude, bool negative, Rounding r);

// A single-precision number as an integer of `width` bits, clamped at its limits. `v` is a number.
uint64_t f2i(double v, unsigned width, bool is_signed, Rounding r);

// What an operation on doubles gives when its result is not a number: the first of its operands, in the operation's order, that
// is none either, and quiet; else one of its own. [measured H200]
inline uint64_t not_a_number(std::initializer_list<double> in_order) {
  for (const double v : in_order)
    if (v != v) return std::bit_cast<uint64_t>(v) | quiet64;
  return nan64;
}

// Double-precision arithmetic in a rounding mode.
double dadd(double a, double b, Rounding r);
double dmul(double a, double b, Rounding r);
double dfma(double a, double b, double c, Rounding r);
// Single-precision arithmetic in a rounding mode that is not the nearest.
float fadd_rounded(float a, float b, Rounding r);
float ffma_rounded(float a, float b, float c, Rounding r);

// Half precision.
double half_to_double(uint16_t h);
// Rounded to nearest even, from a sum whose discarded part is marked in its last bit (round to odd).
uint16_t double_to_half(double v);
uint16_t hfma(uint16_t a, uint16_t b, uint16_t c);
uint16_t hadd(uint16_t a, uint16_t b);
uint16_t hmul(uint16_t a, uint16_t b);
// x + y with the part that does not fit marked in the last bit of the result: rounding it again to a narrower
// format then gives what one rounding of the exact sum gives. [Boldo, Melquiond 2008]
double add_to_odd(double x, double y);
// A double as single precision.
float to_single(double v, Rounding r);
// To an integer in the same format; keeps the sign of a zero.
double to_integral(double v, Rounding r);

}  // namespace xtrace::replay::interp::value
