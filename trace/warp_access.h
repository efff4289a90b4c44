// Accesses that are made once for the warp (wire::Access::Form): what the words that their instruction read say.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "trace/wire/address_map.h"

namespace xtrace::trace {

struct WarpAccess {
  static constexpr unsigned most_dimensions = 5;
  uint64_t global = 0;                // bulk: first byte in global memory; 0: it touches none
  uint64_t map = 0;                   // tensor: address of the tensor map
  // Addresses in the cluster's shared memory: the CTA's rank << 24 and an offset there. Nothing: it has none.
  std::optional<uint32_t> shared, shared_from, barrier;
  uint32_t bytes = 0;                 // bulk: of one copy
  uint32_t ctas = 0;                  // .MULTICAST: CTAs of the cluster that get one each; 0: none is named, and `shared` says which
  unsigned dimensions = 0;
  std::array<int32_t, most_dimensions> at{};   // tensor: of the box's first element, the innermost dimension first
  uint32_t pixels = 0;                // .IM2COL: offsets of pixels
};

// As many words as there are operands.
WarpAccess warp_access(const wire::Access& access, std::span<const uint32_t> words);

constexpr unsigned shared_rank_shift = 24;
constexpr uint32_t rank_of(uint32_t shared) { return shared >> shared_rank_shift; }
constexpr uint32_t offset_of(uint32_t shared) { return shared & ((1u << shared_rank_shift) - 1); }

}  // namespace xtrace::trace
