#include "trace/plain_slots.h"

#include <cstring>
#include <optional>

namespace xtrace::trace {
namespace {

wire::Chunk chunk_at(ByteView slot, uint64_t offset) {
  wire::Chunk c;
  std::memcpy(&c, slot.data() + offset, sizeof c);
  return c;
}

struct Extent {
  uint32_t bytes = 0;
  uint32_t last_clock = 0;
};

// Bytes of the record that starts with this chunk; one chunk for what makes no sense, so that decode() meets it.
uint32_t record_bytes(const wire::AddressMap& map, const wire::Chunk& c) {
  const uint32_t index = wire::index_of(c.word[0]);
  if (wire::kind_of(c.word[0]) != wire::RecordKind::inst || index >= map.blocks.size()) return wire::chunk_bytes;
  return std::max(map.blocks[index].record_bytes, wire::chunk_bytes);
}

Extent find_end(const wire::AddressMap& map, ByteView slot, uint32_t lead) {
  Extent e;
  uint64_t at = lead;
  while (at + wire::chunk_bytes <= slot.size()) {
    const wire::Chunk c = chunk_at(slot, at);
    if (c.word[0] == 0) break;
    const uint32_t size = record_bytes(map, c);
    if (at + size > slot.size()) break;
    switch (wire::kind_of(c.word[0])) {
      case wire::RecordKind::inst: {
        // The last clock of the record: word 2 + clocks - 1, counted from its start.
        const uint64_t word = 2 + map.blocks[wire::index_of(c.word[0])].clocks - 1;
        std::memcpy(&e.last_clock, slot.data() + at + std::min<uint64_t>(4 * word, size - 4), 4);
        break;
      }
      case wire::RecordKind::pair:
        e.last_clock = c.word[3];
        break;
      default:
        e.last_clock = c.word[2];
        break;
    }
    at += size;
  }
  e.bytes = static_cast<uint32_t>(at - lead);
  return e;
}

}  // namespace

Result<Bytes> plain_slot_headers(const wire::AddressMap& map, const DeviceReader& read,
                                 std::span<const wire::SlotEntry> table) {
  const wire::SlotLayout& l = map.layout;
  if (l.wraps || l.headers != 0) return internal("headers of wrapping slots are read from the device");
  if (l.table != 0 && table.size() < l.warps)
    return bad_input("slot table has {} entries, the launch {} warps", table.size(), l.warps);
  std::vector<wire::WarpHeader> headers(l.warps);
  std::optional<uint32_t> reference_time;
  for (uint32_t w = 0; w < l.warps; ++w) {
    if (!wire::cta_is_sampled(w / std::max(1u, l.warps_per_cta), l.one_in, l.seed)) continue;
    const uint64_t address = l.table != 0 ? table[w].address : l.slots + uint64_t{w} * l.slot_bytes;
    const uint64_t size = l.table != 0 ? uint64_t{table[w].mask} + 1 : l.slot_bytes;
    XT_TRY(const ByteView slot, read(address, size));
    if (slot.size() < l.lead_bytes || l.lead_bytes < sizeof(wire::SlotHead)) continue;
    wire::SlotHead head;
    std::memcpy(&head, slot.data(), sizeof head);
    if (head.start_clock == 0) continue;
    if (!reference_time) reference_time = head.start_time_lo;
    const Extent e = find_end(map, slot, l.lead_bytes);
    wire::WarpHeader& h = headers[w];
    h.bytes = e.bytes;
    h.exit_clock_lo = e.bytes != 0 ? e.last_clock : static_cast<uint32_t>(head.start_clock);
    h.sm = head.place & 0xffff;
    h.hardware_slot = head.place >> 16;
    h.start_clock = head.start_clock;
    h.start_time = (1ull << 32) + *reference_time +
                   static_cast<int64_t>(static_cast<int32_t>(head.start_time_lo - *reference_time));
  }
  Bytes bytes(headers.size() * sizeof(wire::WarpHeader));
  std::memcpy(bytes.data(), headers.data(), bytes.size());
  return bytes;
}

}  // namespace xtrace::trace
