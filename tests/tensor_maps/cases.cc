#include "tests/tensor_maps/cases.h"

#include <algorithm>
#include <sstream>

namespace xtrace::tensor_maps {
namespace {

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix(seed)) {}
  uint64_t next() { return state_ = mix(state_); }
  uint64_t upto(uint64_t low, uint64_t high) { return low + next() % (high - low + 1); }
  bool one_in(uint64_t n) { return next() % n == 0; }

 private:
  uint64_t state_;
};

constexpr const char* names[] = {"load", "store", "reduce"};
constexpr uint32_t swizzle_bytes[] = {256 * 16, 32, 64, 128};  // widest row of a box

uint64_t up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

}  // namespace

unsigned element_bytes(uint32_t type) {
  constexpr unsigned bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return bytes[type];
}

uint64_t tensor_bytes(const Case& c) {
  uint64_t end = c.dim[0] * element_bytes(c.type);
  if (c.interleave != 0) end = c.interleave * 16;
  for (unsigned d = 1; d < c.rank; ++d) end += (c.dim[d] - 1) * c.stride[d - 1];
  if (c.interleave != 0) {
    const uint64_t block = c.interleave * 16 / element_bytes(c.type);
    end += (up(c.dim[0], block) / block - 1) * c.stride[c.rank - 2];
  }
  return end;
}

uint32_t box_bytes(const Case& c) {
  uint32_t n = c.box[0] * element_bytes(c.type);
  if (c.interleave != 0) n = c.interleave * 16;
  for (unsigned d = 1; d < c.rank; ++d) n *= (c.box[d] + c.step[d] - 1) / c.step[d];
  return n;
}

uint32_t shared_bytes(const Case& c) { return static_cast<uint32_t>(up(c.offset + box_bytes(c) + 128, 16)); }

std::optional<Case> draw(Kind kind, uint64_t seed) {
  Random r(seed * 3 + static_cast<uint64_t>(kind));
  Case c;
  c.kind = kind;
  c.type = static_cast<uint32_t>(r.upto(0, 12));
  c.rank = static_cast<uint32_t>(r.upto(1, 5));
  if (kind == Kind::reduce) {
    struct Known {
      uint32_t type, first, last;
    };
    // Of ADD MIN MAX ...; others fault [measured H200: ADD of 64 bits with sign].
    constexpr Known known[] = {{2, 0, 7}, {3, 0, 2}, {4, 0, 2}, {5, 1, 2}, {6, 0, 2}, {7, 0, 0}, {9, 0, 2}};
    const Known& k = known[r.next() % std::size(known)];
    c.type = k.type, c.rank = 2, c.operation = static_cast<uint32_t>(r.upto(k.first, k.last));
  }
  const unsigned bytes = element_bytes(c.type);
  c.swizzle = r.one_in(2) ? static_cast<uint32_t>(r.upto(0, 3)) : 0;
  c.l2 = static_cast<uint32_t>(r.upto(0, 3));
  c.fill = c.type >= 6 && kind == Kind::load ? static_cast<uint32_t>(r.upto(0, 1)) : 0;
  const uint32_t most = std::min<uint32_t>(256, swizzle_bytes[c.swizzle] / bytes), unit = std::max(1u, 16 / bytes);
  if (most < unit) return std::nullopt;
  c.box[0] = static_cast<uint32_t>(r.upto(1, most / unit) * unit);
  if (c.swizzle == 0 && r.one_in(2)) c.box[0] = std::min(c.box[0], 4 * unit);
  c.dim[0] = r.upto(1, 2 * c.box[0]);
  uint64_t stride = up(c.dim[0] * bytes, 16) + 16 * r.upto(0, 2);
  for (unsigned d = 1; d < c.rank; ++d) {
    c.dim[d] = r.upto(1, c.rank <= 2 ? 40 : 9);
    c.stride[d - 1] = stride;
    stride = stride * c.dim[d] + 16 * r.upto(0, 2);
    c.box[d] = static_cast<uint32_t>(r.upto(1, c.rank <= 2 ? 24 : 6));
    if (kind == Kind::load && r.one_in(3)) c.step[d] = static_cast<uint32_t>(r.upto(1, 8));
  }
  for (unsigned d = 0; d < c.rank; ++d)
    c.at[d] = static_cast<int32_t>(r.upto(0, c.dim[d] + 5)) - 3;
  // Else the instruction faults, as stores do where a coordinate is negative [measured H200].
  c.at[0] = (c.at[0] + 3) / static_cast<int32_t>(unit) * static_cast<int32_t>(unit);
  if (kind != Kind::load)
    for (int32_t& at : c.at) at = std::max(at, 0);
  else if (r.one_in(3)) c.at[0] -= static_cast<int32_t>(c.box[0] / unit / 2 * unit);
  c.offset = static_cast<uint32_t>(128 * r.upto(0, 8));
  // What a store takes must have been filled, the gaps between the rows of a swizzled box included.
  const uint64_t pitch = c.swizzle == 0 ? c.box[0] * bytes : swizzle_bytes[c.swizzle];
  if (kind != Kind::load && c.offset + box_bytes(c) / (c.box[0] * bytes) * pitch > shared_bytes(c)) return std::nullopt;
  if (box_bytes(c) > 12 * 1024 || tensor_bytes(c) > 256 * 1024) return std::nullopt;
  return c;
}

uint8_t tensor_byte(uint64_t i, uint32_t type) {
  // Every 16th word of single precision is subnormal.
  const uint64_t v = mix(i / 8);
  const auto byte = static_cast<uint8_t>(v >> (i % 8 * 8));
  const unsigned bytes = element_bytes(type);
  if (type >= 6 && mix(i / bytes + 77) % 16 == 0 && i % bytes + 2 > bytes) return byte & 0x80;
  return byte;
}

uint64_t digest(const uint8_t* bytes, uint64_t n) {
  uint64_t h = 0xcbf29ce484222325;
  for (uint64_t i = 0; i < n; ++i) h = (h ^ bytes[i]) * 0x100000001b3;
  return h;
}

std::array<uint64_t, 16> encoded(const Case& c) {
  constexpr uint64_t types[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7, 8};
  std::array<uint64_t, 16> w{};
  w[0] = c.address;
  w[1] = uint64_t{c.rank - 1} << 4 | types[c.type] << 7 | uint64_t{c.interleave} << 11 | uint64_t{c.swizzle} << 13 |
         uint64_t{c.fill} << 15 | uint64_t{c.type >= 11} << 16 | uint64_t{c.l2} << 17;
  for (unsigned d = 1; d < c.rank; ++d) {
    const uint64_t units = c.stride[d - 1] / 16;
    const unsigned word = d == 1 ? 1 : d == 4 ? 3 : 2, low = d == 1 || d == 3 ? 32 : 0;
    w[word] |= (units & 0xffffffff) << low;
    w[3] |= units >> 32 << (28 + 4 * d);
  }
  for (unsigned d = 0; d < c.rank; ++d) {
    w[4 + d / 2] |= (c.dim[d] - 1) << (32 * (d % 2));
    w[6] |= uint64_t{c.step[d] - 1} << (32 + 3 * d);
    if (d == 0)
      w[6] |= uint64_t{c.box[0] - 1} << 56;
    else
      w[7] |= uint64_t{c.box[d] - 1} << (8 * d - 8);
  }
  return w;
}

std::string to_row(const Case& c) {
  std::ostringstream o;
  o << names[static_cast<unsigned>(c.kind)] << ' ' << c.type << ' ' << c.rank << ' ' << std::hex << c.address << std::dec;
  for (unsigned d = 0; d < c.rank; ++d) o << ' ' << c.dim[d];
  for (unsigned d = 0; d + 1 < c.rank; ++d) o << ' ' << c.stride[d];
  for (unsigned d = 0; d < c.rank; ++d) o << ' ' << c.box[d];
  for (unsigned d = 0; d < c.rank; ++d) o << ' ' << c.step[d];
  o << ' ' << c.interleave << ' ' << c.swizzle << ' ' << c.l2 << ' ' << c.fill;
  for (unsigned d = 0; d < c.rank; ++d) o << ' ' << c.at[d];
  o << ' ' << c.offset << ' ' << c.operation;
  return o.str();
}

std::optional<Case> from_row(std::string_view row) {
  std::istringstream in{std::string(row)};
  std::string name;
  Case c;
  in >> name;
  const auto kind = std::find(std::begin(names), std::end(names), name);
  if (kind == std::end(names)) return std::nullopt;
  c.kind = static_cast<Kind>(kind - std::begin(names));
  in >> c.type >> c.rank >> std::hex >> c.address >> std::dec;
  if (!in || c.rank < 1 || c.rank > 5 || c.type > 12) return std::nullopt;
  for (unsigned d = 0; d < c.rank; ++d) in >> c.dim[d];
  for (unsigned d = 0; d + 1 < c.rank; ++d) in >> c.stride[d];
  for (unsigned d = 0; d < c.rank; ++d) in >> c.box[d];
  for (unsigned d = 0; d < c.rank; ++d) in >> c.step[d];
  in >> c.interleave >> c.swizzle >> c.l2 >> c.fill;
  for (unsigned d = 0; d < c.rank; ++d) in >> c.at[d];
  in >> c.offset >> c.operation;
  if (!in) return std::nullopt;
  return c;
}

}  // namespace xtrace::tensor_maps
