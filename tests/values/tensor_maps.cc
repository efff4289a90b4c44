#include "tests/values/tensor_maps.h"

#include "tests/tensor_maps/cases.h"

namespace xtrace::values {
namespace {

// Elements of 4 bytes: 1,024 bytes without gaps, in boxes of 256.
struct Shape {
  uint32_t extent[5], box[5];
};
constexpr Shape shapes[] = {
    {{256, 1, 1, 1, 1}, {64, 1, 1, 1, 1}}, {{8, 32, 1, 1, 1}, {8, 8, 1, 1, 1}}, {{8, 4, 8, 1, 1}, {8, 2, 4, 1, 1}},
    {{8, 2, 4, 4, 1}, {8, 2, 2, 2, 1}},    {{8, 2, 2, 4, 2}, {8, 2, 1, 2, 2}},
};
// Of pixels: channels, the pixels' own extents, images. Boxes are 8 pixels with all channels; they start inside of the extents, which
// are as large as the bounding box.
constexpr Shape pixel_shapes[] = {
    {{8, 4, 8, 1, 1}, {8, 1, 1, 1, 1}}, {{8, 4, 4, 2, 1}, {8, 1, 1, 1, 1}}, {{4, 4, 4, 4, 1}, {4, 1, 1, 1, 1}}};
constexpr uint32_t element = 4, words = 2, box_bytes = 256;  // `words`: CU_TENSOR_MAP_DATA_TYPE_UINT32

std::array<uint64_t, 16> map_of(unsigned rank, bool pixels, uint64_t address, bool second) {
  const Shape& s = pixels ? pixel_shapes[rank - 3] : shapes[rank - 1];
  tensor_maps::Case c;
  c.type = words;
  c.rank = rank;
  uint64_t stride = element;
  for (unsigned d = 0; d < rank; ++d) {
    c.dim[d] = s.extent[d];
    c.box[d] = s.box[d];
    if (d > 0) c.stride[d - 1] = stride;
    if (d + 1 < rank) stride *= s.extent[d];
  }
  c.address = address;
  if (second) {
    const uint64_t steps = rank == 1 ? 32 : 1;  // addresses are multiples of 16
    const bool room = c.dim[rank - 1] > steps;
    if (room) c.dim[rank - 1] -= steps;
    c.address += room ? stride * steps : 256;
  }
  std::array<uint64_t, 16> map = tensor_maps::encoded(c);
  map[8] = box_bytes;  // [cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col of driver 580.159.04]
  map[9] = 0x10;
  if (pixels) {
    map[1] |= 1;
    map[7] = uint64_t{7} << 32;
    map[8] = 8 * c.box[0] * element;
  }
  return map;
}

}  // namespace

uint32_t map_of(const sass::RawInst& w) {
  if ((sass::opcode13(w) & 0xff) == 0xb9) return map_at(1, false);  // UTMACCTL
  return map_at(1 + static_cast<unsigned>(get_bits(w, bits(81, 79))), get_bits(w, bits(82, 82)) != 0);
}

Bytes tensor_maps() {
  Bytes all(size_t{warps} * maps_bytes);
  for (unsigned w = 0; w < warps; ++w)
    for (unsigned second = 0; second < 2; ++second)
      for (unsigned rank = 1; rank <= 5; ++rank)
        for (const bool pixels : {false, true}) {
          if (pixels && rank < 3) continue;
          write_at(std::span(all), w * maps_bytes + second * maps_bytes / 2 + map_at(rank, pixels),
                   map_of(rank, pixels, area_address + uint64_t{w} * area_bytes, second != 0));
        }
  return all;
}

}  // namespace xtrace::values
