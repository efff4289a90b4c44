#include "trace/decode.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "trace/warp_decoder.h"

namespace xtrace::trace {
namespace {

using wire::chunk_bytes;
using wire::WarpHeader;

Status check_map(const wire::AddressMap& map, TraceKind kind, ByteView headers,
                 const DecodeOptions& options) {
  const wire::SlotLayout& l = map.layout;
  if (kind == TraceKind::mem || kind == TraceKind::point) return internal("{} records have a decoder of their own", name_of(kind));
  if (l.warps == 0 || l.warps_per_cta == 0 || l.warps % l.warps_per_cta != 0)
    return bad_input("address map: {} warps in CTAs of {} warps: expected a positive multiple", l.warps,
                     l.warps_per_cta);
  if (headers.size() / sizeof(WarpHeader) < l.warps)
    return bad_input("truncated warp headers: {} warps need {} bytes, found {}", l.warps,
                     uint64_t{l.warps} * sizeof(WarpHeader), headers.size());
  if (l.table != 0 ? options.table.size() < l.warps : !std::has_single_bit(l.slot_bytes))
    return l.table != 0 ? bad_input("slot table: {} warps need as many entries, found {}", l.warps,
                                    options.table.size())
                        : bad_input("address map: slots of {} bytes: expected a power of two", l.slot_bytes);
  if (!options.counted_bytes.empty() && options.counted_bytes.size() < l.warps)
    return bad_input("counted bytes: {} warps need as many entries, found {}", l.warps,
                     options.counted_bytes.size());
  if (l.lead_bytes % chunk_bytes != 0)
    return bad_input("address map: a lead of {} bytes: expected a multiple of {}", l.lead_bytes, chunk_bytes);
  if (kind == TraceKind::pair) {
    if (map.sites.empty()) return bad_input("address map: a pair trace without sites");
    return {};
  }
  if (map.blocks.empty()) return bad_input("address map: a {} trace without blocks", name_of(kind));
  for (size_t i = 0; i < map.blocks.size(); ++i) {
    const wire::Block& b = map.blocks[i];
    for (uint32_t s : b.successors)
      if (s >= map.blocks.size())
        return bad_input("address map: block {} has successor {}, there are {} blocks", i, s,
                         map.blocks.size());
    if (b.record_bytes == 0) continue;
    const uint32_t clocks = kind == TraceKind::inst ? b.instructions : 0;
    const uint32_t bytes = kind == TraceKind::inst ? wire::inst_record_bytes(clocks) : chunk_bytes;
    if (b.clocks != clocks || b.record_bytes != bytes)
      return bad_input(
          "address map: block {} with {} instructions under {} has {} clocks in {} bytes: expected {} in {}",
          i, b.instructions, name_of(kind), b.clocks, b.record_bytes, clocks, bytes);
    if (l.wraps && b.record_bytes > l.lead_bytes)
      return bad_input("address map: a lead of {} bytes in wrapping slots: block {} has records of {} bytes",
                       l.lead_bytes, i, b.record_bytes);
  }
  return {};
}

// One warp's slot in device memory, and how its cursor ended.
struct Slot {
  uint64_t address = 0, size = 0;
  bool writes = false;  // sampled and started
  uint64_t cursor = 0;  // where the cursor ended; ~0 when not known
};

std::vector<Slot> slots_of(const wire::AddressMap& map, const std::vector<WarpHeader>& headers,
                           const DecodeOptions& options) {
  const wire::SlotLayout& l = map.layout;
  std::vector<Slot> slots(l.warps);
  for (uint32_t w = 0; w < l.warps; ++w) {
    Slot& s = slots[w];
    const SlotPlace place = place_of_slot(l, options.table, w);
    s.address = place.address;
    s.size = l.table != 0 && place.address == 0 ? 0 : place.bytes;
    const WarpHeader& h = headers[w];
    s.writes = l.is_sampled(w) && h.start_clock != 0 &&
               h.start_clock != ~0ull;
    s.cursor = h.bytes == wire::not_exited ? ~0ull : uint64_t{l.lead_bytes} + h.bytes;
  }
  return slots;
}

// Fills the flags of `views` that depend on the slot before and the slot behind in memory.
void look_at_neighbours(const wire::SlotLayout& l, const std::vector<Slot>& slots, uint32_t max_record_bytes,
                        std::vector<SlotView>& views) {
  std::vector<uint32_t> order;
  for (uint32_t w = 0; w < slots.size(); ++w)
    if (slots[w].size != 0) order.push_back(w);
  const auto before = [&](uint32_t a, uint32_t b) { return slots[a].address < slots[b].address; };
  if (!std::is_sorted(order.begin(), order.end(), before)) std::sort(order.begin(), order.end(), before);
  for (size_t i = 1; i < order.size(); ++i) {
    const Slot &a = slots[order[i - 1]], &b = slots[order[i]];
    SlotView &front = views[order[i - 1]], &back = views[order[i]];
    const bool adjacent = a.address + a.size == b.address;
    if (!adjacent) continue;
    const bool a_passed = a.writes && a.cursor > a.size, b_passed = b.writes && b.cursor > b.size;
    if (!l.wraps) {
      // Into the lead no harm is done. A warp that never exited did not overrun as far as anybody knows.
      back.overrun_into = a_passed && a.cursor != ~0ull && a.cursor > a.size + l.lead_bytes;
    } else if (max_record_bytes > chunk_bytes) {  // records of one chunk never cross the end of a slot
      back.front_shared = a_passed;
      front.tail_shared = b_passed;
    }
  }
}

}  // namespace

DeviceReader buffer_reader(uint64_t base, ByteView buffer) {
  return [base, buffer](uint64_t address, uint64_t bytes) -> Result<ByteView> {
    if (address < base || address - base > buffer.size())
      return bad_input("a slot at {:#x} lies outside the trace buffer {:#x}..{:#x}", address, base,
                       base + buffer.size());
    const uint64_t at = address - base;
    return buffer.subspan(at, std::min<uint64_t>(bytes, buffer.size() - at));
  };
}

Result<DecodeSummary> decode(const wire::AddressMap& map, TraceKind kind, ByteView header_bytes,
                             const DeviceReader& read, const DecodeOptions& options,
                             const WarpVisitor& visit) {
  XT_TRY_STATUS(check_map(map, kind, header_bytes, options));
  const wire::SlotLayout& layout = map.layout;
  std::vector<WarpHeader> headers(layout.warps);
  std::memcpy(headers.data(), header_bytes.data(), headers.size() * sizeof(WarpHeader));
  const std::vector<Slot> slots = slots_of(map, headers, options);
  for (const Slot& s : slots)
    if (s.size != 0 && (!std::has_single_bit(s.size) || s.size < chunk_bytes))
      return bad_input("slot table: a slot of {} bytes at {:#x}: expected a power of two", s.size, s.address);
  WarpDecoder decoder(map, kind);
  std::vector<SlotView> views(layout.warps);
  look_at_neighbours(layout, slots, decoder.max_record_bytes(), views);
  DecodeSummary summary;
  WarpTrace trace;

  for (uint32_t warp = 0; warp < layout.warps; ++warp) {
    const WarpHeader& header = headers[warp];
    const Slot& slot = slots[warp];
    const uint32_t cta = warp / layout.warps_per_cta;

    if (!layout.is_sampled(warp) || (layout.by_sm() && header.start_clock == 0)) {
      ++summary.unsampled_warps;
      // The untouched copy of the kernel ran: the header is as the replay filled it, zeros or ones.
      bool wrote = header.bytes != 0 && header.bytes != wire::not_exited;
      if (!wrote && slot.size > layout.lead_bytes) {
        XT_TRY_IN(ByteView bytes, read(slot.address + layout.lead_bytes, chunk_bytes),
                  "reading the slot of unsampled warp {}", warp);
        wrote = decoder.is_record(bytes);
      }
      if (wrote) summary.losses.add(Loss::unsampled_records, warp, 0, 0);
      continue;
    }

    ++summary.sampled_warps;
    trace.clear();
    trace.warp = warp;
    trace.cta = cta;
    trace.warp_in_cta = warp % layout.warps_per_cta;
    trace.cta_part = layout.cta_part;
    if (!slot.writes) {
      trace.marks.push_back({Loss::never_started, 0, 0});
      trace.gaps.push_back(0);
    } else {
      trace.sm = header.sm;
      trace.hardware_slot = header.hardware_slot;
      trace.start_clock = header.start_clock;
      trace.start_time = header.start_time;
      SlotView& view = views[warp];
      view.size = slot.size;
      const uint64_t most = slot.size + (layout.wraps ? layout.lead_bytes : 0);
      const uint64_t wanted = header.bytes == wire::not_exited ? slot.size : std::min(slot.cursor, most);
      if (slot.size != 0 && header.bytes != 0) {
        XT_TRY_IN(view.bytes, read(slot.address, wanted), "reading the slot of warp {}", warp);
      }
      if (layout.wraps && slot.size == 0 && header.bytes != 0 && header.bytes != wire::not_exited) {
        trace.bytes_written = trace.bytes_dropped = header.bytes;
        trace.exited = true;
        trace.marks.push_back({Loss::slot_missing, 0, header.bytes});
        trace.gaps.push_back(0);
      } else {
        decoder.decode(header, view, options.salvage && slot.size != 0, trace);
      }
      if (!options.counted_bytes.empty() && trace.exited &&
          options.counted_bytes[warp] != trace.bytes_written)
        trace.marks.push_back({Loss::count_changed, trace.records(), 0});
    }

    summary.records += trace.records();
    summary.clocks += trace.clock.size();
    summary.bytes_written += trace.bytes_written;
    summary.bytes_dropped += trace.bytes_dropped;
    if (trace.exited) summary.bytes_kept += trace.bytes_kept;
    for (const LossMark& m : trace.marks) summary.losses.add(m.loss, warp, m.record, m.bytes);
    XT_TRY_STATUS(visit(trace));
    views[warp] = {};
  }
  return summary;
}

}  // namespace xtrace::trace
