#include "instrument/slot_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/bytes.h"
#include "base/check.h"

namespace xtrace::instrument {
namespace {

constexpr uint64_t buffer_alignment = 2ull << 20;
constexpr uint32_t smallest_slot = wire::sector_bytes;
constexpr uint64_t window_bytes = 1ull << 32;   // that one high word of an address spans

// Plain slots of one size lie side by side: whole chunks (`mem`: lines; or sectors), no more. Others are powers of two, as are so many
// that they would meet multiples of 4 GiB in more than one place.
uint32_t stride_of(const wire::SlotLayout& l, RecordForm form, uint32_t need, uint32_t equal) {
  if (l.wraps) return equal;
  const auto stride = static_cast<uint32_t>(align_up(need, form.lines ? wire::mem_line : form.whole_sectors || form.sectors ? wire::sector_bytes : wire::chunk_bytes));
  return uint64_t{stride} * l.warps < window_bytes ? stride : equal;
}

// Room for lead and records, and for the zero that ends the records of a plain slot; in wrapping slots one chunk, so that
// a full slot's cursor is not 0 again under the mask.
uint32_t needed(const wire::SlotLayout& l, uint32_t bytes) {
  const uint64_t need = uint64_t{l.lead_bytes} + bytes + (l.short_records ? sizeof(uint32_t) : wire::chunk_bytes);
  XT_CHECK(need <= (1ull << 31), "a slot above 2 GiB");
  return static_cast<uint32_t>(need);
}
uint32_t slot_size(const wire::SlotLayout& l, RecordForm form, uint32_t bytes) {
  return std::bit_ceil(std::max(form.lines ? wire::mem_line : smallest_slot, needed(l, bytes)));
}

}  // namespace

RecordForm form_of(const std::vector<wire::Point>& points) {
  RecordForm form;
  for (const wire::Point& p : points)
    for (const wire::Value& v : p.values) form.sectors |= v.is_column();
  return form;
}

SlotPlan plan_slots(std::span<const uint32_t> bytes, uint32_t largest_record, bool wraps, RecordForm form,
                    uint64_t stride_budget) {
  XT_CHECK(!wraps || (form.index_bits == 0 && !form.headless && !form.whole_sectors), "wrapping slots hold chunks, and their headers say how many");
  SlotPlan plan;
  wire::SlotLayout& l = plan.layout;
  l.warps = static_cast<uint32_t>(bytes.size());
  l.lead_bytes = wraps ? largest_record
                 : form.headless      ? 0
                 : form.lines         ? wire::mem_line
                 : form.whole_sectors || form.sectors ? wire::sector_bytes
                 : form.short_records ? static_cast<uint32_t>(sizeof(wire::SlotHead)) : wire::chunk_bytes;
  l.wraps = wraps;
  l.index_bits = form.index_bits;
  l.short_records = form.short_records;
  l.headless = form.headless;
  l.whole_sectors = form.whole_sectors;
  const uint32_t most = bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  const uint32_t equal = slot_size(l, form, most), stride = stride_of(l, form, needed(l, most), equal);
  const uint64_t headers = wraps ? align_up(bytes.size() * sizeof(wire::WarpHeader), 128) : 0;
  if (uint64_t{stride} * bytes.size() <= stride_budget) {
    l.slot_bytes = stride;
    l.slots = align_up(std::max<uint64_t>(headers, 128), equal);
    plan.total_bytes = l.slots + uint64_t{stride} * bytes.size() + l.lead_bytes + form.spare_bytes;
    plan.slot_alignment = equal;
    if (equal > buffer_alignment) plan.total_bytes += equal;
    if (stride != equal) plan.total_bytes += stride;   // for place()
    return plan;
  }
  // Largest first: every slot is then aligned to its own size without gaps. Warps without records get no slot of their
  // own: they share an empty one, which their code never writes.
  l.table = std::max<uint64_t>(headers, 128);   // 0 would say that there is none
  plan.entries.resize(bytes.size());
  std::vector<uint32_t> order(bytes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return bytes[a] > bytes[b]; });
  uint64_t at = align_up(l.table + bytes.size() * sizeof(wire::SlotEntry), equal);
  l.slots = at;
  for (uint32_t w : order) {
    const uint32_t size = slot_size(l, form, bytes[w]);
    plan.entries[w] = {at, size - 1, 0};
    if (bytes[w] != 0) at += size;
  }
  plan.total_bytes = at + slot_size(l, form, 0) + l.lead_bytes + form.spare_bytes;
  plan.slot_alignment = equal;
  if (plan.slot_alignment > buffer_alignment) plan.total_bytes += plan.slot_alignment;
  return plan;
}

SlotPlan plan_counters(uint32_t warps, uint32_t counters, bool headers) {
  constexpr uint64_t line = 128, most_bytes = 4 << 20, most_copies = 4096;
  SlotPlan plan;
  wire::SlotLayout& l = plan.layout;
  l.warps = warps;
  l.counters = headers ? align_up(uint64_t{warps} * sizeof(wire::WarpHeader), line) : line;   // 0 would say that there are none
  l.copy_bytes = static_cast<uint32_t>(align_up(uint64_t{counters} * sizeof(wire::BlockCount), line));
  l.counter_copies = static_cast<uint32_t>(std::bit_floor(std::clamp<uint64_t>(most_bytes / l.copy_bytes, 1, std::clamp<uint64_t>(warps, 1, most_copies))));
  plan.total_bytes = l.counters + uint64_t{l.counter_copies} * l.copy_bytes;
  return plan;
}

std::vector<wire::BlockCount> sum_counters(const wire::AddressMap& map, ByteView bytes) {
  const wire::SlotLayout& l = map.layout;
  XT_CHECK(bytes.size() >= uint64_t{l.counter_copies} * l.copy_bytes, "counters that were read whole");
  const size_t blocks = map.blocks.size();
  std::vector<wire::BlockCount> sums(l.copy_bytes / sizeof(wire::BlockCount));
  for (uint32_t copy = 0; copy < l.counter_copies; ++copy)
    for (size_t k = 0; k < sums.size(); ++k) {
      wire::BlockCount c;
      std::memcpy(&c, bytes.data() + uint64_t{copy} * l.copy_bytes + k * sizeof c, sizeof c);
      const wire::Block& block = map.blocks[k % blocks];
      if (block.packed_count) c = block.narrow_count ? wire::unpacked_narrow(c.warps) : wire::unpacked(c.warps);
      sums[k].warps += c.warps;
      sums[k].lanes += c.lanes;
    }
  return sums;
}

void place(SlotPlan& plan, uint64_t address) {
  XT_CHECK(address % buffer_alignment == 0, "trace buffers start on 2 MiB boundaries");
  wire::SlotLayout& l = plan.layout;
  XT_CHECK(l.headers == 0, "a slot plan is placed once");
  if (l.wraps || l.counters != 0) l.headers = address;
  if (l.table != 0) l.table += address;
  if (l.counters != 0) l.counters += address;
  if (l.slots == 0) return;
  const uint64_t moved = align_up(address + l.slots, plan.slot_alignment) - l.slots;
  l.slots += moved;
  if (l.slot_bytes != 0 && !std::has_single_bit(l.slot_bytes)) {
    // A multiple of 4 GiB among the slots must fall between two of them.
    const uint64_t boundary = align_up(l.slots, window_bytes);
    if (boundary < l.slots + uint64_t{l.warps} * l.slot_bytes) l.slots += (boundary - l.slots) % l.slot_bytes;
  }
  for (wire::SlotEntry& e : plan.entries) e.address += moved;
}

}  // namespace xtrace::instrument
