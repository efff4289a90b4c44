// One value a lane, in a file. Most such vectors are base + lane * stride: these take a few bytes, whatever the number of
// lanes; of the others the differences from lane to lane are written.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "trace/varint.h"

namespace xtrace::trace {

using LaneValues = std::array<uint64_t, 32>;   // of lanes outside the mask: unspecified

enum class LaneShape : uint8_t { one = 0, affine = 1, differences = 2 };

// How the lanes of a mask that is not empty stand; `stride` of affine ones.
LaneShape shape_of(uint32_t mask, const LaneValues& values, int64_t& stride);
// `last`: the first lane's value the last time, which becomes this one's.
void put_lanes(std::string& out, LaneShape shape, uint32_t mask, const LaneValues& values, int64_t stride, uint64_t& last);
void take_lanes(VarintReader& in, LaneShape shape, uint32_t mask, LaneValues& values, uint64_t& last);

void put_u32(std::string& out, uint32_t v);
uint32_t take_u32(VarintReader& in);
uint8_t take_u8(VarintReader& in);

}  // namespace xtrace::trace
