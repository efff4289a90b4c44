// The tensor maps of class tensor: for every warp two of each shape over its area of global memory, the second over all of it
// but the first step of the outermost dimension.
#pragma once

#include "base/bytes.h"
#include "instrument/sass/inst.h"
#include "tests/values/states.h"

namespace xtrace::values {

// Where the map of so many dimensions lies among a warp's; the three of pixels (im2col, 3 to 5 dimensions) lie behind them.
constexpr uint32_t map_at(unsigned rank, bool pixels) { return 128 * (pixels ? rank + 2 : rank - 1); }

uint32_t map_of(const sass::RawInst& w);  // for the word of a copy

Bytes tensor_maps();  // of all warps, for maps_address

}  // namespace xtrace::values
