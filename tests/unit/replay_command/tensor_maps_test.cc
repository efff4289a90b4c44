// Tensor maps of a launch: where they are found, and which boxes they make. Numbers are worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tensor_maps/cases.h"
#include "tools/xtrace/replay/tensor_maps.h"

namespace xtrace::cli {
namespace {

using ::testing::HasSubstr;
using trace::Box;
using trace::TensorMaps;

constexpr uint64_t memory = 0x7f00'0000'0000, tensor = 0x7100'0000'0000, bank = 0x7ff4'0000'0000;
constexpr uint32_t parameters_at = 0x210;

// 20 x 6 words in rows of 96 bytes, boxes of 8 x 4.
tensor_maps::Case words() {
  tensor_maps::Case c;
  c.kind = tensor_maps::Kind::load, c.type = 2, c.rank = 2, c.address = tensor;
  c.dim[0] = 20, c.dim[1] = 6, c.stride[0] = 96, c.box[0] = 8, c.box[1] = 4;
  return c;
}
Bytes map_of(const tensor_maps::Case& c) {
  Bytes bytes;
  for (const uint64_t w : tensor_maps::encoded(c)) {
    bytes.resize(bytes.size() + sizeof w);
    write_at(std::span(bytes), bytes.size() - sizeof w, w);
  }
  return bytes;
}

struct Asked {
  Asked() {
    access.form = wire::Access::Form::tensor;
    what.dimensions = 2;
  }
  TensorMaps::Found at(TensorMaps& maps, uint64_t map, int32_t x, int32_t y) {
    what.map = map;
    what.at = {x, y};
    return maps.box(access, what);
  }
  wire::Access access;
  trace::WarpAccess what;
};

// A map at 0x100 of the first region; the second is another piece of memory.
replay::LaunchImage in_memory() {
  replay::LaunchImage launch;
  launch.record.regions.resize(2);
  launch.before = {Bytes(0x200), Bytes(0x100)};
  const Bytes map = map_of(words());
  std::copy(map.begin(), map.end(), launch.before[0].begin() + 0x100);
  return launch;
}

TEST(TensorMaps, BoxesInsideAndOverTheEdges) {
  const replay::LaunchImage launch = in_memory();
  LaunchTensorMaps maps(launch, parameters_at);
  maps.set_regions({memory, memory + 0x10000});
  Asked ask;
  const auto rows = [&](int32_t x, int32_t y) {
    const auto found = ask.at(maps, memory + 0x100, x, y);
    const Box* box = std::get_if<Box>(&found);
    EXPECT_NE(box, nullptr);
    EXPECT_EQ(box->bytes, 128u);
    EXPECT_EQ(box->shared_bytes, 128u);
    std::vector<std::pair<uint64_t, uint64_t>> out;
    for (const auto& r : box->rows) out.push_back({r.begin - tensor, r.end - r.begin});
    return out;
  };
  using Rows = std::vector<std::pair<uint64_t, uint64_t>>;
  EXPECT_EQ(rows(4, 1), (Rows{{112, 32}, {208, 32}, {304, 32}, {400, 32}}));
  EXPECT_EQ(rows(16, 4), (Rows{{448, 16}, {544, 16}})) << "over the right and the lower edge";
  EXPECT_EQ(rows(-4, -3), (Rows{{0, 16}})) << "over the left and the upper edge";
  EXPECT_EQ(rows(20, 0), Rows());
  EXPECT_EQ(rows(0, 6), Rows());
  EXPECT_EQ(maps.text(memory + 0x100), "0x7f0000000100: 20x6 u32 at 0x710000000000, boxes of 8x4");
}

TEST(TensorMaps, RowsThatFollowEachOtherAreOne) {
  replay::LaunchImage launch;
  tensor_maps::Case c = words();
  c.dim[0] = 8, c.stride[0] = 32;
  launch.record.regions.resize(1);
  launch.before = {map_of(c)};
  LaunchTensorMaps maps(launch, parameters_at);
  maps.set_regions({memory});
  Asked ask;
  const auto found = ask.at(maps, memory, 0, 1);
  ASSERT_TRUE(std::holds_alternative<Box>(found));
  ASSERT_EQ(std::get<Box>(found).rows.size(), 1u);
  EXPECT_EQ(std::get<Box>(found).rows[0].end - std::get<Box>(found).rows[0].begin, 128u);
}

TEST(TensorMaps, AmongTheParameters) {
  replay::LaunchImage launch;
  const Bytes map = map_of(words());
  Bytes& params = launch.record.param_block;
  params.resize(0x70 + 0x200);
  std::copy(map.begin(), map.end(), params.begin() + 0x70);   // at 0x280 of the bank
  LaunchTensorMaps maps(launch, parameters_at);
  Asked ask;
  EXPECT_TRUE(std::holds_alternative<Box>(ask.at(maps, bank + 0x280, 0, 0)));
  const auto why = [&](uint64_t at) {
    const auto found = ask.at(maps, at, 0, 0);
    const auto* no = std::get_if<TensorMaps::NotKnown>(&found);
    return no == nullptr ? "" : no->why;
  };
  EXPECT_THAT(why(bank + 0x2c0), HasSubstr("16"));   // zeros
  EXPECT_EQ(maps.text(bank + 0x2c0), "0x7ff4000002c0");
  for (const uint64_t offset : {0x1c0u, 0x480u, 0x10200u, 0x10480u})
    EXPECT_EQ(why(bank + offset), "it is neither in recorded memory nor among the parameters") << offset;
}

TEST(TensorMaps, WhatIsNotKnownAndWhatCanNotBe) {
  replay::LaunchImage launch = in_memory();
  launch.after = launch.before;
  LaunchTensorMaps maps(launch, parameters_at);
  maps.set_regions({memory, memory + 0x10000});
  Asked ask;
  const auto why = [&](uint64_t at, int32_t x = 0, int32_t y = 0) -> std::string {
    const auto found = ask.at(maps, at, x, y);
    if (const auto* no = std::get_if<TensorMaps::NotKnown>(&found)) return no->why;
    const auto* never = std::get_if<TensorMaps::Impossible>(&found);
    return never == nullptr ? "" : "never: " + never->what;
  };
  EXPECT_EQ(why(memory + 0x100), "");
  EXPECT_EQ(why(memory + 0x1d0), "it reaches over the end of a piece of recorded memory");
  EXPECT_THAT(why(memory + 0x80), HasSubstr("16"));   // zeros: rows of one byte
  EXPECT_EQ(why(memory + 0x100, 1), "never: coordinate 0 is no multiple of 16 bytes");
  ask.access.kind = wire::Access::Kind::store;
  EXPECT_EQ(why(memory + 0x100, 0, -1), "never: a store has a negative coordinate");
  ask.access.kind = wire::Access::Kind::prefetch;
  EXPECT_EQ(why(memory + 0x100, 0, -1), "");
  ask.access.kind = wire::Access::Kind::load;
  ask.what.dimensions = 3;
  EXPECT_EQ(why(memory + 0x100), "never: a box of 3 dimensions through a tensor map of 2");
  ask.what.dimensions = 2;
  ask.access.pixels = true;
  EXPECT_EQ(why(memory + 0x100), "one of pixels (im2col) is not modelled");
  ask.access.pixels = false;
  launch.after[0][0x110] = std::byte{0x55};
  maps.set_regions({memory, memory + 0x10000});
  EXPECT_EQ(why(memory + 0x100), "the launch changes it");
}

}  // namespace
}  // namespace xtrace::cli
