// 128-bit content hash (XXH3-128). Names chunks and cubins in a bundle; not cryptographic.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/status.h"

namespace xtrace {

struct Hash128 {
  uint64_t low = 0, high = 0;
  auto operator<=>(const Hash128&) const = default;
  std::string hex() const;  // 32 lower-case hex digits, high word first
};

Hash128 hash128(std::span<const std::byte> bytes);

}  // namespace xtrace

template <>
struct std::hash<xtrace::Hash128> {
  size_t operator()(const xtrace::Hash128& h) const noexcept { return h.low; }
};
