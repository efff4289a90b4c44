#include "tools/xtrace/replay/record_bounds.h"

#include <algorithm>

#include "trace/aggregate.h"

namespace xtrace::cli {
namespace {

using instrument::Around;

bool holds(const wire::Block& block, uint32_t pc) {
  return pc >= block.first_pc && pc < block.first_pc + block.instructions * trace::inst_bytes;
}

}  // namespace

RecordBounds::RecordBounds(const std::vector<wire::Block>& blocks, const Counts& counts)
    : blocks_(blocks), counts_(counts), most_(blocks.size()), full_(counts.full()) {}

void RecordBounds::saw(uint32_t pc, uint32_t executions) {
  if (!counts_.stable) return;
  for (size_t b = 0; b < blocks_.size(); ++b)
    if (holds(blocks_[b], pc)) most_[b] = std::max(most_[b], executions);
}

uint32_t RecordBounds::most_records(Around around, uint32_t pc) const {
  uint64_t most = 0;
  const auto add = [&](size_t b) {   // false: not known
    if (counts_.blocks[b].warps == 0) return true;
    most += most_[b];
    return most_[b] != 0;
  };
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const bool here = holds(blocks_[b], pc);
    if ((around == Around::kernel ? blocks_[b].exits : here) && !add(b)) return 0;
    if (!here || around == Around::body || around == Around::kernel) continue;
    // Whoever enters a block that may follow leaves a record; of lanes that part, in any block that some lanes miss.
    for (uint32_t next : blocks_[b].successors)
      if (!add(next)) return 0;
    if (blocks_[b].indirect) return 0;
    if (around != Around::block || full_[b]) continue;
    for (size_t other = 0; other < blocks_.size(); ++other)
      if (!full_[other] && !add(other)) return 0;
  }
  return static_cast<uint32_t>(std::min<uint64_t>(most, ~0u));
}

wire::SlotLayout RecordBounds::layout(const wire::SlotLayout& whole, Around around, uint32_t pc) const {
  wire::SlotLayout layout = whole;
  const uint64_t most = most_records(around, pc);
  if (!layout.headless || layout.table != 0 || most == 0) return layout;
  layout.slot_bytes = static_cast<uint32_t>(std::min<uint64_t>(layout.slot_bytes, (most + 1) * wire::chunk_bytes));   // and the zero
  return layout;
}

}  // namespace xtrace::cli
