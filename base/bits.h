// Fields of a 128-bit word. Bit 0 is the least significant bit of `lo`; a range is [high:low] inclusive.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace xtrace {

struct U128 {
  uint64_t lo = 0, hi = 0;
  bool operator==(const U128&) const = default;
};

struct BitRange {
  uint8_t low = 0, width = 0;
  constexpr bool operator==(const BitRange&) const = default;
};
// Written the way the tables write it: bits(23, 16).
constexpr BitRange bits(unsigned high, unsigned low) {
  return {static_cast<uint8_t>(low), static_cast<uint8_t>(high - low + 1)};
}
constexpr BitRange bit(unsigned b) { return bits(b, b); }

constexpr uint64_t low_mask(unsigned width) { return width >= 64 ? ~0ull : (1ull << width) - 1; }

constexpr uint64_t get_bits(const U128& w, BitRange r) {
  if (r.width == 0) return 0;
  uint64_t v;
  if (r.low >= 64) {
    v = w.hi >> (r.low - 64);
  } else {
    v = w.lo >> r.low;
    if (r.low != 0 && r.low + r.width > 64) v |= w.hi << (64 - r.low);
  }
  return v & low_mask(r.width);
}

inline void set_bits(U128& w, BitRange r, uint64_t value) {
  XT_CHECK((value & ~low_mask(r.width)) == 0, "value does not fit its bit field");
  const uint64_t m = low_mask(r.width);
  if (r.low >= 64) {
    w.hi = (w.hi & ~(m << (r.low - 64))) | (value << (r.low - 64));
    return;
  }
  w.lo = (w.lo & ~(m << r.low)) | (value << r.low);
  if (r.low + r.width > 64) {
    const unsigned done = 64 - r.low;
    w.hi = (w.hi & ~(m >> done)) | (value >> done);
  }
}

constexpr int64_t sign_extend(uint64_t v, unsigned width) {
  const uint64_t sign = 1ull << (width - 1);
  return static_cast<int64_t>((v ^ sign) - sign);
}

}  // namespace xtrace
