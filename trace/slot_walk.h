// Plain slots with heads, warp by warp: what decoders of `mem` and point records have in common.
#pragma once

#include <cstring>
#include <span>

#include "trace/decode.h"

namespace xtrace::trace {

// `Warp`: MemWarp or one with its fields. `one` decodes what lies in a slot from layout.lead_bytes on and gives the number of
// records; it may add marks and sets bytes_written and bytes_kept. `done` is called once for each sampled warp, in order.
template <typename Warp, typename One, typename Done>
Result<DecodeSummary> walk_slots(const wire::AddressMap& map, const DeviceReader& read, std::span<const wire::SlotEntry> table,
                                 std::span<const uint64_t> counted_bytes, One one, Done done) {
  const wire::SlotLayout& l = map.layout;
  if (l.lead_bytes < sizeof(wire::SlotHead)) return internal("slots without heads");
  if (l.warps == 0 || l.warps_per_cta == 0 || l.warps % l.warps_per_cta != 0)
    return bad_input("address map: {} warps in CTAs of {} warps: expected a positive multiple", l.warps, l.warps_per_cta);
  if (l.table != 0 && table.size() < l.warps)
    return bad_input("slot table has {} entries, the launch {} warps", table.size(), l.warps);
  const auto first_words = [](ByteView slot) {
    uint64_t v = 0;
    if (slot.size() >= sizeof v) std::memcpy(&v, slot.data(), sizeof v);
    return v;
  };
  DecodeSummary summary;
  for (uint32_t warp = 0; warp < l.warps; ++warp) {
    Warp w;
    w.warp = warp;
    w.cta = warp / l.warps_per_cta;
    w.warp_in_cta = warp % l.warps_per_cta;
    w.cta_part = l.cta_part;
    const auto [address, size] = place_of_slot(l, table, warp);
    if (!l.is_sampled(warp)) {
      ++summary.unsampled_warps;
      XT_TRY(const ByteView head, read(address, sizeof(wire::SlotHead)));
      if (first_words(head) != 0) summary.losses.add(Loss::unsampled_records, warp, 0, 0);
      continue;
    }
    XT_TRY_IN(const ByteView slot, read(address, size), "reading the slot of warp {}", warp);
    if (l.by_sm() && first_words(slot) == 0) {
      ++summary.unsampled_warps;
      continue;
    }
    ++summary.sampled_warps;
    if (slot.size() < l.lead_bytes || first_words(slot) == 0) {
      w.marks.push_back({Loss::never_started, 0, 0});
    } else {
      wire::SlotHead head;
      std::memcpy(&head, slot.data(), sizeof head);
      w.sm = head.sm();
      w.hardware_slot = head.hardware_slot();
      XT_TRY(const uint32_t records, one(slot, w));
      summary.records += records;
      if (!counted_bytes.empty() && counted_bytes[warp] != w.bytes_written)
        w.marks.push_back({Loss::count_changed, records, 0});
    }
    summary.bytes_written += w.bytes_written;
    summary.bytes_kept += w.bytes_kept;
    for (const LossMark& m : w.marks) summary.losses.add(m.loss, warp, m.record, m.bytes);
    XT_TRY_STATUS(done(w));
  }
  summary.bytes_dropped = summary.bytes_written - summary.bytes_kept;
  return summary;
}

}  // namespace xtrace::trace
