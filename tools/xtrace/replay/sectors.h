// Whether records fill sectors (trace/wire/record.h): they take up to eight times the bytes, and memory takes them as they are.
#pragma once

#include "tools/xtrace/replay/counting.h"

namespace xtrace::cli {

// What a launch under a probe moves through the L2.
struct Footprint {
  uint64_t memory_bytes = 0;   // that the launch can reach
  uint64_t record_bytes = 0;   // in whole sectors
  uint64_t l2_bytes = 0;       // 0: not known
};
// The rule. What does not fit into the L2 leaves it before the next launch comes, and a sector that was written in part is read first.
bool whole_sectors_pay(const Footprint& footprint);

// Of `block` and `inst`: as the rule says, or as was asked for (Drawn::whole_sectors), which is refused where it can not be.
Result<bool> in_whole_sectors(const LaunchContext& c, const Drawn& drawn, const instrument::Plan& plan, instrument::RecordForm form,
                              const Counts& counts);

}  // namespace xtrace::cli
