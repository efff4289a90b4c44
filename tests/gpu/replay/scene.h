// Launches of the test kernels, made in memory.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "replay/backend.h"
#include "tests/gpu/replay/cubin.h"

namespace xtrace::replay {

inline void add_region(LaunchImage& launch, uint64_t address, Bytes before,
                       bundle::RegionKind kind = bundle::RegionKind::device, std::string symbol = {}) {
  bundle::Region r;
  r.kind = kind;
  r.address = {address};
  r.size = before.size();
  r.symbol = std::move(symbol);
  launch.record.regions.push_back(std::move(r));
  launch.before.push_back(std::move(before));
}

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes b(values.size() * sizeof(T));
  std::memcpy(b.data(), values.data(), b.size());
  return b;
}
template <typename T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> v(bytes.size() / sizeof(T));
  std::memcpy(v.data(), bytes.data(), v.size() * sizeof(T));
  return v;
}

// Parameters at their natural alignment.
template <typename... T>
void set_params(LaunchImage& launch, const T&... values) {
  Bytes& block = launch.record.param_block;
  block.clear();
  launch.record.params.clear();
  const auto add = [&](const auto& value) {
    block.resize(align_up(block.size(), sizeof value));
    launch.record.params.push_back({static_cast<uint32_t>(block.size()), sizeof value});
    append(block, value);
  };
  (add(values), ...);
}

inline LaunchImage kernel_launch(const std::string& kernel, Dim3 grid, Dim3 block = {32, 1, 1}) {
  LaunchImage launch;
  launch.record.kernel = kernel;
  launch.record.grid = grid;
  launch.record.block = block;
  launch.code.assign(test_cubin().begin(), test_cubin().end());
  return launch;
}

}  // namespace xtrace::replay
