// The warps of a mem trace in a file (docs/trace-format.md). Most address vectors are base + lane * stride: these take a few
// bytes, whatever the number of lanes; of the others the differences from lane to lane are written.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trace/mem_trace.h"
#include "trace/varint.h"

namespace xtrace::trace {

class MemEncoder {
 public:
  explicit MemEncoder(const wire::AddressMap& map);
  void block(uint32_t block, uint32_t active);
  void access(uint32_t index, uint32_t mask, const LaneAddresses& addresses);
  void operands(uint32_t index, uint32_t active, std::span<const uint32_t> words);
  // Appends the warp to `out` and begins the next one. Gives its number of block executions.
  uint64_t finish(const MemWarp& warp, std::string& out);

 private:
  std::string events_;
  uint32_t active_ = 0;
  uint64_t records_ = 0;
  std::vector<uint64_t> last_;   // by access: where its last execution by this warp began
  std::vector<bool> may_lack_;   // by access: made once for the warp, and a uniform predicate says whether it is
  std::vector<std::vector<uint32_t>> last_words_;   // by access: its words at that time
};

// Visits the warp that stands at `in`; gives its number of block executions. What is damaged fails `in`.
Result<uint64_t> decode_mem_warp(VarintReader& in, const wire::AddressMap& map, std::span<const AccessRange> ranges,
                                 MemVisitor& visitor);

}  // namespace xtrace::trace
