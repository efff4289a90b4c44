#include "trace/lane_values.h"

#include <bit>
#include <cstring>

namespace xtrace::trace {
namespace {

unsigned first_lane(uint32_t mask) { return static_cast<unsigned>(std::countr_zero(mask)); }

// The stride with which the values of all lanes in the mask are base + lane * stride; false: there is none.
bool is_affine(uint32_t mask, const LaneValues& a, int64_t& stride) {
  stride = 0;
  const uint32_t rest = mask & (mask - 1);
  if (rest == 0) return true;
  const unsigned first = first_lane(mask), second = first_lane(rest);
  const auto step = static_cast<int64_t>(a[second] - a[first]);
  const auto lanes = static_cast<int64_t>(second - first);
  if (step % lanes != 0) return false;
  stride = step / lanes;
  for (uint32_t m = rest; m != 0; m &= m - 1) {
    const unsigned lane = first_lane(m);
    if (a[lane] != a[first] + static_cast<uint64_t>(stride) * (lane - first)) return false;
  }
  return true;
}

}  // namespace

void put_u32(std::string& out, uint32_t v) { out.append(reinterpret_cast<const char*>(&v), sizeof v); }
uint32_t take_u32(VarintReader& in) {
  uint32_t v = 0;
  if (const auto b = in.bytes(sizeof v); b.size() == sizeof v) std::memcpy(&v, b.data(), sizeof v);
  return v;
}
uint8_t take_u8(VarintReader& in) {
  const auto b = in.bytes(1);
  return b.empty() ? uint8_t{0} : static_cast<uint8_t>(b[0]);
}

LaneShape shape_of(uint32_t mask, const LaneValues& values, int64_t& stride) {
  return !is_affine(mask, values, stride) ? LaneShape::differences : stride == 0 ? LaneShape::one : LaneShape::affine;
}

void put_lanes(std::string& out, LaneShape shape, uint32_t mask, const LaneValues& values, int64_t stride, uint64_t& last) {
  uint64_t at = values[first_lane(mask)];
  put_signed(out, static_cast<int64_t>(at - last));
  last = at;
  if (shape == LaneShape::affine) put_signed(out, stride);
  if (shape != LaneShape::differences) return;
  for (uint32_t m = mask & (mask - 1); m != 0; m &= m - 1) {
    const uint64_t next = values[first_lane(m)];
    put_signed(out, static_cast<int64_t>(next - at));
    at = next;
  }
}

void take_lanes(VarintReader& in, LaneShape shape, uint32_t mask, LaneValues& values, uint64_t& last) {
  const unsigned first = first_lane(mask);
  uint64_t at = last += static_cast<uint64_t>(in.signed_varint());
  const auto stride = static_cast<uint64_t>(shape == LaneShape::affine ? in.signed_varint() : 0);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const unsigned lane = first_lane(m);
    if (shape == LaneShape::differences && lane != first) at += static_cast<uint64_t>(in.signed_varint());
    values[lane] = shape == LaneShape::differences ? at : at + stride * (lane - first);
  }
}

}  // namespace xtrace::trace
