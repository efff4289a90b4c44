// What the probes of a replay make the device do, from the counting replay and the spliced code.
#pragma once

#include "diff/floor.h"
#include "tools/xtrace/replay/probe_run.h"
#include "tools/xtrace/replay/sectors.h"

namespace xtrace::cli {

// Bytes of the records of traced warps, of blocks and of points, heads included; nothing for those of pairs. `executions`: of each block, by a warp;
// every `nth` of them, the first one of a warp among them, leaves a record at a point.
uint64_t record_bytes(const wire::AddressMap& map, const std::vector<uint64_t>& executions, uint64_t traced, uint32_t nth);
// Lines of 128 bytes that records of so many bytes lie in, at least, where they and the launch's memory do not fit into the L2.
uint64_t lines_beside_misses(const Footprint& footprint);
// Of `traced` CTAs, sampled evenly from all, those that are on the device at a time; 0: all of them, or it is not known how many fit.
uint64_t traced_at_once(uint64_t traced, uint64_t ctas, uint64_t ctas_at_once);

// `counts`: of the traced warps. `ctas_at_once`: how many fit on the device; 0: not known.
Result<diff::ProbeWork> work_of(const LaunchContext& c, const instrument::Spliced& spliced, const Counts& counts, uint32_t ctas_at_once);

// The same of one part of rotated CTAs, which executed these blocks.
Counts counts_of(const Counts& all, const std::vector<wire::BlockCount>& blocks, const wire::SlotLayout& part);

}  // namespace xtrace::cli
