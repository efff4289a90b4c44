// Memory accesses as the `mem` probe records them: from plain slots or a trace file, one at a time, in the order in which
// each warp made them. A launch has up to hundreds of millions of addresses: nothing is kept.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "trace/decode.h"
#include "trace/lane_values.h"

namespace xtrace::trace {

using LaneAddresses = LaneValues;

struct MemWarp {
  uint32_t warp = 0, cta = 0, warp_in_cta = 0;    // as in WarpTrace
  uint32_t sm = 0, hardware_slot = 0;
  uint32_t cta_part = 0;                          // WarpTrace::cta_part
  uint64_t bytes_written = 0, bytes_kept = 0;     // of records
  std::vector<LossMark> marks;                    // `record`: number of the block execution
  bool operator==(const MemWarp&) const = default;
};

// For each sampled warp, in warp order: block() and behind it access() for each access of that block (AddressMap::accesses),
// executed or not, as often as the warp ran one; then warp().
class MemVisitor {
 public:
  virtual ~MemVisitor() = default;
  virtual Status block(uint32_t block, uint32_t active) = 0;
  // `mask`: lanes that accessed; may be 0. Index in AddressMap::accesses.
  virtual Status access(uint32_t index, uint32_t mask, const LaneAddresses& addresses) = 0;
  // In place of access(), of one that is made once for the warp (Access::Form): the words that its instruction read, one for each of
  // Access::operands. `active`: lanes of the block; 0 where a uniform predicate kept it from being made, and then the words say nothing.
  virtual Status operands(uint32_t index, uint32_t active, std::span<const uint32_t> words) = 0;
  virtual Status warp(const MemWarp& warp) = 0;
};

// Accesses by block: [first, last) in map.accesses.
struct AccessRange {
  uint32_t first = 0, last = 0;
};
// bad_input: accesses that are not in order of their blocks, or that name places outside the record of theirs.
Result<std::vector<AccessRange>> accesses_by_block(const wire::AddressMap& map);

// Decodes the slots of a launch. `counted_bytes`: of each warp according to the counting replay; empty: not compared.
// DecodeSummary::records counts block executions, clocks stays 0.
Result<DecodeSummary> decode_mem(const wire::AddressMap& map, const DeviceReader& read,
                                 std::span<const wire::SlotEntry> table, std::span<const uint64_t> counted_bytes,
                                 MemVisitor& visitor);

}  // namespace xtrace::trace
