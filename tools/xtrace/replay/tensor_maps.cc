#include "tools/xtrace/replay/tensor_maps.h"

#include <fmt/format.h>

#include <algorithm>

namespace xtrace::cli {

namespace value = replay::interp::value;
using TensorMaps = trace::TensorMaps;

namespace {

// Of constant banks in the generic address space: parameters are found by the low bits of their address, as the address of their bank is known to
// the GPU alone. [measured H200: maps of tensor_copy and of cuBLAS; the size of a bank]
constexpr uint64_t bank_alignment = 64 << 10;

}  // namespace

LaunchTensorMaps::Known LaunchTensorMaps::read(uint64_t address) const {
  const auto parse = [](ByteView bytes) -> Known {
    auto parsed = value::parse_tensor_map(bytes.first(value::tensor_map_bytes));
    if (auto* why = std::get_if<std::string>(&parsed)) return std::move(*why);
    return std::get<value::TensorMap>(parsed);
  };
  for (size_t i = 0; i < regions_.size() && i < launch_.before.size(); ++i) {
    const Bytes& before = launch_.before[i];
    if (address < regions_[i] || address - regions_[i] >= before.size()) continue;
    const uint64_t at = address - regions_[i];
    if (before.size() - at < value::tensor_map_bytes) return "it reaches over the end of a piece of recorded memory";
    const ByteView bytes = ByteView(before).subspan(at, value::tensor_map_bytes);
    if (i < launch_.after.size() && launch_.after[i].size() == before.size() &&
        !std::ranges::equal(bytes, ByteView(launch_.after[i]).subspan(at, value::tensor_map_bytes)))
      return "the launch changes it";
    return parse(bytes);
  }
  const Bytes& params = launch_.record.param_block;
  const uint64_t at = address % bank_alignment;
  if (at < parameters_at_ || at + value::tensor_map_bytes > parameters_at_ + params.size()) return "it is neither in recorded memory nor among the parameters";
  return parse(ByteView(params).subspan(at - parameters_at_));
}

const LaunchTensorMaps::Known& LaunchTensorMaps::map_at(uint64_t address) {
  const auto known = known_.find(address);
  return known != known_.end() ? known->second : known_.emplace(address, read(address)).first->second;
}

TensorMaps::Found LaunchTensorMaps::box(const wire::Access& access, const trace::WarpAccess& what) {
  if (access.pixels) return NotKnown{"one of pixels (im2col) is not modelled"};
  const Known& known = map_at(what.map);
  if (const auto* why = std::get_if<std::string>(&known)) return NotKnown{*why};
  const Map& map = std::get<Map>(known);
  if (map.rank != what.dimensions) return Impossible{fmt::format("a box of {} dimensions through a tensor map of {}", what.dimensions, map.rank)};
  value::Coordinates at{};
  std::copy(what.at.begin(), what.at.end(), at.begin());
  const bool reads = access.kind == wire::Access::Kind::load || access.kind == wire::Access::Kind::prefetch;
  if (const char* why = value::bad_coordinates(map, at, reads)) return Impossible{why};
  trace::Box box;
  box.bytes = map.box_bytes();
  box.shared_bytes = map.rows() * map.pitch();
  value::each_row(map, at, [&](uint64_t address, uint32_t bytes) {
    if (!box.rows.empty() && box.rows.back().end == address) box.rows.back().end += bytes;
    else box.rows.push_back({address, address + bytes});
  });
  std::sort(box.rows.begin(), box.rows.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return box;
}

std::string LaunchTensorMaps::text(uint64_t address) {
  constexpr const char* types[] = {"u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32 (ftz)", "f64", "bf16"};
  const Known& known = map_at(address);
  if (!std::holds_alternative<Map>(known)) return fmt::format("{:#x}", address);
  const Map& map = std::get<Map>(known);
  const auto product = [&](const auto& numbers) {
    std::string out;
    for (unsigned d = 0; d < map.rank; ++d) out += fmt::format("{}{}", d == 0 ? "" : "x", numbers[d]);
    return out;
  };
  std::string text = fmt::format("{:#x}: {} {} at {:#x}, boxes of {}", address, product(map.extent), types[static_cast<size_t>(map.type)], map.address, product(map.box));
  if (std::any_of(map.step.begin() + 1, map.step.begin() + map.rank, [](uint32_t s) { return s != 1; })) text += fmt::format(" in steps of {}", product(map.step));
  if (map.swizzle_bytes != 0) text += fmt::format(", swizzle of {} bytes", map.swizzle_bytes);
  return text;
}

}  // namespace xtrace::cli
