// Integer operations as pure functions of one lane's values. Names are those of the instructions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace xtrace::replay::interp::value {

struct Sum {
  uint32_t value;
  bool carry;
};

// The high word of {c:a} << n, n in 0..31.
constexpr uint32_t shift_high(uint32_t a, uint32_t c, unsigned n) {
  return static_cast<uint32_t>(((uint64_t{c} << 32 | a) << n) >> 32);
}

constexpr uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t lut) {
  uint32_t d = 0;
  if (lut & 0x01) d |= ~a & ~b & ~c;
  if (lut & 0x02) d |= ~a & ~b & c;
  if (lut & 0x04) d |= ~a & b & ~c;
  if (lut & 0x08) d |= ~a & b & c;
  if (lut & 0x10) d |= a & ~b & ~c;
  if (lut & 0x20) d |= a & ~b & c;
  if (lut & 0x40) d |= a & b & ~c;
  if (lut & 0x80) d |= a & b & c;
  return d;
}

// PRMT without a mode: selector nibble i picks byte i of the result from {b:a}; its top bit replicates that
// byte's sign.
constexpr uint32_t prmt(uint32_t a, uint32_t selector, uint32_t b) {
  const uint64_t source = uint64_t{b} << 32 | a;
  uint32_t d = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t nibble = selector >> (4 * i) & 0xf;
    uint32_t byte = static_cast<uint32_t>(source >> (8 * (nibble & 7)) & 0xff);
    if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    d |= byte << (8 * i);
  }
  return d;
}

// PRMT with a mode; n is the low bits of the selector. [PTX ISA: prmt]
enum class PermuteMode : uint8_t {
  any,
  forward4,
  backward4,
  replicate8,
  clamp_left,
  clamp_right,
  replicate16
};
constexpr uint32_t prmt_mode(uint32_t a, uint32_t selector, uint32_t b, PermuteMode mode) {
  if (mode == PermuteMode::any) return prmt(a, selector, b);
  const uint32_t n = selector & 3;
  uint32_t nibbles = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t byte = 0;
    switch (mode) {
      case PermuteMode::forward4:
        byte = n + i;
        break;
      case PermuteMode::backward4:
        byte = (n - i) & 7;
        break;
      case PermuteMode::replicate8:
        byte = n;
        break;
      case PermuteMode::clamp_left:
        byte = std::max(i, n);
        break;
      case PermuteMode::clamp_right:
        byte = std::min(i, n);
        break;
      default:
        byte = 2 * (n & 1) + (i & 1);
        break;
    }
    nibbles |= byte << (4 * i);
  }
  return prmt(a, nibbles, b);
}

struct ShiftKind {
  bool right, high, wrap, wide, is_signed;
};
// SHF: {c:a} shifted by n; `high` takes the upper word. Amounts beyond the width clamp, or wrap with .W.
constexpr uint32_t shf(uint32_t a, uint32_t n, uint32_t c, ShiftKind k) {
  const uint32_t width = k.wide ? 64 : 32;
  const uint32_t s = k.wrap ? n & (width - 1) : std::min(n, width);
  const uint64_t v = uint64_t{c} << 32 | a;
  uint64_t r;
  if (k.right && k.is_signed)
    r = static_cast<uint64_t>(static_cast<int64_t>(v) >> std::min(s, 63u));
  else if (k.right)
    r = s >= 64 ? 0 : v >> s;
  else
    r = s >= 64 ? 0 : v << s;
  return static_cast<uint32_t>(k.high ? r >> 32 : r);
}

// SGXT: the low n bits, sign or zero extended; n is clamped at 32, or taken modulo 32 with .W.
constexpr uint32_t sgxt(uint32_t a, uint32_t n, bool is_signed, bool wrap) {
  n = wrap ? n & 31 : std::min(n, 32u);
  if (n == 0) return 0;
  if (n >= 32) return a;
  const uint32_t low = a & ((1u << n) - 1);
  if (!is_signed) return low;
  return static_cast<uint32_t>(static_cast<int32_t>(low << (32 - n)) >> (32 - n));
}

// BMSK: `width` ones from bit `at` on; clamped, or modulo 32 with .W.
constexpr uint32_t bmsk(uint32_t at, uint32_t width, bool wrap) {
  at = wrap ? at & 31 : std::min(at, 32u);
  width = wrap ? width & 31 : std::min(width, 32u);
  if (at >= 32) return 0;
  const uint32_t ones = width >= 32 ? ~0u : (1u << width) - 1;
  return ones << at;
}

constexpr uint32_t iabs(uint32_t a) { return static_cast<int32_t>(a) < 0 ? 0u - a : a; }

// FLO: position of the highest bit that differs from the sign (unsigned: of the highest one); ~0 when there
// is none. .SH gives the distance from bit 31 instead.
constexpr uint32_t flo(uint32_t a, bool is_signed, bool shift) {
  if (is_signed && static_cast<int32_t>(a) < 0) a = ~a;
  if (a == 0) return ~0u;
  const auto zeros = static_cast<uint32_t>(std::countl_zero(a));
  return shift ? zeros : 31 - zeros;
}

constexpr uint32_t brev(uint32_t v) {
  v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
  v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
  v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
  v = (v >> 8 & 0x00ff00ff) | (v & 0x00ff00ff) << 8;
  return v >> 16 | v << 16;
}

// IDP: c + the sum of products of the four bytes of a and b, or of the two halves of a and two bytes of b,
// from `first` on. [PTX ISA: dp4a, dp2a]
constexpr uint32_t part(uint32_t v, unsigned at, unsigned bits, bool is_signed) {
  const uint32_t low = v >> at << (32 - bits);
  return is_signed ? static_cast<uint32_t>(static_cast<int32_t>(low) >> (32 - bits)) : low >> (32 - bits);
}
constexpr uint32_t dot4(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed) {
  for (unsigned k = 0; k < 32; k += 8) c += part(a, k, 8, a_signed) * part(b, k, 8, b_signed);
  return c;
}
constexpr uint32_t dot2(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed, unsigned first) {
  for (unsigned k = 0; k < 2; ++k) c += part(a, 16 * k, 16, a_signed) * part(b, 8 * (first + k), 8, b_signed);
  return c;
}
// |a - b|
constexpr uint32_t distance(uint32_t a, uint32_t b, bool is_signed) {
  const bool less = is_signed ? static_cast<int32_t>(a) < static_cast<int32_t>(b) : a < b;
  return less ? b - a : a - b;
}

constexpr uint64_t multiply_wide(uint32_t a, uint32_t b, bool is_signed) {
  return is_signed ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(a)} * static_cast<int32_t>(b))
                   : uint64_t{a} * b;
}

// Comparison codes of ISETP: F LT EQ LE GT NE GE T.
template <typename T>
constexpr bool compare(unsigned code, T a, T b) {
  return ((code & 1) != 0 && a < b) || ((code & 2) != 0 && a == b) || ((code & 4) != 0 && a > b);
}
constexpr bool isetp(unsigned code, uint32_t a, uint32_t b, bool is_signed) {
  if (code == 7) return true;
  return is_signed ? compare(code, static_cast<int32_t>(a), static_cast<int32_t>(b)) : compare(code, a, b);
}

constexpr uint32_t imnmx(uint32_t a, uint32_t b, bool minimum, bool is_signed) {
  const bool less = is_signed ? static_cast<int32_t>(a) < static_cast<int32_t>(b) : a < b;
  return less == minimum ? a : b;
}

// One 32-bit number, or two of 16 bits side by side.
struct VectorType {
  bool is_signed, packed, relu;
};
// f(x, y) for each number, widened to 32 bits; with .RELU what is negative becomes 0. [PTX ISA: vmin,
// max.relu]
template <typename F>
constexpr uint32_t by_part(uint32_t a, uint32_t b, VectorType t, F f) {
  const auto one = [&](uint32_t x, uint32_t y) {
    const uint32_t r = f(x, y);
    return t.relu && static_cast<int32_t>(r) < 0 ? 0u : r;
  };
  if (!t.packed) return one(a, b);
  const uint32_t low = one(part(a, 0, 16, t.is_signed), part(b, 0, 16, t.is_signed));
  const uint32_t high = one(part(a, 16, 16, t.is_signed), part(b, 16, 16, t.is_signed));
  return (low & 0xffff) | high << 16;
}
constexpr uint32_t vector_minmax(uint32_t a, uint32_t b, bool minimum, VectorType t) {
  return by_part(a, b, t, [&](uint32_t x, uint32_t y) { return imnmx(x, y, minimum, t.is_signed); });
}
constexpr uint32_t add16(uint32_t a, uint32_t b) {
  return ((a + b) & 0xffff) | ((a & 0xffff0000) + (b & 0xffff0000));
}
constexpr uint32_t subtract16(uint32_t a, uint32_t b) {
  return ((a - b) & 0xffff) | ((a & 0xffff0000) - (b & 0xffff0000));
}

}  // namespace xtrace::replay::interp::value
