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

}  // namespace xtrace::replay::interp::value
