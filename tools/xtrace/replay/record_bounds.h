// How many records of `pair` a warp writes at most at one site, from how often it was seen to come to the blocks: slots are then no
// larger than that, and there is less to clear and to read back.
#pragma once

#include "tools/xtrace/replay/counting.h"

namespace xtrace::cli {

class RecordBounds {
 public:
  // Of a launch whose counting replays agree. Both outlive this.
  RecordBounds(const std::vector<wire::Block>& blocks, const Counts& counts);

  // No warp of the launch executes the block with this instruction more often.
  void saw(uint32_t pc, uint32_t executions);
  // 0: not known.
  uint32_t most_records(instrument::Around around, uint32_t pc) const;
  // The buffer's slots, smaller where that is known and they are plain and of one size.
  wire::SlotLayout layout(const wire::SlotLayout& whole, instrument::Around around, uint32_t pc) const;

 private:
  const std::vector<wire::Block>& blocks_;
  const Counts& counts_;
  std::vector<uint32_t> most_;   // by block; 0: not known
  std::vector<bool> full_;
};

}  // namespace xtrace::cli
