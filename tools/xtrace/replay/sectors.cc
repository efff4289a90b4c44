#include "tools/xtrace/replay/sectors.h"

#include <numeric>

namespace xtrace::cli {

bool whole_sectors_pay(const Footprint& f) {
  constexpr uint64_t few = 8;   // of the L2 one part in so many [measured H200: 24 MiB gained, 2.8 MiB did not; between them a guess]
  const bool little_more = f.part_bytes != 0 && f.record_bytes - f.part_bytes < f.part_bytes / 8;   // [measured H200: 2.7 %; above a guess]
  return f.memory_bytes + f.record_bytes > (little_more ? f.l2_bytes / 2 : f.l2_bytes) && f.record_bytes > f.l2_bytes / few;
}

namespace {

// Why they can not; nothing where they can.
Status possible(const LaunchContext& c, const instrument::Plan& plan, const Counts& counts) {
  if (!counts.stable) return unsupported("the launch takes another path in each replay, and such records are whole chunks");
  if (plan.probe == instrument::ProbeKind::mem && !counts.is_exact())
    return unsupported("lanes come out of a loop that waits in other groups each time, so that the length of each warp's records is not known beforehand");
  if (!c.splicer.can_fill_sectors(plan.samples()))
    return unsupported("a sector is filled by all 32 lanes of a warp, and by a register above the kernel's own: the CTA's last warp has fewer lanes, "
                       "or there is no such register at the same occupancy");
  return {};
}

}  // namespace

Result<instrument::Spliced> trial_splice(const LaunchContext& c, const instrument::Plan& plan, instrument::RecordForm form) {
  instrument::SlotPlan nowhere = instrument::plan_slots(std::vector<uint32_t>(c.warps, 0), 0, false, form, ~0ull);
  instrument::place(nowhere, 1ull << 40);
  return c.splicer.splice(plan, nowhere.layout);
}

Result<bool> in_whole_sectors(const LaunchContext& c, const Drawn& drawn, const instrument::Plan& plan, instrument::RecordForm form,
                              const Counts& counts) {
  const Status can = possible(c, plan, counts);
  if (drawn.whole_sectors) {
    if (*drawn.whole_sectors && !can) return with_hint(tl::make_unexpected(can.error()), "records of any kernel can be written without sectors:whole");
    return *drawn.whole_sectors;
  }
  Footprint footprint{0, 0, c.backend.info().l2_bytes, 0};
  if (!can || footprint.l2_bytes == 0) return false;
  form.whole_sectors = true;
  const auto trial = trial_splice(c, plan, form);
  if (!trial) {
    if (trial.error().kind != ErrorKind::unsupported) return tl::make_unexpected(trial.error());
    return false;   // for want of that register
  }
  // `mem` takes what registers it needs; that one is not worth a CTA, nor one of the kernel's.
  if (trial->report.costs_occupancy || trial->report.spills != 0) return false;
  for (uint32_t w = 0; w < c.warps; ++w)
    if (drawn.has(w, c.warps_per_cta)) footprint.record_bytes += trial->map.layout.lead_bytes;
  uint64_t full_bytes = footprint.record_bytes;
  for (size_t b = 0; b < trial->map.blocks.size(); ++b) {
    const uint64_t bytes = counts.left_out.has(b) ? 0 : counts.blocks[b].warps * trial->map.blocks[b].record_bytes;
    footprint.record_bytes += bytes;
    full_bytes += trial->map.blocks[b].full ? bytes : 0;
  }
  // Where lanes are missing nothing fills a sector, and those of `mem` are longer than chunks.
  if (plan.probe == instrument::ProbeKind::mem) {
    if (full_bytes < footprint.record_bytes / 2) return false;
    footprint.part_bytes = std::accumulate(counts.mem_bytes.begin(), counts.mem_bytes.end(), uint64_t{0});
  }
  for (const bundle::Region& r : c.launch.record.regions) footprint.memory_bytes += r.size;
  return whole_sectors_pay(footprint);
}

}  // namespace xtrace::cli
