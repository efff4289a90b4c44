// Tensor maps (CUtensorMap) and the boxes that are copied through them, as pure functions of bytes.
//
// The layout is not published. It was read off 2,683 maps that cuTensorMapEncodeTiled made of known arguments, and what a copy
// does off 4,172 copies on an H200 (tests/tensor_maps/) [measured H200]. Maps of pixels (im2col) and interleaved ones
// are refused. Bit 1 of the second word is set in maps of cuBLAS and by no argument of the driver's encoders; 350 copies were with it
// what they were without. [measured H200]
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <variant>

#include "base/bytes.h"

namespace xtrace::replay::interp::value {

// What hardware reads of a map; the driver's CUtensorMap is twice as long, cuBLAS has its own maps 64 bytes apart.
constexpr uint32_t tensor_map_bytes = 64, most_dimensions = 5;
constexpr uint32_t granule_bytes = 16;  // what a copy is made of

enum class TensorType : uint8_t { u8, u16, u32, s32, u64, s64, f16, f32, f32_ftz, f64, bf16 };  // as the map codes them

struct TensorMap {
  uint64_t address = 0;
  uint32_t rank = 1;
  TensorType type = TensorType::u8;
  std::array<uint64_t, most_dimensions> extent{};  // elements
  std::array<uint64_t, most_dimensions> stride{};  // bytes; of dimension 0: an element
  std::array<uint32_t, most_dimensions> box{};     // elements, steps included
  std::array<uint32_t, most_dimensions> step{};    // dimension 0 takes no notice of its own
  uint32_t swizzle_bytes = 0;                      // 0, 32, 64, 128
  bool fill_nan = false;                           // outside of the tensor: 0x7ff7 in every 16 bits, else zeros
  bool tf32 = false;                               // loads round to 10 bits of fraction

  bool operator==(const TensorMap&) const = default;
  uint32_t element_bytes() const { return static_cast<uint32_t>(stride[0]); }
  // Elements that a copy moves along a dimension.
  uint32_t count(unsigned d) const { return d == 0 ? box[0] : (box[d] + step[d] - 1) / step[d]; }
  uint32_t row_bytes() const { return box[0] * element_bytes(); }
  // From one row of the box to the next in shared memory: rows of a swizzled box have the width of the swizzle.
  uint32_t pitch() const { return swizzle_bytes != 0 ? swizzle_bytes : row_bytes(); }
  uint32_t rows() const;
  // What a load tells its barrier: the bytes of the box, those outside of the tensor and without the gaps between rows.
  uint32_t box_bytes() const { return rows() * row_bytes(); }
};

// Why the map can not be used, or the map. `bytes` are tensor_map_bytes.
std::variant<TensorMap, std::string> parse_tensor_map(ByteView bytes);

using Coordinates = std::array<int32_t, most_dimensions>;

// Why the hardware refuses these coordinates; nullptr when it does not.
const char* bad_coordinates(const TensorMap& map, const Coordinates& at, bool load);

// 16 bytes of a box. Of them the first `inside` lie in the tensor, at `global`; 0: none do.
struct Granule {
  uint32_t shared = 0;  // address, with the swizzle applied
  uint64_t global = 0;
  uint32_t inside = 0;  // bytes
};

// Of a row of a box: from the tensor's address, without the first dimension; and whether it lies in the tensor in all others.
struct RowPlace {
  uint64_t offset = 0;
  bool inside = true;
};
inline RowPlace place_of_row(const TensorMap& map, const Coordinates& at, uint32_t row) {
  RowPlace place;
  for (unsigned d = 1; d < map.rank; ++d) {
    const int64_t position = at[d] + int64_t{row % map.count(d)} * map.step[d];
    row /= map.count(d);
    place.inside = place.inside && position >= 0 && static_cast<uint64_t>(position) < map.extent[d];
    place.offset += static_cast<uint64_t>(position) * map.stride[d];
  }
  return place;
}

// f(Granule) for all of a box whose shared memory begins at `shared`. Coordinates are not bad.
template <typename F>
void each_granule(const TensorMap& map, const Coordinates& at, uint32_t shared, F f) {
  const uint32_t per_granule = granule_bytes / map.element_bytes(), rows = map.rows(), pitch = map.pitch();
  for (uint32_t row = 0; row < rows; ++row) {
    const auto [offset, inside] = place_of_row(map, at, row);
    for (uint32_t g = 0; g < map.row_bytes() / granule_bytes; ++g) {
      const int64_t first = at[0] + int64_t{g} * per_granule;
      Granule out;
      out.shared = shared + row * pitch + g * granule_bytes;
      if (map.swizzle_bytes != 0) out.shared ^= (out.shared >> 7 & (map.swizzle_bytes / granule_bytes - 1)) << 4;
      out.global = map.address + offset + static_cast<uint64_t>(first) * map.element_bytes();
      if (inside && first >= 0 && static_cast<uint64_t>(first) < map.extent[0])
        out.inside = static_cast<uint32_t>(std::min<uint64_t>(per_granule, map.extent[0] - static_cast<uint64_t>(first))) *
                     map.element_bytes();
      f(out);
    }
  }
}

// f(address, bytes): of each row of the box what lies in the tensor, as far as any of it does; what granules hold, row by row.
template <typename F>
void each_row(const TensorMap& map, const Coordinates& at, F f) {
  const int64_t per_granule = granule_bytes / map.element_bytes();
  // Granules that begin in front of the tensor lie outside.
  const int64_t first = at[0] >= 0 ? at[0] : at[0] + (-int64_t{at[0]} + per_granule - 1) / per_granule * per_granule;
  const int64_t last = std::min<int64_t>(at[0] + int64_t{map.box[0]}, static_cast<int64_t>(map.extent[0]));
  if (first >= last) return;
  for (uint32_t row = 0; row < map.rows(); ++row) {
    const auto [offset, inside] = place_of_row(map, at, row);
    if (inside) f(map.address + offset + static_cast<uint64_t>(first) * map.element_bytes(), static_cast<uint32_t>(last - first) * map.element_bytes());
  }
}

// What arrives in shared memory of a granule whose first `inside` bytes are `from`.
std::array<std::byte, granule_bytes> loaded_granule(const TensorMap& map, const std::byte* from, uint32_t inside);

// Codes of the reduction in UTMAREDG. [nvdisasm 13.0]
enum class TensorReduction : uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor };

// `to` becomes to OP from, all elements of the granule. False: this operation has no such type.
bool reduce_granule(const TensorMap& map, TensorReduction op, std::byte* to, const std::byte* from);

}  // namespace xtrace::replay::interp::value
