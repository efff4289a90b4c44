#include "replay/interp/value/mufu.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "replay/interp/value/float.h"

asm(".section .rodata\n"
    "xtrace_mufu_begin: .incbin \"" XTRACE_MUFU_TABLE
    "\"\n"
    "xtrace_mufu_end: .byte 0\n"
    ".previous\n");
extern "C" {
extern const char mufu_begin[] asm("xtrace_mufu_begin");
extern const char mufu_end[] asm("xtrace_mufu_end");
}

namespace xtrace::replay::interp::value {
namespace {

// What hardware's result is above the rounded exact one, in units of the last place, plus 2; two bits each,
// from the lowest. First RCP of 1.0 .. 2.0, then RSQ of 1.0 .. 4.0, EX2 of 1.0 .. 2.0, SQRT of 1.0 .. 4.0, every
// significand in order. No result of EX2 lies so near the middle between two numbers that the double-precision exp2 of a
// C library could round it wrongly.
constexpr size_t rcp_entries = 1u << 23, rsq_entries = 1u << 24, ex2_entries = 1u << 23,
                 sqrt_entries = 1u << 24,
                 table_bytes = (rcp_entries + rsq_entries + ex2_entries + sqrt_entries) / 4;

const std::vector<uint8_t>& table() {
  static const std::vector<uint8_t> t = [] {
    std::vector<uint8_t> bytes(table_bytes);
    const size_t n =
        ZSTD_decompress(bytes.data(), bytes.size(), mufu_begin, static_cast<size_t>(mufu_end - mufu_begin));
    XT_CHECK(n == table_bytes, "the table of the special function unit is damaged");
    return bytes;
  }();
  return t;
}
uint32_t corrected(uint32_t rounded, size_t entry) {
  return rounded + (table()[entry / 4] >> (2 * (entry % 4)) & 3) - 2;
}

constexpr uint32_t one = 0x3f800000, significand = 0x007fffff;

// Of 1.0 <= a < 2.0, and of 1.0 <= a < 4.0.
uint32_t rcp_of(uint32_t a) { return corrected(bits32(1.0f / f32(a)), a - one); }
uint32_t rsq_of(uint32_t a) {
  return corrected(bits32(static_cast<float>(1.0 / std::sqrt(static_cast<double>(f32(a))))),
                   rcp_entries + (a - one));
}
uint32_t ex2_of(uint32_t a) {
  return corrected(bits32(static_cast<float>(std::exp2(static_cast<double>(f32(a))))),
                   rcp_entries + rsq_entries + (a - one));
}
uint32_t sqrt_of(uint32_t a) {
  return corrected(bits32(static_cast<float>(std::sqrt(static_cast<double>(f32(a))))),
                   rcp_entries + rsq_entries + ex2_entries + (a - one));
}
int exponent_of(uint32_t a) { return static_cast<int>(a >> 23 & 0xff) - 127; }

constexpr uint32_t inf32 = 0x7f800000;
// High words of doubles.
constexpr uint32_t inf64 = 0x7ff00000, nan64h = 0x7fffffff;
uint32_t double_word(uint32_t sign, int exponent, uint32_t single) {
  return sign | static_cast<uint32_t>(exponent + 1023) << 20 | (single & significand) >> 3;
}

}  // namespace

uint32_t mufu_rcp(uint32_t a) {
  if (is_nan(a)) return nan32;
  const uint32_t sign = a & 0x80000000, magnitude = a & 0x7fffffff;
  if (magnitude == inf32) return sign;
  if (magnitude < 0x00800000) return sign | inf32;
  const uint32_t r = rcp_of(one | (a & significand));
  const int exponent = exponent_of(r) - exponent_of(a);
  return exponent < -126 ? sign : sign | static_cast<uint32_t>(exponent + 127) << 23 | (r & significand);
}

uint32_t mufu_rsq(uint32_t a) {
  if (is_nan(a)) return nan32;
  const uint32_t sign = a & 0x80000000, magnitude = a & 0x7fffffff;
  if (magnitude < 0x00800000) return sign | inf32;
  if (sign != 0) return nan32;
  if (magnitude == inf32) return 0;
  const int odd = exponent_of(a) & 1;
  const uint32_t r = rsq_of(static_cast<uint32_t>(127 + odd) << 23 | (a & significand));
  return r - static_cast<uint32_t>((exponent_of(a) - odd) / 2) * 0x00800000u;
}

uint32_t mufu_sqrt(uint32_t a) {
  if (is_nan(a)) return nan32;
  if ((a & 0x7f800000) == 0) return a & 0x80000000;
  if ((a & 0x80000000) != 0) return nan32;
  if (a == inf32) return a;
  const int odd = exponent_of(a) & 1;
  const uint32_t r = sqrt_of(static_cast<uint32_t>(127 + odd) << 23 | (a & significand));
  return r + static_cast<uint32_t>((exponent_of(a) - odd) / 2) * 0x00800000u;
}

uint32_t mufu_ex2(uint32_t a) {
  if (is_nan(a)) return nan32;
  // In units of 2^-23, cut off; negative ones as the ones' complement unless they are integers.
  const auto units = static_cast<int64_t>(std::min(std::fabs(static_cast<double>(f32(a))), 1000.0) * 0x1p23);
  const int64_t x = (a & 0x80000000) == 0 ? units : (units & significand) == 0 ? -units : ~units;
  const int64_t exponent = x >> 23;
  if (exponent > 127) return inf32;
  if (exponent < -126) return 0;
  return ex2_of(one | (static_cast<uint32_t>(x) & significand)) +
         static_cast<uint32_t>(exponent - 1) * 0x00800000u;
}

uint32_t mufu_rcp64h(uint32_t a) {
  const uint32_t sign = a & 0x80000000, magnitude = a & 0x7fffffff;
  if (magnitude > inf64) return nan64h;
  if (magnitude == inf64) return sign;
  if (magnitude < 0x00100000) return sign | inf64;
  const uint32_t r = rcp_of(one | (a & 0x000fffff) << 3);
  const int exponent = exponent_of(r) - (static_cast<int>(magnitude >> 20) - 1023);
  return exponent < -1022 ? sign : double_word(sign, exponent, r);
}

uint32_t mufu_rsq64h(uint32_t a) {
  const uint32_t sign = a & 0x80000000, magnitude = a & 0x7fffffff;
  if (magnitude > inf64) return nan64h;
  if (magnitude < 0x00100000) return sign | inf64;
  if (sign != 0) return nan64h;
  if (magnitude == inf64) return 0;
  const int exponent = static_cast<int>(magnitude >> 20) - 1023, odd = exponent & 1;
  const uint32_t r = rsq_of(static_cast<uint32_t>(127 + odd) << 23 | (a & 0x000fffff) << 3);
  return double_word(0, exponent_of(r) - (exponent - odd) / 2, r);
}

}  // namespace xtrace::replay::interp::value
