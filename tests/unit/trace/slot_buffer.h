// Plain slots in memory, written record by record.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "trace/plain_slots.h"

namespace xtrace::trace {

constexpr uint64_t plain_base = 0x100000000000;

struct PlainBuffer {
  wire::AddressMap map;
  Bytes bytes;

  explicit PlainBuffer(uint32_t warps, uint32_t slot_bytes) : bytes(uint64_t{warps} * slot_bytes) {
    map.layout.slots = plain_base;
    map.layout.slot_bytes = slot_bytes;
    map.layout.lead_bytes = wire::chunk_bytes;
    map.layout.warps = warps;
    map.layout.warps_per_cta = 1;
    map.blocks.resize(2);
    map.blocks[0].instructions = 3;
    map.blocks[0].record_bytes = 16;
    map.blocks[0].successors = {1};
    map.blocks[1].instructions = 5;
    map.blocks[1].record_bytes = 16;
    map.blocks[1].successors = {1};
    map.blocks[1].exits = true;
  }
  void make_short(uint32_t words) {
    map.layout.index_bits = 2;
    map.layout.short_records = true;
    map.layout.lead_bytes = sizeof(wire::SlotHead);
    for (wire::Block& b : map.blocks) b.record_bytes = 4 * words;
  }
  void make_inst() {
    map.blocks[0].clocks = 3;
    map.blocks[1].clocks = 5;
    map.blocks[0].record_bytes = map.blocks[1].record_bytes = 32;
  }
  void head(uint32_t warp, uint8_t sm, uint8_t slot, uint16_t time, uint32_t clock) {
    const uint32_t place = uint32_t{sm} << 20 | uint32_t{slot} << 8 | (time & 0xffu) | (time & 0xf00u) << 8 | (time & 0xf000u) << 16;
    put(warp, 0, wire::SlotHead{clock, place});
  }
  template <typename T>
  void put(uint32_t warp, uint64_t offset, const T& value) {
    std::memcpy(bytes.data() + uint64_t{warp} * map.layout.slot_bytes + offset, &value, sizeof value);
  }
  RecordView view() {
    auto view = view_plain_slots(map, buffer_reader(plain_base, bytes), {});
    EXPECT_TRUE(view) << (view ? "" : view.error().to_string());
    return view ? std::move(*view) : RecordView{};
  }
  std::vector<wire::WarpHeader> headers() {
    const RecordView v = view();
    std::vector<wire::WarpHeader> out(map.layout.warps);
    if (v.headers.size() == out.size() * sizeof(wire::WarpHeader)) std::memcpy(out.data(), v.headers.data(), v.headers.size());
    return out;
  }
  // Everything, through decode().
  struct Decoded {
    std::vector<WarpTrace> warps;
    DecodeSummary summary;
  };
  Decoded decoded(TraceKind kind) {
    const RecordView v = view();
    Decoded d;
    const auto summary = decode(v.map, kind, v.headers, v.read, {v.table, false, {}}, [&](const WarpTrace& t) -> Status {
      d.warps.push_back(t);
      return {};
    });
    EXPECT_TRUE(summary) << (summary ? "" : summary.error().to_string());
    if (summary) d.summary = *summary;
    return d;
  }
};

// Writes records with masks into the first slot, one behind the other, with three bits for the block.
struct PlainShortRecords {
  PlainBuffer& buffer;
  uint32_t at = sizeof(wire::SlotHead);
  void operator()(uint32_t block, uint32_t mask, uint32_t clock) {
    buffer.put(0, at, clock << 3 | (block + 1));
    buffer.put(0, at + 4, mask);
    at += 8;
  }
};

}  // namespace xtrace::trace
