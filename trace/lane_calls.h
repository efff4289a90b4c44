// Where the lanes of a warp return to: behind the last call that each has not returned from. From record to record, in order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trace/implied_blocks.h"

namespace xtrace::trace {

class LaneCalls {
 public:
  using Targets = std::array<uint32_t, 32>;   // by lane; ImpliedBlocks::none: not known
  LaneCalls(const wire::AddressMap& map, const ImpliedBlocks& implied);
  LaneCalls(const wire::AddressMap&& map, const ImpliedBlocks& implied) = delete;   // it must outlive this
  // The next record: where its lanes go on, if its block returns. `by_loop`: lanes that came to it from a counted loop.
  const Targets& next(uint32_t block, uint32_t mask, uint32_t by_loop);

 private:
  using Pending = std::vector<uint32_t>;   // blocks behind calls
  uint32_t through(uint32_t block, Pending& pending) const;
  void go(uint32_t from, uint32_t target, ImpliedBlocks::End to, Pending& pending) const;

  const wire::AddressMap& map_;
  const ImpliedBlocks& implied_;
  std::array<uint32_t, 32> at_;   // by lane: its last record
  Targets target_;
  std::array<Pending, 32> pending_;
};

}  // namespace xtrace::trace
