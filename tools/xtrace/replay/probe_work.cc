#include "tools/xtrace/replay/probe_work.h"

#include "instrument/probe_cost.h"

namespace xtrace::cli {

Result<diff::ProbeWork> work_of(const LaunchContext& c, const ProbeRun& run, const Counts& counts) {
  XT_TRY(const instrument::ProbeCost cost,
         instrument::probe_cost(run.spliced, c.launch.record.kernel, counts.executions(), c.warps));
  return diff::ProbeWork{cost.stored_bytes, cost.issue_slots, cost.store_cycles, cost.kernel_slots};
}

}  // namespace xtrace::cli
