#include "tests/values/states.h"

#include <bit>
#include <cstring>

namespace xtrace::values {
namespace {

// splitmix64 [Steele, Lea, Flood 2014]
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next64() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  uint32_t next() { return static_cast<uint32_t>(next64() >> 32); }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((uint64_t{next()} * n) >> 32); }

 private:
  uint64_t state_;
};

template <size_t N>
uint32_t pick(Random& r, const uint32_t (&from)[N]) {
  return from[r.below(N)];
}

// Zeros, ones, infinities, quiet and signalling NaN, the limits of normal and subnormal numbers, halves (ties
// of a rounding to integers), limits of the integers.
constexpr uint32_t singles[] = {0x00000000, 0x3f800000, 0x7f800000, 0x7fc00000, 0x7f800001, 0x7fffffff,
                                0x00800000, 0x00800001, 0x007fffff, 0x00000001, 0x7f7fffff, 0x3f000000,
                                0x3fc00000, 0x40200000, 0x4b800000, 0x4b000001, 0x4f000000, 0x4effffff,
                                0x5f000000, 0x3f7fffff, 0x33800000, 0x3f800001, 0x477fe000, 0x477ff000,
                                0x38800000, 0x33000000, 0x43000000, 0x437f0000};
constexpr uint32_t halves[] = {0x0000, 0x3c00, 0x7c00, 0x7e00, 0x7c01, 0x7fff, 0x0400,
                               0x03ff, 0x0001, 0x7bff, 0x3800, 0x3e00, 0x4100, 0x3bff,
                               0x3c01, 0x3f80, 0x7f80, 0x7fc0, 0x0080, 0x007f};
constexpr uint32_t integers[] = {0,          1,          2,          0xffffffff, 0xfffffffe, 0x7fffffff,
                                 0x80000000, 0x80000001, 0x0000ffff, 0x00010000, 0x00007fff, 0x00008000,
                                 0xffff8000, 0x000000ff, 0x0000007f, 0x00000080, 31,         32,
                                 33,         63,         64,         65,         0x55555555, 0xaaaaaaaa};
// High words of doubles.
constexpr uint32_t doubles[] = {0x00000000, 0x3ff00000, 0x7ff00000, 0x7ff80000, 0x7ff00001,
                                0x7fffffff, 0x00100000, 0x000fffff, 0x7fefffff, 0x3fe00000,
                                0x3ff80000, 0x43300000, 0x41e00000, 0x43e00000, 0x40040000,
                                0x47efffff, 0x38100000, 0x36a00000, 0x41dfffff, 0x3c900000};

// A barrier that lacks n of 64 arrivals and no bytes. [replay/interp/value/mbarrier.h]
uint64_t barrier_state(Random& r) {
  constexpr uint64_t of = 1 << 20;
  const uint64_t lacks = 40 + r.below(24);  // more than a warp brings
  return uint64_t{r.next() >> 31} << 63 | (of - lacks) << 43 | (of - 64) << 1;
}

uint32_t sign(Random& r) { return r.next() & 0x80000000; }
uint32_t near_single(Random& r) {  // 2^-7..2^7, often with few bits
  const uint32_t mantissa = r.below(2) != 0 ? r.next() : r.next() & 0x00700000;
  return sign(r) | (120 + r.below(15)) << 23 | (mantissa & 0x007fffff);
}
uint32_t half(Random& r) {
  const uint32_t s = sign(r) >> 16;
  switch (r.below(4)) {
    case 0:
      return s | pick(r, halves);
    case 1:
      return s | (11 + r.below(9)) << 10 | (r.next() & 0x3ff);
    case 2:
      return s | (11 + r.below(9)) << 10 | (r.next() & 0x300);
    default:
      return r.next() & 0xffff;
  }
}
uint32_t brain(Random& r) { return sign(r) >> 16 | (120 + r.below(15)) << 7 | (r.next() & 0x7f); }

constexpr unsigned kinds = 8;
uint32_t value(Random& r, unsigned kind, bool high_word) {
  switch (kind) {
    case 0:
      return r.next();
    case 1:
      return sign(r) | pick(r, singles);
    case 2:
      return r.below(128) - 64;
    case 3:
      switch (r.below(3)) {
        case 0:
          return pick(r, integers);
        case 1:
          return (1u << r.below(32)) - r.below(2);
        default:
          return pick(r, integers) + r.below(3) - 1;
      }
    case 4:
      return near_single(r);
    case 5:
      return r.below(4) != 0 ? half(r) << 16 | half(r) : brain(r) << 16 | brain(r);
    case 6:  // a double in a pair of registers
      if (!high_word) return r.below(2) != 0 ? r.next() : r.below(2) << r.below(32);
      return r.below(3) != 0 ? sign(r) | (1016 + r.below(15)) << 20 | (r.next() & 0xfffff)
                             : sign(r) | pick(r, doubles);
    default:
      return value(r, r.below(kinds - 1), high_word);
  }
}

void shuffle(Random& r, uint32_t (&lane)[32]) {
  for (uint32_t l = 0; l < 32; ++l) lane[l] = l;
  for (uint32_t l = 31; l > 0; --l) std::swap(lane[l], lane[r.below(l + 1)]);
}

// A texture is one of two: the first for those warps from which inputs are changed, then the other.
uint32_t of_two(Random& r, unsigned warp) { return warp < 8 ? 0 : warp < set_warps ? r.below(2) : 1; }
// Of the warps from which inputs are changed, and of those in which they are, each of four kinds.
unsigned kind_of_coordinates(unsigned warp) { return (warp < set_warps ? warp : warp - set_warps) % 4; }

uint32_t coordinate(Random& r, unsigned kind) {
  const auto single = [&](float below) {
    return std::bit_cast<uint32_t>(static_cast<float>(r.next() >> 8) * below / 16777216.0f);
  };
  switch (kind) {
    case 0:
      return r.below(16);
    case 1:
      return single(16);
    case 2:
      return single(1);
    default:
      return r.below(2) != 0 ? r.below(4) << 16 | r.below(4) : coordinate(r, r.below(3));
  }
}

// Places of classes texture, surface, tensor and cluster; false for those that are as of any class.
bool draw_special(Random& r, WarpState& w, Class c, Place p, unsigned warp) {
  const auto all = [&](auto&& of_lane) {
    for (unsigned l = 0; l < 32; ++l) w.gpr(p.index)[l] = of_lane(l);
  };
  const auto shuffled = [&](auto&& of_lane) {
    uint32_t lane[32];
    shuffle(r, lane);
    all([&](unsigned l) { return of_lane(lane[l]); });
  };
  const bool gpr = p.kind == Place::Kind::gpr, ur = p.kind == Place::Kind::ur;
  if (has_objects(c) && ur && (p.index == 16 || p.index == 17)) {
    w.ur(p.index) = p.index == 16 ? of_two(r, warp) : 0;
    return true;
  }
  if (has_objects(c) && gpr) {
    const unsigned kind = warp % kinds;
    if (c == Class::texture)
      all([&](unsigned) { return coordinate(r, kind_of_coordinates(warp)); });
    else if (p.index == 8)
      shuffled([](uint32_t lane) { return lane * 32; });
    else if (p.index == 9)
      all([&](unsigned) { return warp + of_two(r, warp) * warps; });
    else if (p.index <= 11)
      all([&](unsigned) { return r.below(4); });
    else
      all([&](unsigned) { return value(r, kind, p.index % 2 != 0); });
    if (p.index == 24 || p.index == 32 || (c == Class::texture && p.index == 8))
      for (uint32_t which = of_two(r, warp), l = 0; l < 32; ++l) w.gpr(p.index)[l] = (w.gpr(p.index)[l] & ~1u) | which;
    return true;
  }
  if (c == Class::tensor && ur) {
    const uint64_t maps = maps_address + uint64_t{warp} * maps_bytes;
    uint32_t& to = w.ur(p.index);
    switch (p.index) {
      case 4:
        to = static_cast<uint32_t>(maps) + of_two(r, warp) * maps_bytes / 2;
        return true;
      case 5:
        to = static_cast<uint32_t>(maps >> 32);
        return true;
      case 8:
      case 16:
        to = shared_base + r.below(7) * 128;
        return true;
      case 9:
        to = barrier_at;
        return true;
      case 22:
        to = 1 << 16;  // this CTA alone
        return true;
      case 23:
        to = of_two(r, warp);  // an offset in a column of pixels
        return true;
      case 24:
        to = 0;
        return true;
      case 25: {
        constexpr uint32_t policies[] = {0x10000000, 0x12f00000, 0x14f00000};  // [CUTLASS 3: evict normal, first, last]
        to = pick(r, policies);
        return true;
      }
      default:
        if ((p.index < 10 || p.index > 14) && (p.index < 17 || p.index > 21)) return false;
        // Of 0 whole granules, inside or not; others are changed to what they were not.
        to = p.index == 10 || p.index == 17 ? of_two(r, warp) * 8
             : p.index == 20                    ? of_two(r, warp) * 4
             : warp < 8                         ? r.below(2)
             : warp < set_warps                 ? r.below(4)
                                                : 2 + r.below(2);
        return true;
    }
  }
  if (c == Class::cluster && gpr && (p.index == copy_gpr || p.index == copy_gpr + 1)) {
    const uint32_t rank = (warp < 8 || warp >= set_warps ? warp : warp + 1) % 2;
    if (p.index == copy_gpr)
      shuffled([&](uint32_t lane) { return rank << rank_shift | (shared_base + lane * 32); });
    else
      all([&](unsigned) { return rank << rank_shift | (cluster_barrier_at + of_two(r, warp) * 8); });
    return true;
  }
  return false;
}

// Draws one place again.
void draw(Random& r, WarpState& w, Class c, Place p, unsigned warp) {
  const unsigned kind = warp < set_warps ? warp % kinds : (warp & 1) != 0 ? kinds - 1 : 0;
  const uint64_t area = area_of(c) + uint64_t{warp} * area_bytes;
  const uint64_t handle =
      handle_of(input_address + uint64_t{warp} * warp_bytes + memory_row * 128, handle_bytes);
  const bool address = c <= Class::group && c != Class::plain && c != Class::handle && c != Class::control;
  if (c > Class::group && draw_special(r, w, c, p, warp)) return;
  switch (p.kind) {
    case Place::Kind::gpr: {
      uint32_t* to = w.gpr(p.index);
      const bool low = p.index == first_gpr, high = p.index == first_gpr + 1;
      if (address && low) {
        uint32_t lane[32];
        shuffle(r, lane);
        for (unsigned l = 0; l < 32; ++l) {
          if (c == Class::vector64 || c == Class::low)
            to[l] = static_cast<uint32_t>(area) + lane[l] * 16;
          else if (c == Class::constant)
            to[l] = lane[l] % 4 * 16;
          else if (is_local(c))
            to[l] = 0 - lane[l] % 2 * 16;
          else if (c == Class::copy)
            to[l] = static_cast<uint32_t>(area) + lane[l] * 32;
          else
            to[l] = lane[l] * 16;
        }
      } else if (high && (c == Class::vector64 || c == Class::uniform || c == Class::copy)) {
        std::fill_n(to, 32, c == Class::uniform ? 0 : static_cast<uint32_t>(area >> 32));
      } else if (c == Class::copy && p.index == copy_gpr) {
        uint32_t lane[32];
        shuffle(r, lane);
        for (unsigned l = 0; l < 32; ++l) to[l] = shared_base + lane[l] * 32;
      } else if (c == Class::copy && p.index == copy_gpr + 1) {
        std::fill_n(to, 32, barrier_at);
      } else if (c == Class::handle && p.index == 32) {
        for (unsigned l = 0; l < 32; ++l) to[l] = r.below(16) * 16;
      } else if (c == Class::barrier && p.index == 24) {
        std::fill_n(to, 32, r.below(2));
      } else {
        for (unsigned l = 0; l < 32; ++l) to[l] = value(r, kind, p.index % 2 != 0);
      }
      return;
    }
    case Place::Kind::ur: {
      uint32_t& to = w.ur(p.index);
      const bool low = p.index == 8 || p.index == 12, high = p.index == 9 || p.index == 13;
      if ((c == Class::uniform || c == Class::low_uniform) && low)
        to = static_cast<uint32_t>(area) + r.below(16) * 16;
      else if (c == Class::uniform && high)
        to = static_cast<uint32_t>(area >> 32);
      else if (c == Class::group && p.index <= 11)
        to = p.index % 2 == 0 ? (shared_base + r.below(16) * 128) >> 4 | 128 >> 4 << 16 : 256 >> 4;
      else if ((is_shared(c) && low) || (c == Class::barrier && p.index == 4))
        to = r.below(16) * 16;
      else if (c == Class::local_uniform && low)
        to = r.below(2) * 16;
      else if (c == Class::handle && (p.index == 4 || p.index == 8))
        to = static_cast<uint32_t>(handle) + r.below(8);
      else if (c == Class::handle && (p.index == 5 || p.index == 9))
        to = static_cast<uint32_t>(handle >> 32);
      else if (c == Class::copy && p.index == 8)
        to = static_cast<uint32_t>(area) + r.below(16) * 32;
      else if (c == Class::copy && p.index == 9)
        to = static_cast<uint32_t>(area >> 32);
      else if (c == Class::copy && p.index == 12)
        to = shared_base + r.below(16) * 32;
      else if (c == Class::copy && p.index == 13)
        to = barrier_at;
      else if (c == Class::copy && p.index == 16)
        to = 1 + r.below(4);
      else if (c == Class::constant && p.index == first_ur)
        to = r.below(4) * 16;
      else
        to = value(r, kind, p.index % 2 != 0);
      return;
    }
    case Place::Kind::pred:
      for (uint32_t& bits : w.row[predicate_row])
        bits = (bits & ~(1u << p.index)) | (r.next() >> 31) << p.index;
      return;
    case Place::Kind::upred: {
      uint32_t& bits = w.row[uniform_row][up_lane];
      bits = (bits & ~(1u << p.index)) | (r.next() >> 31) << p.index;
      return;
    }
    case Place::Kind::memory:
      for (unsigned k = 0; k < memory_words; ++k)
        for (uint32_t& v : w.row[memory_row + k]) v = value(r, kind, k % 2 != 0);
      for (unsigned k = 0; c == Class::barrier && k < memory_words; k += 2)
        for (unsigned l = 0; l < 32; ++l) {
          const uint64_t state = barrier_state(r);
          w.row[memory_row + k][l] = static_cast<uint32_t>(state);
          w.row[memory_row + k + 1][l] = static_cast<uint32_t>(state >> 32);
        }
      return;
  }
}

// What the warps of a warpgroup must agree on, or share. Warps 0 to 7 are alike in it: variant_base().
bool of_the_group(Place p) {
  return p.kind == Place::Kind::ur || p.kind == Place::Kind::upred || p.kind == Place::Kind::memory;
}

// Addresses of another warp's memory, moved to this one's.
void move_addresses(WarpState& w, Class c, unsigned from, unsigned to) {
  const uint32_t by = (to - from) * area_bytes;
  if (c == Class::vector64 || c == Class::low || c == Class::copy)
    for (unsigned l = 0; l < 32; ++l) w.gpr(first_gpr)[l] += by;
  if (c == Class::uniform || c == Class::low_uniform) w.ur(8) += by, w.ur(12) += by;
  if (c == Class::copy) w.ur(8) += by;
  if (c == Class::tensor) w.ur(4) += (to - from) * maps_bytes;
  if (c == Class::surface)
    for (unsigned l = 0; l < 32; ++l) w.gpr(9)[l] += to - from;
  if (c == Class::handle)
    for (const unsigned u : {4u, 8u}) w.ur(u) += (to - from) * warp_bytes / 64;
}

}  // namespace

const char* name(Class c) {
  constexpr const char* names[classes] = {"plain",       "vector64",      "uniform", "shared", "local",
                                           "constant",    "handle",        "low",     "low_uniform",
                                           "local_uniform", "barrier",     "copy",    "control",
                                           "group",       "texture",       "surface", "tensor",
                                           "cluster"};
  return names[static_cast<unsigned>(c)];
}

Place place(unsigned number) {
  unsigned n = number;
  if (n < gprs) return {Place::Kind::gpr, static_cast<uint8_t>(first_gpr + n)};
  n -= gprs;
  if (n < urs) return {Place::Kind::ur, static_cast<uint8_t>(first_ur + n)};
  n -= urs;
  if (n < 7) return {Place::Kind::pred, static_cast<uint8_t>(n)};
  n -= 7;
  if (n < 7) return {Place::Kind::upred, static_cast<uint8_t>(n)};
  return {Place::Kind::memory, 0};
}

std::string text(Place p) {
  constexpr const char* prefix[] = {"R", "UR", "P", "UP"};
  if (p.kind == Place::Kind::memory) return "memory";
  return prefix[static_cast<unsigned>(p.kind)] + std::to_string(p.index);
}

std::string text(const PlaceSet& set) {
  std::string out;
  for (unsigned n = 0; n < places; ++n)
    if (set[n]) out += (out.empty() ? "" : " ") + text(place(n));
  return out.empty() ? "-" : out;
}

bool differs(const WarpState& a, const WarpState& b, unsigned place_number) {
  const Place p = place(place_number);
  switch (p.kind) {
    case Place::Kind::gpr:
      return a.row[p.index - first_gpr] != b.row[p.index - first_gpr];
    case Place::Kind::ur:
      return a.row[uniform_row][p.index - first_ur] != b.row[uniform_row][p.index - first_ur];
    case Place::Kind::pred: {
      uint32_t d = 0;
      for (unsigned l = 0; l < 32; ++l) d |= a.row[predicate_row][l] ^ b.row[predicate_row][l];
      return (d >> p.index & 1) != 0;
    }
    case Place::Kind::upred:
      return ((a.row[uniform_row][up_lane] ^ b.row[uniform_row][up_lane]) >> p.index & 1) != 0;
    case Place::Kind::memory:
      for (unsigned k = 0; k < memory_words; ++k)
        if (a.row[memory_row + k] != b.row[memory_row + k]) return true;
      return false;
  }
  return false;
}

bool can_change(Class c, Place p) {
  if (p.kind == Place::Kind::gpr && p.index == first_gpr + 1)
    return c != Class::vector64 && c != Class::uniform && c != Class::copy;
  if (p.kind == Place::Kind::gpr && p.index == copy_gpr + 1) return c != Class::copy;
  if (p.kind == Place::Kind::ur && (p.index == 9 || p.index == 13))
    return c != Class::uniform && c != Class::copy && (c != Class::handle || p.index != 9);
  if (p.kind == Place::Kind::ur && p.index == 5) return c != Class::handle;
  if (c == Class::group && p.kind == Place::Kind::ur && p.index <= 11) return p.index % 2 == 0;
  if (c == Class::tensor && p.kind == Place::Kind::ur)
    return p.index != 5 && p.index != 9 && p.index != 22 && p.index != 24;
  if (has_objects(c) && p.kind == Place::Kind::ur) return p.index != 17;
  return true;
}

std::vector<std::byte> parameters() {
  std::vector<std::byte> block(parameter_bytes);
  const uint64_t pointers[] = {input_address, output_address, area_address, choice_address};
  std::memcpy(block.data(), pointers, sizeof pointers);
  // 1.5, 2.25 in halves, and words without meaning; each aligned group of 16 bytes is an operand of some
  // form.
  const uint32_t constants[] = {0x3fc00000, 0x3ff80000, 0x3c004080, 0x00000005, 0xc0a9f37b, 0x40091eb8,
                                0x80000000, 0x7fffffff, 0x12345678, 0xbff00000, 0x00000001, 0xffffffff,
                                0x0badcafe, 0x41200000, 0x7f800000, 0x00000020, 0x89abcdef, 0x3f000000};
  std::memcpy(block.data() + parameter_constants, constants, sizeof constants);
  Random r(1);
  for (size_t at = parameter_constants + sizeof constants; at + 4 <= parameter_bytes; at += 4) {
    const uint32_t v = r.next();
    std::memcpy(block.data() + at, &v, 4);
  }
  return block;
}

std::vector<WarpState> input_states(Class c) {
  std::vector<WarpState> states(warps);
  for (unsigned w = 0; w < set_warps; ++w) {
    Random r(0x5851f42d4c957f2du * (w + 1) + static_cast<unsigned>(c));
    for (unsigned n = 0; n < places; ++n)
      if (c == Class::group && of_the_group(place(n))) {
        const bool memory = place(n).kind == Place::Kind::memory;
        Random q(0x9e6c63d0876a9a47u * (w / 8 + 1) + n + (memory ? w % 4 * 1000 : 0));
        draw(q, states[w], c, place(n), w / 8);
      } else {
        draw(r, states[w], c, place(n), w);
      }
  }
  for (unsigned n = 0; n < variants; ++n)
    for (unsigned k = 0; k < variant_warps; ++k) {
      const unsigned w = variant_warp(n, k), from = variant_base(k);
      states[w] = states[from];
      move_addresses(states[w], c, from, w);
      const bool together = c == Class::group && of_the_group(place(n));
      Random r(0x2545f4914f6cdd1du * (together ? set_warps + n : w + 1) + static_cast<unsigned>(c));
      if (can_change(c, place(n))) draw(r, states[w], c, place(n), w);
    }
  return states;
}

}  // namespace xtrace::values
