#include "tools/xtrace/replay/probe_work.h"

#include <algorithm>
#include <numeric>

#include "instrument/probe_cost.h"

namespace xtrace::cli {
namespace {

// A warp's share of all delay is taken to be its share of all executions of blocks. Traced CTAs come one behind another where there are
// more of them than the device holds.
double longest_cycles(uint64_t warp_cycles, uint64_t traced, uint64_t warps_per_cta, const Counts& counts, uint32_t ctas_at_once) {
  const auto all = static_cast<double>(warp_cycles);
  const uint64_t ctas = traced / std::max<uint64_t>(1, warps_per_cta);
  const auto turns = static_cast<double>(ctas_at_once == 0 ? 1 : std::max<uint64_t>(1, (ctas + ctas_at_once - 1) / ctas_at_once));
  const double mean = all / static_cast<double>(std::max<uint64_t>(1, traced));
  const double bytes = std::accumulate(counts.block_bytes.begin(), counts.block_bytes.end(), 0.0);
  const double most = counts.block_bytes.empty() ? 0 : *std::max_element(counts.block_bytes.begin(), counts.block_bytes.end());
  return std::max(mean * turns, bytes == 0 ? 0 : all * most / bytes);
}

}  // namespace

uint64_t record_bytes(const wire::AddressMap& map, const std::vector<uint64_t>& executions, uint64_t traced, uint32_t nth) {
  uint64_t bytes = 0;
  for (size_t b = 0; b < map.blocks.size() && b < executions.size(); ++b) bytes += executions[b] * map.blocks[b].record_bytes;
  for (const wire::Point& p : map.points)   // of every nth execution of a warp, and the first
    if (p.block < executions.size()) bytes += (executions[p.block] + nth - 1) / nth * p.record_bytes;
  return bytes == 0 || map.layout.slots == 0 ? 0 : bytes + traced * map.layout.lead_bytes;
}

uint64_t lines_beside_misses(const Footprint& f) {
  constexpr uint64_t line_bytes = 128;
  return f.l2_bytes == 0 || f.memory_bytes + f.record_bytes <= f.l2_bytes ? 0 : (f.record_bytes + line_bytes - 1) / line_bytes;
}

uint64_t traced_at_once(uint64_t traced, uint64_t ctas, uint64_t ctas_at_once) {
  if (ctas_at_once == 0 || ctas_at_once >= ctas || traced == ctas) return 0;
  return std::max<uint64_t>(1, (ctas_at_once * traced + ctas - 1) / ctas);
}

Counts counts_of(const Counts& all, const std::vector<wire::BlockCount>& blocks, const wire::SlotLayout& part) {
  Counts counts = all;
  counts.blocks = blocks;
  for (uint32_t w = 0; w < counts.block_bytes.size(); ++w)
    if (!part.is_sampled(w)) counts.block_bytes[w] = 0;
  return counts;
}

Result<diff::ProbeWork> work_of(const LaunchContext& c, const instrument::Spliced& spliced, const Counts& counts, uint32_t ctas_at_once) {
  instrument::LaunchWarps warps{c.warps, 0};
  for (uint32_t w = 0; w < c.warps; ++w) warps.traced += spliced.map.layout.is_sampled(w);
  XT_TRY(const instrument::ProbeCost cost,
         instrument::probe_cost(spliced, c.launch.record.kernel, counts.executions(), warps));
  constexpr uint64_t sector_bytes = 32;   // that the records lie in, at least
  Footprint footprint{0, record_bytes(spliced.map, counts.executions(), warps.traced, spliced.claims.nth), c.backend.info().l2_bytes};
  for (const bundle::Region& r : c.launch.record.regions) footprint.memory_bytes += r.size;
  const bool by_hash = spliced.map.layout.one_in > 1 && spliced.map.layout.select.ctas.empty();
  const uint64_t sectors = (footprint.record_bytes + sector_bytes - 1) / sector_bytes;
  return diff::ProbeWork{cost.stored_bytes, cost.issue_slots, cost.store_cycles, cost.kernel_slots,
                         c.launch.record.grid.count(), c.warps_per_cta,
                         longest_cycles(cost.warp_cycles, warps.traced, c.warps_per_cta, counts, ctas_at_once),
                         warps.traced / std::max(1u, c.warps_per_cta),
                         sectors == 0 ? cost.partial_stores : std::min(sectors, cost.partial_stores),
                         by_hash ? traced_at_once(warps.traced / std::max(1u, c.warps_per_cta), c.launch.record.grid.count(), ctas_at_once) : 0,
                         warps.traced == c.warps ? 0 : lines_beside_misses(footprint)};   // of all CTAs they cost what their bytes do
}

}  // namespace xtrace::cli
