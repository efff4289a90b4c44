#include "tools/xtrace/replay/sectors.h"

namespace xtrace::cli {

bool whole_sectors_pay(const Footprint& f) {
  constexpr uint64_t few = 8;   // of the L2 one part in so many [measured H200: 24 MiB gained, 2.8 MiB did not; between them a guess]
  return f.memory_bytes + f.record_bytes > f.l2_bytes && f.record_bytes > f.l2_bytes / few;
}

namespace {

// Why they can not; nothing where they can.
Status possible(const LaunchContext& c, const instrument::Plan& plan, const Counts& counts) {
  if (!counts.stable) return unsupported("the launch takes another path in each replay, and such records are whole chunks");
  if (!c.splicer.can_fill_sectors(plan.samples()))
    return unsupported("a sector is filled by all 32 lanes of a warp, and by a register above the kernel's own: the CTA's last warp has fewer lanes, "
                       "or there is no such register at the same occupancy");
  return {};
}

}  // namespace

Result<bool> in_whole_sectors(const LaunchContext& c, const Drawn& drawn, const instrument::Plan& plan, instrument::RecordForm form,
                              const Counts& counts) {
  const Status can = possible(c, plan, counts);
  if (drawn.whole_sectors) {
    if (*drawn.whole_sectors && !can) return with_hint(tl::make_unexpected(can.error()), "records of any kernel can be written without sectors:whole");
    return *drawn.whole_sectors;
  }
  Footprint footprint{0, 0, c.backend.info().l2_bytes};
  if (!can || footprint.l2_bytes == 0) return false;
  form.whole_sectors = true;
  instrument::SlotPlan nowhere = instrument::plan_slots(std::vector<uint32_t>(c.warps, 0), 0, false, form, ~0ull);
  instrument::place(nowhere, 1ull << 40);
  const auto trial = c.splicer.splice(plan, nowhere.layout);
  if (!trial) {
    if (trial.error().kind != ErrorKind::unsupported) return tl::make_unexpected(trial.error());
    return false;   // for want of that register
  }
  for (uint32_t w = 0; w < c.warps; ++w)
    if (drawn.has(w, c.warps_per_cta)) footprint.record_bytes += nowhere.layout.lead_bytes;
  for (size_t b = 0; b < trial->map.blocks.size(); ++b) footprint.record_bytes += counts.blocks[b].warps * trial->map.blocks[b].record_bytes;
  for (const bundle::Region& r : c.launch.record.regions) footprint.memory_bytes += r.size;
  return whole_sectors_pay(footprint);
}

}  // namespace xtrace::cli
