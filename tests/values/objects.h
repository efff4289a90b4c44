// Textures and surfaces of classes texture and surface: objects of the GPU, made by the driver. Of each shape there are two, with
// other contents. Words name a shape by its code in bits [63:61].
#pragma once

#include <cstdint>

#include "base/status.h"
#include "tests/values/states.h"

namespace xtrace::values {

// Codes. [nvdisasm 13.5]
inline constexpr unsigned texture_shapes = 8;  // 1D 2D 3D CUBE ARRAY_1D ARRAY_2D - ARRAY_CUBE
inline constexpr unsigned surface_shapes = 6;  // 1D 1D_BUFFER 1D_ARRAY 2D 2D_ARRAY 3D
inline constexpr unsigned texture_2d = 1, surface_2d = 3;
inline constexpr uint32_t surface_texels = 1024, surface_rows = 2 * warps;  // of 4 bytes; rows of 2D

// Handles of the first and the second of each; 0 where there is none (1D_BUFFER, code 6).
struct Objects {
  uint64_t texture[texture_shapes][2] = {}, surface[surface_shapes][2] = {};
};
// Of the frame's launch, in the bank of constants before the parameters: blockDim.x is 32 and blockDim.y 1, which are the handles of
// the first texture of two dimensions and the first surface of two.
inline constexpr uint32_t texture_in_bank = 0, surface_in_bank = 4;
// Offset in the block of parameters at which the handle of the first lies.
constexpr uint32_t handle_parameter(bool surface, unsigned shape) {
  return parameter_handles + 8 * (surface ? texture_shapes + shape : shape);
}

// Made once in a process, in the context that is current. unsupported in a build without the driver.
Result<const Objects*> objects();

}  // namespace xtrace::values
