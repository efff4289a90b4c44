// Launches made of literals.
#pragma once

#include <string>

#include "replay/backend.h"

namespace xtrace::replay {

inline Bytes bytes_of(std::initializer_list<int> values) {
  Bytes b;
  for (int v : values) b.push_back(static_cast<std::byte>(v));
  return b;
}

inline bundle::Region region(uint64_t address, uint64_t size,
                             bundle::RegionKind kind = bundle::RegionKind::device, std::string symbol = {}) {
  bundle::Region r;
  r.kind = kind;
  r.address = {address};
  r.size = size;
  r.symbol = std::move(symbol);
  return r;
}

// Adds a region with its contents to a launch.
inline void add_region(LaunchImage& launch, bundle::Region r, Bytes before) {
  r.size = before.size();
  launch.record.regions.push_back(std::move(r));
  launch.before.push_back(std::move(before));
}

inline LaunchImage launch_of(std::vector<Bytes> before) {
  LaunchImage launch;
  launch.record.kernel = "kernel";
  launch.code = bytes_of({1});
  uint64_t address = 0x7f0000000000;
  for (Bytes& b : before) {
    add_region(launch, region(address, 0), std::move(b));
    address += 0x200000;
  }
  return launch;
}

}  // namespace xtrace::replay
