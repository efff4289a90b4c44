#include "replay/interp/value/mufu.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "replay/interp/value/float.h"

namespace xtrace::replay::interp::value {
namespace {

// Of one segment: c0 + c1 * x + c2 * square(x) counts 2^-40; x is what of the operand lies behind the bits that choose the
// segment, as 17 bits.
struct Segment {
  int64_t c0;
  int32_t c1, c2;
};
constexpr unsigned value_bits = 40, offset_bits = 17;
#include "replay/interp/value/mufu_segments.inc"

// The squarer takes the upper 15 bits of x. Of the partial products, those that lie below 2^15 are not formed: nothing
// carries out of them.
constexpr unsigned squarer_bits = 15;
uint16_t truncated_square(uint32_t y) {
  uint32_t sum = 0;
  for (unsigned i = 0; i < squarer_bits; ++i) {
    if ((y >> i & 1) == 0) continue;
    if (2 * i >= squarer_bits) sum += 1u << (2 * i);
    for (unsigned j = std::max(i + 1, squarer_bits - 1 - i); j < squarer_bits; ++j) sum += (y >> j & 1) << (i + j + 1);
  }
  return static_cast<uint16_t>(sum >> squarer_bits);
}
const std::vector<uint16_t>& squares() {
  static const std::vector<uint16_t> all = [] {
    std::vector<uint16_t> s(1u << squarer_bits);
    for (uint32_t y = 0; y < s.size(); ++y) s[y] = truncated_square(y);
    return s;
  }();
  return all;
}

int64_t evaluate(const Segment& s, uint32_t x) {
  return s.c0 + int64_t{s.c1} * x + int64_t{s.c2} * squares()[x >> (offset_bits - squarer_bits)];
}

constexpr uint32_t one = 0x3f800000, inf32 = 0x7f800000, significand = 0x007fffff, implicit = 0x00800000, magnitude_bits = 0x7fffffff,
                   sign_bit = 0x80000000;
constexpr unsigned fraction_bits = 23;

int exponent_of(uint32_t a) { return static_cast<int>(a >> fraction_bits & 0xff) - 127; }

// The number v * 2^-40, cut off; v is not negative.
uint32_t to_single(int64_t v) {
  if (v == 0) return 0;
  const unsigned top = static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(v))) - 1;
  const auto m = static_cast<uint32_t>(top >= fraction_bits ? v >> (top - fraction_bits) : v << (fraction_bits - top));
  return (top + 127 - value_bits) << fraction_bits | (m & significand);
}
// |a| * 2^fraction, cut off, where that is below 2^62.
uint64_t to_fixed(uint32_t a, int fraction) {
  if ((a & inf32) == 0) return 0;
  const uint64_t m = (a & significand) | implicit;
  const int shift = exponent_of(a) - static_cast<int>(fraction_bits) + fraction;
  return shift >= 0 ? m << std::min(shift, 40) : -shift < 64 ? m >> -shift : 0;
}

// Of 1.0 <= a < 2.0, and of 1.0 <= a < 4.0. Segments are chosen by the upper bits of the significand.
uint32_t rcp_of(uint32_t a) { return to_single(evaluate(rcp_segments[(a & significand) >> 16], (a & 0xffff) << 1)); }
const Segment& among_64(const Segment* of, uint32_t bits) { return of[(bits & significand) >> offset_bits]; }
uint32_t offset_in_64(uint32_t bits) { return bits & ((1u << offset_bits) - 1); }
uint32_t root_of(const Segment* segments, uint32_t a) {
  if (a == one) return one;  // what the polynomial of rsq misses
  return to_single(evaluate(among_64(segments + (a >= one + implicit ? 64 : 0), a), offset_in_64(a)));
}

// High words of doubles.
constexpr uint32_t inf64 = 0x7ff00000, nan64h = 0x7fffffff;
uint32_t double_word(uint32_t sign, int exponent, uint32_t single) {
  return sign | static_cast<uint32_t>(exponent + 1023) << 20 | (single & significand) >> 3;
}

uint32_t of_turns(uint32_t a, uint32_t quarters, uint32_t sign) {
  if ((a & magnitude_bits) >= inf32) return nan32;
  constexpr unsigned quarter_bits = 23;
  const uint64_t turns = to_fixed(a, quarter_bits + 2);
  const auto quarter = static_cast<uint32_t>(turns >> quarter_bits) + quarters;
  // The second quarter runs backwards, by the ones' complement.
  const auto x = static_cast<uint32_t>((quarter & 1) != 0 ? ~turns : turns) & significand;
  const int64_t v = evaluate(among_64(sin_segments, x), offset_in_64(x));
  return ((quarter & 2) << 30 ^ sign) | to_single(v & ~int64_t{7});
}

}  // namespace

uint32_t mufu_rcp(uint32_t a) {
  if (is_nan(a)) return nan32;
  const uint32_t sign = a & sign_bit, magnitude = a & magnitude_bits;
  if (magnitude == inf32) return sign;
  if (magnitude < implicit) return sign | inf32;
  const uint32_t r = rcp_of(one | (a & significand));
  const int exponent = exponent_of(r) - exponent_of(a);
  return exponent < -126 ? sign : sign | static_cast<uint32_t>(exponent + 127) << 23 | (r & significand);
}

uint32_t mufu_rsq(uint32_t a) {
  if (is_nan(a)) return nan32;
  const uint32_t sign = a & sign_bit, magnitude = a & magnitude_bits;
  if (magnitude < implicit) return sign | inf32;
  if (sign != 0) return nan32;
  if (magnitude == inf32) return 0;
  const int odd = exponent_of(a) & 1;
  const uint32_t r = root_of(rsq_segments, static_cast<uint32_t>(127 + odd) << 23 | (a & significand));
  return r - static_cast<uint32_t>((exponent_of(a) - odd) / 2) * implicit;
}

uint32_t mufu_sqrt(uint32_t a) {
  if (is_nan(a)) return nan32;
  if ((a & inf32) == 0) return a & sign_bit;
  if ((a & sign_bit) != 0) return nan32;
  if (a == inf32) return a;
  const int odd = exponent_of(a) & 1;
  const uint32_t r = root_of(sqrt_segments, static_cast<uint32_t>(127 + odd) << 23 | (a & significand));
  return r + static_cast<uint32_t>((exponent_of(a) - odd) / 2) * implicit;
}

uint32_t mufu_ex2(uint32_t a) {
  if (is_nan(a)) return nan32;
  // In units of 2^-23, cut off; negative ones as the ones' complement unless they are integers.
  const auto units = static_cast<int64_t>(to_fixed(std::min(a & magnitude_bits, uint32_t{0x44800000}), 23));
  const int64_t x = (a & sign_bit) == 0 ? units : (units & significand) == 0 ? -units : ~units;
  const int64_t exponent = x >> 23;
  if (exponent > 127) return inf32;
  if (exponent < -126) return 0;
  const auto f = static_cast<uint32_t>(x) & significand;
  return to_single(evaluate(among_64(ex2_segments, f), offset_in_64(f))) + static_cast<uint32_t>(exponent) * implicit;
}

uint32_t mufu_lg2(uint32_t a) {
  if (is_nan(a)) return nan32;
  if ((a & inf32) == 0) return sign_bit | inf32;
  if ((a & sign_bit) != 0) return nan32;
  if (a == inf32) return a;
  if (a == one) return 0;  // what the polynomial misses
  // The fraction of the logarithm has 36 bits; a negative one is made positive by the ones' complement.
  constexpr unsigned dropped = value_bits - 36;
  const int64_t sum = (int64_t{exponent_of(a)} << value_bits) + evaluate(among_64(lg2_segments, a), offset_in_64(a));
  const int64_t v = sum >> dropped;
  return v < 0 ? sign_bit | to_single(~v << dropped) : to_single(v << dropped);
}

uint32_t mufu_sin(uint32_t a) { return of_turns(a, 0, a & sign_bit); }
uint32_t mufu_cos(uint32_t a) { return of_turns(a, 1, 0); }

uint32_t mufu_tanh(uint32_t a) {
  if (is_nan(a)) return nan32;
  constexpr int first = -8;
  // From 2^-8 to 8.0, an octave each: bits of the significand that choose the segment, and the segments before.
  struct Octave {
    uint8_t bits, segment;
  };
  constexpr Octave octaves[] = {{0, 0}, {0, 1}, {0, 2}, {1, 3}, {1, 5}, {2, 7}, {2, 11}, {2, 15}, {3, 19}, {4, 27}, {3, 43}};
  const int octave = exponent_of(a) - first;
  if (octave < 0) return a;
  const uint32_t sign = a & sign_bit, m = a & significand;
  if (octave >= static_cast<int>(std::size(octaves))) return sign | one;
  const Octave& o = octaves[octave];
  // Bits behind the 17 are cut off.
  const Segment& s = tanh_segments[o.segment + (m >> (fraction_bits - o.bits))];
  return sign | to_single(evaluate(s, m >> (fraction_bits - o.bits - offset_bits) & ((1u << offset_bits) - 1)));
}

uint16_t mufu_narrow(uint32_t (*function)(uint32_t), uint16_t a, const Narrow& format) {
  const uint32_t r = function(bits32(static_cast<float>(narrow_to_double(a, format))));
  if (is_nan(r)) return nan16;
  const int drop = static_cast<int>(fraction_bits) - format.fraction_bits;
  if (format.least_exponent == -126) return static_cast<uint16_t>(r >> drop);  // the exponents of single precision
  const int exponent = exponent_of(r), below = format.least_exponent - exponent;
  const auto sign = static_cast<uint16_t>(r >> 16 & 0x8000);
  if (exponent > 1 - format.least_exponent) return sign | format.infinity;
  const uint32_t m = (r & significand) | implicit;
  // The implicit bit of a normal number adds one to the exponent.
  if (below <= 0) return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(-below) << format.fraction_bits) + (m >> drop)));
  return static_cast<uint16_t>(sign | (drop + below < 32 ? m >> (drop + below) : 0));
}

uint32_t mufu_rcp64h(uint32_t a) {
  const uint32_t sign = a & sign_bit, magnitude = a & magnitude_bits;
  if (magnitude > inf64) return nan64h;
  if (magnitude == inf64) return sign;
  if (magnitude < 0x00100000) return sign | inf64;
  const uint32_t r = rcp_of(one | (a & 0x000fffff) << 3);
  const int exponent = exponent_of(r) - (static_cast<int>(magnitude >> 20) - 1023);
  return exponent < -1022 ? sign : double_word(sign, exponent, r);
}

uint32_t mufu_rsq64h(uint32_t a) {
  const uint32_t sign = a & sign_bit, magnitude = a & magnitude_bits;
  if (magnitude > inf64) return nan64h;
  if (magnitude < 0x00100000) return sign | inf64;
  if (sign != 0) return nan64h;
  if (magnitude == inf64) return 0;
  const int exponent = static_cast<int>(magnitude >> 20) - 1023, odd = exponent & 1;
  const uint32_t r = root_of(rsq_segments, static_cast<uint32_t>(127 + odd) << 23 | (a & 0x000fffff) << 3);
  return double_word(0, exponent_of(r) - (exponent - odd) / 2, r);
}

}  // namespace xtrace::replay::interp::value
