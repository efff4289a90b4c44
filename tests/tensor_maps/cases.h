// Copies through tensor maps: what is drawn, what a row of a file says, what memory holds before. Shared by the program that
// runs them on a GPU and by the test that repeats them on the interpreter.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xtrace::tensor_maps {

enum class Kind : uint8_t { load, store, reduce };

// The arguments of cuTensorMapEncodeTiled, numbers as in cuda.h, and of the copy.
struct Case {
  Kind kind = Kind::load;
  uint32_t type = 0, rank = 1;
  uint64_t address = 0;                    // of the tensor, on the device where it was measured
  uint64_t dim[5] = {1, 1, 1, 1, 1};       // elements
  uint64_t stride[4] = {};                 // bytes, of dimensions 1 to 4
  uint32_t box[5] = {1, 1, 1, 1, 1};       // elements
  uint32_t step[5] = {1, 1, 1, 1, 1};      // traversal strides
  uint32_t interleave = 0, swizzle = 0, l2 = 0, fill = 0;
  int32_t at[5] = {};                      // coordinates
  uint32_t offset = 0;                     // of the box in shared memory, behind a multiple of 1,024
  uint32_t operation = 0;                  // Kind::reduce: of kernels.cu
};

unsigned element_bytes(uint32_t type);
uint64_t tensor_bytes(const Case& c);    // from the address to the end of the last element
uint32_t box_bytes(const Case& c);       // in shared memory
uint32_t shared_bytes(const Case& c);    // what kernels.cu fills, a multiple of 16
std::optional<Case> draw(Kind kind, uint64_t seed);  // nullopt: this seed gives none

// Byte i of shared memory, and of the tensor, before the copy.
inline uint8_t shared_byte(uint32_t i) { return static_cast<uint8_t>((i * 2654435761u) >> 24); }
uint8_t tensor_byte(uint64_t i, uint32_t type);

uint64_t digest(const uint8_t* bytes, uint64_t n);

// The 16 words that cuTensorMapEncodeTiled makes of the case; [8] and [9], which say how large the tensor is, stay zero.
std::array<uint64_t, 16> encoded(const Case& c);

// "load 2 3 7f..00 ..." and back; nullopt when it is no such row.
std::string to_row(const Case& c);
std::optional<Case> from_row(std::string_view row);

}  // namespace xtrace::tensor_maps
