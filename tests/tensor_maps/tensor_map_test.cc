// Copies through tensor maps on the interpreter, against what an H200 made of the same: h200.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/file.h"
#include "replay/interp/interp_backend.h"
#include "replay/interp/value/tensor_map.h"
#include "tests/tensor_maps/cases.h"
#include "tests/unit/interp/run_as_recorded.h"
#include "tests/unit/interp/traced_mem.h"

namespace xtrace::tensor_maps {
namespace {

namespace value = replay::interp::value;

constexpr size_t driver_bytes = 128;  // what the driver fills of a map; the hardware's are the first 64

struct Row {
  Case c;
  Bytes map;
  uint64_t digest = 0;
  std::string text;
};

std::vector<Row> rows() {
  std::vector<Row> out;
  std::ifstream in(XTRACE_SOURCE_DIR "/tests/tensor_maps/h200.txt");
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t digest = line.rfind(' '), map = line.rfind(' ', digest - 1);
    const auto c = from_row(std::string_view(line).substr(0, map));
    EXPECT_TRUE(c) << line;
    Row row{*c, Bytes(driver_bytes), std::stoull(line.substr(digest + 1), nullptr, 16), line.substr(0, map)};
    std::string hex = line.substr(map + 1, digest - map - 1);
    hex.resize(2 * driver_bytes, '0');
    for (size_t w = 0; w < 16; ++w) write_at<uint64_t>(row.map, 8 * w, std::stoull(hex.substr(16 * w, 16), nullptr, 16));
    out.push_back(std::move(row));
  }
  return out;
}

template <typename T>
void append(Bytes& to, T v) {
  to.resize(to.size() + sizeof v);
  write_at<T>(to, to.size() - sizeof v, v);
}

constexpr uint64_t out_address = 0x7000'0000'0000, out_bytes = 1 << 16;

// Of the multicast kernel: a box of 32 x 4 bytes to the CTAs of a mask.
Case multicast_case() {
  Case c;
  c.kind = Kind::load, c.type = 0, c.rank = 2, c.address = 0x7100'0000'0000;
  c.dim[0] = 64, c.dim[1] = 8, c.stride[0] = 64, c.box[0] = 32, c.box[1] = 4;
  return c;
}
constexpr uint32_t multicast_bytes = 32 * 4;
replay::LaunchImage multicast_launch(const Bytes& cubin, uint32_t mask) {
  const Case c = multicast_case();
  replay::LaunchImage launch;
  launch.code = cubin;
  bundle::LaunchRecord& r = launch.record;
  r.kernel = "tensor_multicast";
  r.grid = {2, 1, 1}, r.block = {64, 1, 1}, r.cluster = {2, 1, 1};
  Bytes params(0x70);  // the map is aligned to 128 bytes of the constant bank
  for (const uint64_t w : encoded(c)) append(params, w);
  append(params, multicast_bytes), append(params, mask), append(params, out_address);
  r.param_block = params;
  Bytes tensor(tensor_bytes(c));
  for (uint64_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<std::byte>(i % 61);
  r.regions.resize(2);
  r.regions[0].address = DevPtr{out_address}, r.regions[0].size = out_bytes;
  r.regions[1].address = DevPtr{c.address}, r.regions[1].size = tensor.size();
  launch.before = {Bytes(out_bytes), tensor};
  return launch;
}

// The launch that measure_tensor_maps made of the row.
replay::LaunchImage launch_of(const Row& row, const Bytes& cubin) {
  constexpr const char* kernels[] = {"tensor_load", "tensor_store", "tensor_reduce"};
  replay::LaunchImage launch;
  launch.code = cubin;
  bundle::LaunchRecord& r = launch.record;
  r.kernel = kernels[static_cast<unsigned>(row.c.kind)];
  r.grid = {1, 1, 1}, r.block = {128, 1, 1};
  r.dynamic_shared_bytes = 16 * 1024 + 4096;
  Bytes params(0x70);  // the map is aligned to 128 bytes of the constant bank
  params.insert(params.end(), row.map.begin(), row.map.end());
  append(params, row.c.rank), append(params, row.c.operation);
  for (const int32_t at : row.c.at) append(params, at);
  append(params, row.c.offset), append(params, box_bytes(row.c)), append(params, shared_bytes(row.c));
  append(params, out_address);
  r.param_block = params;
  Bytes tensor(tensor_bytes(row.c));
  for (uint64_t i = 0; i < tensor.size(); ++i) tensor[i] = std::byte{tensor_byte(i, row.c.type)};
  r.regions.resize(2);
  r.regions[0].address = DevPtr{out_address}, r.regions[0].size = out_bytes;
  r.regions[1].address = DevPtr{row.c.address}, r.regions[1].size = tensor.size();
  launch.before = {Bytes(out_bytes), tensor};
  return launch;
}

TEST(TensorMap, CopiesAreThoseOfTheHardware) {
  const auto cubin = read_file(XTRACE_SOURCE_DIR "/tests/tensor_maps/kernels.cubin");
  ASSERT_TRUE(cubin);
  std::map<std::pair<Kind, uint32_t>, unsigned> seen;
  for (const Row& row : rows()) {
    const replay::LaunchImage launch = launch_of(row, *cubin);
    SCOPED_TRACE(row.text);
    std::vector<Bytes> regions;
    ASSERT_NO_FATAL_FAILURE(interp_test::run_original(launch, regions));
    const Bytes& left = regions[row.c.kind == Kind::load ? 0 : 1];
    const auto* bytes = reinterpret_cast<const uint8_t*>(left.data());
    EXPECT_EQ(read_at<uint32_t>(regions[0], 0, "status").value_or(1), 0u) << "the barrier was not complete";
    EXPECT_EQ(row.c.kind == Kind::load ? digest(bytes + 16, shared_bytes(row.c)) : digest(bytes, left.size()), row.digest);
    ++seen[{row.c.kind, row.c.type}];
  }
  EXPECT_EQ(seen.size(), 13u + 13u + 7u) << "loads and stores of every type, reductions of seven";
}

TEST(TensorMap, IsReadAsItWasMade) {
  for (const Row& row : rows()) {
    const auto parsed = value::parse_tensor_map(row.map);
    ASSERT_TRUE(std::holds_alternative<value::TensorMap>(parsed)) << std::get<std::string>(parsed);
    const auto& map = std::get<value::TensorMap>(parsed);
    EXPECT_EQ(map.address, row.c.address);
    ASSERT_EQ(map.rank, row.c.rank);
    EXPECT_EQ(map.element_bytes(), element_bytes(row.c.type));
    for (unsigned d = 0; d < map.rank; ++d) {
      EXPECT_EQ(map.extent[d], row.c.dim[d]);
      EXPECT_EQ(map.box[d], row.c.box[d]);
      EXPECT_EQ(map.step[d], row.c.step[d]);
      EXPECT_EQ(map.stride[d], d == 0 ? element_bytes(row.c.type) : row.c.stride[d - 1]);
    }
    EXPECT_EQ(map.swizzle_bytes, row.c.swizzle == 0 ? 0 : 16u << row.c.swizzle);
    EXPECT_EQ(map.fill_nan, row.c.fill != 0);
    EXPECT_EQ(map.tf32, row.c.type >= 11);
    // The other way round, as the programs of fixtures/ need it without a driver.
    const auto words = encoded(row.c);
    for (unsigned w = 0; w < words.size(); ++w)
      EXPECT_EQ(words[w], w == 8 || w == 9 ? 0 : *read_at<uint64_t>(row.map, 8 * w, "a word")) << w << " of " << row.text;
  }
}

TEST(TensorMap, RefusesWhatWasNotMeasured) {
  const Row row = rows().front();
  const auto refused = [&](size_t byte, uint8_t bits) {
    Bytes map = row.map;
    map[byte] |= std::byte{bits};
    const auto parsed = value::parse_tensor_map(map);
    return std::holds_alternative<std::string>(parsed) ? std::get<std::string>(parsed) : std::string();
  };
  EXPECT_EQ(refused(8, 1), "a map of pixels (im2col) is not modelled");
  EXPECT_EQ(refused(9, 0x10), "an interleaved tensor map is not modelled");
  for (const auto& [byte, bits] : std::vector<std::pair<size_t, uint8_t>>{{8, 0x0c}, {10, 0x80}, {31, 1}, {54, 0x80}})
    EXPECT_NE(refused(byte, bits), "") << byte;
}

// Maps of cuBLAS have it set; with it copies are what they are without.
TEST(TensorMap, Bit1OfTheSecondWordChangesNothing) {
  for (Row row : rows()) {
    const auto without = std::get<value::TensorMap>(value::parse_tensor_map(row.map));
    row.map[8] |= std::byte{2};
    const auto parsed = value::parse_tensor_map(ByteView(row.map).first(value::tensor_map_bytes));
    ASSERT_TRUE(std::holds_alternative<value::TensorMap>(parsed)) << row.text;
    EXPECT_EQ(std::get<value::TensorMap>(parsed), without) << row.text;
  }
}

// A load that reaches the CTAs of a mask, and no others.
TEST(TensorMap, MulticastReachesTheCtasOfTheMask) {
  const auto cubin = read_file(XTRACE_SOURCE_DIR "/tests/tensor_maps/multicast.cubin");
  ASSERT_TRUE(cubin);
  constexpr uint32_t bytes = multicast_bytes;
  for (const uint32_t mask : {1u, 2u, 3u}) {
    const replay::LaunchImage launch = multicast_launch(*cubin, mask);
    const Bytes& tensor = launch.before[1];
    std::vector<Bytes> left;
    ASSERT_NO_FATAL_FAILURE(interp_test::run_original(launch, left));
    for (uint32_t rank = 0; rank < 2; ++rank)
      for (uint32_t i = 0; i < bytes; ++i)
        ASSERT_EQ(left[0][rank * bytes + i], (mask >> rank & 1) != 0 ? tensor[i / 32 * 64 + i % 32] : std::byte{0xee})
            << "mask " << mask << ", CTA " << rank << ", byte " << i;
  }
}

// What granules hold, row by row.
TEST(TensorMap, RowsAreTheGranules) {
  size_t in_part = 0;
  for (const Row& row : rows()) {
    const auto map = std::get<value::TensorMap>(value::parse_tensor_map(row.map));
    value::Coordinates at{};
    for (unsigned d = 0; d < map.rank; ++d) at[d] = row.c.at[d];
    std::map<uint64_t, uint32_t> granules, in_rows;   // by address
    uint64_t inside = 0;
    value::each_granule(map, at, 0, [&](const value::Granule& g) {
      inside += g.inside;
      for (uint32_t k = 0; k < g.inside; ++k) ++granules[g.global + k];
    });
    value::each_row(map, at, [&](uint64_t address, uint32_t bytes) {
      for (uint32_t k = 0; k < bytes; ++k) ++in_rows[address + k];
    });
    EXPECT_EQ(in_rows, granules) << row.text;
    in_part += inside != 0 && inside != map.box_bytes();
  }
  EXPECT_GT(in_part, 50u);
}

// Under `mem` every copy leaves what the interpreter took from the same registers of the original code.
TEST(TensorMap, MemRecordsWhatIsCopied) {
  const auto cubin = read_file(XTRACE_SOURCE_DIR "/tests/tensor_maps/kernels.cubin");
  ASSERT_TRUE(cubin);
  const auto traced = [](replay::LaunchImage launch, const std::string& name) {
    ASSERT_NO_FATAL_FAILURE(interp_test::run_original(launch, launch.after));
    interp_test::traced_mem::Check check{launch, name, true};
    check.whole = false;
    ASSERT_NO_FATAL_FAILURE(check.trace(1, false, false, false, true));
    EXPECT_EQ(check.copies, 1u);
  };
  constexpr size_t one_in = 16;
  const std::vector<Row> all = rows();
  std::map<std::pair<Kind, uint32_t>, unsigned> seen;
  for (size_t k = 0; k < all.size(); ++k) {
    if (k % one_in != 0 && seen[{all[k].c.kind, all[k].c.rank}] != 0) continue;
    ++seen[{all[k].c.kind, all[k].c.rank}];
    SCOPED_TRACE(all[k].text);
    traced(launch_of(all[k], *cubin), "boxes");
  }
  EXPECT_EQ(seen.size(), 11u) << "loads and stores of one to five dimensions, reductions of two";
  const auto multicast = read_file(XTRACE_SOURCE_DIR "/tests/tensor_maps/multicast.cubin");
  ASSERT_TRUE(multicast);
  for (const uint32_t mask : {1u, 2u, 3u}) {
    SCOPED_TRACE(mask);
    traced(multicast_launch(*multicast, mask), "multicast");
  }
}

TEST(TensorMap, CoordinatesThatTheHardwareRefuses) {
  const auto all = rows();
  const auto store = std::find_if(all.begin(), all.end(), [](const Row& r) { return r.c.kind == Kind::store && r.c.rank >= 2; });
  ASSERT_NE(store, all.end());
  const auto cubin = read_file(XTRACE_SOURCE_DIR "/tests/tensor_maps/kernels.cubin");
  ASSERT_TRUE(cubin);
  const auto failure = [&](const Row& row) {
    const replay::LaunchImage image = launch_of(row, *cubin);
    const auto backend = replay::make_interp_backend();
    EXPECT_TRUE(backend->prepare(image));
    const auto module = backend->load(image.code);
    const auto outcome = backend->run(*module);
    return outcome ? outcome->failure : outcome.error().to_string();
  };
  Row row = *store;
  row.c.at[1] = -1;
  EXPECT_NE(failure(row).find("a store has a negative coordinate"), std::string::npos) << failure(row);
  row = *store;
  row.c.at[0] = 17;
  EXPECT_NE(failure(row).find("coordinate 0 is no multiple of 16 bytes"), std::string::npos) << failure(row);
}

}  // namespace
}  // namespace xtrace::tensor_maps
