#include "replay/interp/value/tensor_map.h"

#include <fmt/format.h>

#include <cstring>

#include "replay/interp/value/atomic.h"
#include "replay/interp/value/float.h"
#include "replay/interp/value/narrow.h"

namespace xtrace::replay::interp::value {
namespace {

constexpr uint32_t bytes_of[] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2};  // by TensorType

// Bits of the map as one number of 1,024.
class Bits {
 public:
  explicit Bits(ByteView bytes) { std::memcpy(words_, bytes.data(), sizeof words_); }
  uint64_t operator()(unsigned word, unsigned high, unsigned low) const {
    const uint64_t v = words_[word] >> low;
    return high - low == 63 ? v : v & ((uint64_t{1} << (high - low + 1)) - 1);
  }
  bool zero(unsigned word, unsigned high, unsigned low) const { return (*this)(word, high, low) == 0; }

 private:
  uint64_t words_[tensor_map_bytes / 8];
};

uint32_t to_tf32(uint32_t v) {
  if ((v & 0x7f800000) == 0x7f800000) return (v & 0x7fffff) == 0 ? v : 0x7fffe000;
  return (v + 0xfff + (v >> 13 & 1)) & 0xffffe000;
}

template <typename T, typename F>
void each_element(std::byte* to, const std::byte* from, F f) {
  for (unsigned k = 0; k < granule_bytes; k += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + k, sizeof a);
    std::memcpy(&b, from + k, sizeof b);
    a = f(a, b);
    std::memcpy(to + k, &a, sizeof a);
  }
}
template <typename T>
bool reduce_integers(TensorReduction op, std::byte* to, const std::byte* from) {
  each_element<T>(to, from, [&](T a, T b) { return atomic(static_cast<AtomOp>(op), a, b); });
  return true;
}
bool reduce_narrow(TensorReduction op, std::byte* to, const std::byte* from, const Narrow& format) {
  if (op > TensorReduction::max) return false;
  each_element<uint16_t>(to, from, [&](uint16_t a, uint16_t b) {
    return op == TensorReduction::add ? narrow_add(a, b, format)
                                      : narrow_minmax(a, b, op == TensorReduction::min, false, format);
  });
  return true;
}

}  // namespace

uint32_t TensorMap::rows() const {
  uint32_t n = 1;
  for (unsigned d = 1; d < rank; ++d) n *= count(d);
  return n;
}

std::variant<TensorMap, std::string> parse_tensor_map(ByteView bytes) {
  const Bits at(bytes);
  TensorMap map;
  map.address = at(0, 63, 0);
  if (at(1, 0, 0) != 0) return "a map of pixels (im2col) is not modelled";
  const auto type = at(1, 10, 7);
  map.rank = static_cast<uint32_t>(at(1, 6, 4)) + 1;
  if (!at.zero(1, 3, 2) || !at.zero(1, 31, 19) || !at.zero(3, 63, 48) || !at.zero(6, 55, 47) || map.rank > most_dimensions ||
      type >= std::size(bytes_of))
    return "this is no tensor map, or one of a kind that was not measured";
  if (!at.zero(1, 12, 11)) return "an interleaved tensor map is not modelled";
  map.type = static_cast<TensorType>(type);
  if (at(1, 14, 13) != 0) map.swizzle_bytes = 16u << at(1, 14, 13);
  map.fill_nan = at(1, 15, 15) != 0;
  map.tf32 = at(1, 16, 16) != 0;
  if (map.tf32 && map.type != TensorType::f32 && map.type != TensorType::f32_ftz)
    return "a tensor map that rounds to TF32 what is not single precision";
  map.stride[0] = bytes_of[type];
  // Strides count 16 bytes; their upper four bits stand apart.
  const uint64_t low[] = {0, at(1, 63, 32), at(2, 31, 0), at(2, 63, 32), at(3, 31, 0)};
  for (unsigned d = 1; d < map.rank; ++d) map.stride[d] = (at(3, 31 + 4 * d, 28 + 4 * d) << 32 | low[d]) * 16;
  for (unsigned d = 0; d < map.rank; ++d) {
    map.extent[d] = at(4 + d / 2, 31 + 32 * (d % 2), 32 * (d % 2)) + 1;
    map.step[d] = static_cast<uint32_t>(at(6, 34 + 3 * d, 32 + 3 * d)) + 1;
    map.box[d] = static_cast<uint32_t>(d == 0 ? at(6, 63, 56) : at(7, 8 * d - 1, 8 * d - 8)) + 1;
  }
  if (map.row_bytes() % granule_bytes != 0 || (map.swizzle_bytes != 0 && map.row_bytes() > map.swizzle_bytes))
    return fmt::format("a row of the box has {} bytes, no multiple of 16 or more than the swizzle", map.row_bytes());
  return map;
}

const char* bad_coordinates(const TensorMap& map, const Coordinates& at, bool load) {
  if (static_cast<int64_t>(at[0]) * map.element_bytes() % granule_bytes != 0)
    return "coordinate 0 is no multiple of 16 bytes";
  if (!load)
    for (unsigned d = 0; d < map.rank; ++d)
      if (at[d] < 0) return "a store has a negative coordinate";
  return nullptr;
}

std::array<std::byte, granule_bytes> loaded_granule(const TensorMap& map, const std::byte* from, uint32_t inside) {
  std::array<std::byte, granule_bytes> out{};
  if (map.fill_nan)
    for (unsigned k = 0; k < granule_bytes; ++k) out[k] = std::byte{k % 2 == 0 ? uint8_t{0xf7} : uint8_t{0x7f}};
  if (inside != 0) std::memcpy(out.data(), from, inside);
  if (map.tf32)
    for (unsigned k = 0; k < inside; k += 4) {
      uint32_t v;
      std::memcpy(&v, out.data() + k, sizeof v);
      v = to_tf32(v);
      std::memcpy(out.data() + k, &v, sizeof v);
    }
  return out;
}

bool reduce_granule(const TensorMap& map, TensorReduction op, std::byte* to, const std::byte* from) {
  switch (map.type) {
    case TensorType::u32:
      return reduce_integers<uint32_t>(op, to, from);
    case TensorType::s32:
      return op <= TensorReduction::max && reduce_integers<int32_t>(op, to, from);
    case TensorType::u64:
      return op <= TensorReduction::max && reduce_integers<uint64_t>(op, to, from);
    case TensorType::s64:
      return (op == TensorReduction::min || op == TensorReduction::max) && reduce_integers<int64_t>(op, to, from);
    case TensorType::f16:
      return reduce_narrow(op, to, from, half_format);
    case TensorType::bf16:
      return reduce_narrow(op, to, from, brain_format);
    case TensorType::f32:
      if (op != TensorReduction::add) return false;
      each_element<uint32_t>(to, from, [](uint32_t a, uint32_t b) { return fadd(a, b); });
      return true;
    default:
      return false;
  }
}

}  // namespace xtrace::replay::interp::value
