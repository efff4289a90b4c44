#include "tests/random/launches.h"

#include <zstd.h>

#include <algorithm>
#include <cstdio>

#include "base/file.h"
#include "base/hash.h"
#include "instrument/cubin/image.h"

namespace xtrace::random_kernels {
namespace {

// As generate.py has them.
constexpr uint32_t ctas = 2, out_words = 32, own_words = 8;
constexpr uint64_t in_bytes = 64 << 10, common_bytes = 4 << 10;
constexpr uint64_t variables_from = 0x7e56b0000000, variable_distance = 2 << 20;
constexpr uint64_t addresses[] = {0x7e5670000000, 0x7e5680000000, 0x7e5690000000, 0x7e56a0000000};

struct Shape {
  unsigned number = 0, x = 0, y = 0;
};
bool parse(const std::string& kernel, Shape& s) {
  unsigned seed = 0;
  int end = 0;
  return std::sscanf(kernel.c_str(), "r%u_%u_%u_%u%n", &seed, &s.number, &s.x, &s.y, &end) == 4 &&
         static_cast<size_t>(end) == kernel.size();
}

// A word that is small, special as a number, or anything: a fixed function of its place.
uint32_t word_at(uint64_t place) {
  uint64_t v = (place + 1) * 0x9e3779b97f4a7c15;
  v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9;
  v = (v ^ v >> 27) * 0x94d049bb133111eb;
  v ^= v >> 31;
  const auto word = static_cast<uint32_t>(v);
  static constexpr uint32_t special[] = {
      0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7fffffff, 0x00000001, 0x00800000,
      0x3f800000, 0xbf800000, 0x4b800000, 0x4f000000, 0x3c003c00, 0x7c00fc00, 0x0001ffff, 0x7ff00000,
      0xffffffff, 0x40490fdb, 0x477fe000, 0x3f803f80, 0x80018000, 0xcf000000, 0x7e007e00, 0x5f000000};
  switch (v >> 32 & 7) {
    case 0:
      return special[(v >> 40) % std::size(special)];
    case 1:
      return word & 0xff;
    case 2:  // a float of middling size
      return (word & 0x807fffff) | (112 + (v >> 40) % 32) << 23;
    case 3:  // two halves of middling size
      return (word & 0x83ff83ff) | (10 + (v >> 40) % 10) << 10 | (10 + (v >> 48) % 10) << 26;
    default:
      return word;
  }
}

Bytes words(uint64_t bytes, uint64_t from) {
  Bytes b;
  for (uint64_t k = 0; k < bytes / 4; ++k) append(b, word_at(from + k));
  return b;
}

}  // namespace

Result<Bytes> read_cubin(const std::filesystem::path& file) {
  XT_TRY(Bytes packed, read_file(file));
  const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size == ZSTD_CONTENTSIZE_ERROR) return packed;   // not packed
  Bytes cubin(size == ZSTD_CONTENTSIZE_UNKNOWN ? 0 : size);
  if (ZSTD_decompress(cubin.data(), cubin.size(), packed.data(), packed.size()) != size) return bad_input("{} is damaged", file.string());
  return cubin;
}

Result<std::vector<std::string>> kernels_of(ByteView cubin) {
  XT_TRY(const cubin::Image image, cubin::Image::parse(cubin));
  std::vector<std::pair<unsigned, std::string>> found;
  for (const std::string& name : image.kernels())
    if (Shape s; parse(name, s)) found.emplace_back(s.number, name);
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (auto& [number, name] : found) names.push_back(std::move(name));
  return names;
}

Result<replay::LaunchImage> launch_of(const Bytes& cubin, const std::string& kernel) {
  Shape s;
  if (!parse(kernel, s)) return bad_input("{} is not the name of a random kernel", kernel);
  replay::LaunchImage launch;
  bundle::LaunchRecord& r = launch.record;
  r.kernel = kernel;
  r.grid = {ctas, 1, 1};
  r.block = {s.x, s.y, 1};
  const uint64_t threads = uint64_t{ctas} * s.x * s.y;
  Bytes contents[regions];
  contents[in_region] = words(in_bytes, 0);
  contents[out_region].resize(threads * out_words * 4);
  contents[own_region] = words(threads * own_words * 4, 1 << 20);
  contents[common_region].resize(common_bytes);
  const auto parameter = [&](auto value) {
    r.params.push_back({static_cast<uint32_t>(r.param_block.size()), sizeof value});
    append(r.param_block, value);
  };
  for (size_t k = 0; k < regions; ++k) {
    bundle::Region region;
    region.kind = bundle::RegionKind::device;
    region.address = {addresses[k]};
    region.size = contents[k].size();
    r.regions.push_back(std::move(region));
    launch.before.push_back(std::move(contents[k]));
    parameter(addresses[k]);
  }
  parameter(int32_t{-1234567});
  parameter(uint32_t{0x9e3779b9});
  parameter(1.5f);
  r.param_block.resize(align_up(r.param_block.size(), 8));
  parameter(-2.75);
  parameter(uint64_t{0xfedcba9876543210});
  launch.code = cubin;
  // Tables of CUDA's own mathematical functions: variables of the module, with what it initialises them to.
  XT_TRY(const cubin::Image image, cubin::Image::parse(cubin));
  for (const cubin::Symbol& symbol : image.symbols()) {
    if (symbol.size == 0 || symbol.section >= image.sections().size()) continue;
    const cubin::Section& section = image.sections()[symbol.section];
    if (!section.name.starts_with(".nv.global.init") || section.data.size() < symbol.value + symbol.size) continue;
    bundle::Region region;
    region.kind = bundle::RegionKind::global;
    region.symbol = symbol.name;
    region.address = {variables_from + r.regions.size() * variable_distance};
    region.size = symbol.size;
    r.regions.push_back(std::move(region));
    const auto from = section.data.begin() + static_cast<std::ptrdiff_t>(symbol.value);
    launch.before.emplace_back(from, from + static_cast<std::ptrdiff_t>(symbol.size));
  }
  return launch;
}

std::string digest(const std::vector<Bytes>& contents) {
  Bytes all;
  for (size_t k = out_region; k < regions; ++k)
    all.insert(all.end(), contents[k].begin(), contents[k].end());
  return hash128(all).hex().substr(16);
}

Result<std::vector<Bytes>> run(replay::Backend& backend, const replay::LaunchImage& launch, ByteView cubin) {
  XT_TRY(const replay::ModuleHandle module, backend.load(cubin));
  XT_TRY_STATUS(backend.restore(module, replay::RestoreScope::all));
  XT_TRY(const replay::RunOutcome outcome, backend.run(module));
  if (!outcome.completed) return device("{}", outcome.failure);
  XT_TRY(std::vector<Bytes> contents, backend.read_regions(module));
  XT_TRY_STATUS(backend.unload(module));
  if (contents[in_region] != launch.before[in_region])
    return internal("{} wrote its input", launch.record.kernel);
  return contents;
}

}  // namespace xtrace::random_kernels
