// Whether records of `inst` and `mem` fill sectors (trace/wire/record.h): they take up to twice the bytes and more, and memory takes them as they are.
#pragma once

#include "tools/xtrace/replay/counting.h"

namespace xtrace::cli {

// What a launch under a probe moves through the L2.
struct Footprint {
  uint64_t memory_bytes = 0;   // that the launch can reach
  uint64_t record_bytes = 0;   // in whole sectors
  uint64_t l2_bytes = 0;
  uint64_t part_bytes = 0;     // records as short as they can be; 0: not known
};
// The rule. What does not fit into the L2 leaves it, and a sector that was written in part is read first; records that are few against the L2
// gain nothing [measured H200, docs/performance.md "Records in whole sectors"], as they stay there until their neighbours have filled them [guess].
// Where whole sectors take little more than others, half of the L2 is enough [measured H200: switch_table under `mem`, 46 MB of records and 1 MB].
bool whole_sectors_pay(const Footprint& footprint);

// What the splicer makes of the plan with slots at an address like any other: how long records are.
Result<instrument::Spliced> trial_splice(const LaunchContext& c, const instrument::Plan& plan, instrument::RecordForm form);

// As the rule says, or as was asked for (Drawn::whole_sectors), which is refused where it can not be.
Result<bool> in_whole_sectors(const LaunchContext& c, const Drawn& drawn, const instrument::Plan& plan, instrument::RecordForm form,
                              const Counts& counts);

}  // namespace xtrace::cli
