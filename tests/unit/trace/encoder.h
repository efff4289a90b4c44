// A trace buffer as the GPU would leave it, written by an independent reading of trace/wire/record.h: tests
// decode what this wrote and compare with what it was told to write.
#pragma once

#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "trace/decode.h"
#include "trace/warp_trace.h"
#include "trace/wire/address_map.h"

namespace xtrace::trace::testing {

inline constexpr uint32_t all = 0xffffffff;   // lanes

constexpr uint64_t buffer_base = 0x400000000;

// B0 -> B1 B2; B1 -> B3; B2 -> B3; B3 -> B1 B4; B4 exits. Instructions 3 2 7 1 11, so inst records of 2 1 3 1
// 4 chunks.
inline wire::AddressMap diamond_loop(TraceKind kind) {
  wire::AddressMap map;
  const uint32_t instructions[] = {3, 2, 7, 1, 11};
  const std::vector<uint32_t> successors[] = {{1, 2}, {3}, {3}, {1, 4}, {}};
  uint32_t pc = 0;
  for (int i = 0; i < 5; ++i) {
    wire::Block b;
    b.first_pc = pc;
    b.instructions = instructions[i];
    pc += 16 * b.instructions;
    if (kind == TraceKind::block) b.record_bytes = 16;
    if (kind == TraceKind::inst) {
      b.clocks = b.instructions;
      const uint32_t chunks[] = {2, 1, 3, 1, 4};
      b.record_bytes = 16 * chunks[i];
    }
    b.successors = successors[i];
    b.exits = i == 4;
    map.blocks.push_back(b);
  }
  if (kind == TraceKind::pair) map.sites = {{0x10, false, 0}, {0x40, true, 3}};
  map.layout.slots = buffer_base;
  map.layout.slot_bytes = 1024;
  map.layout.lead_bytes = 64;
  map.layout.warps = 4;
  map.layout.warps_per_cta = 2;
  return map;
}

// One event as the test wrote it.
struct Event {
  wire::RecordKind kind;
  uint32_t index, mask;
  std::vector<uint64_t> clocks;
  uint32_t bytes;
};

class Buffer {
 public:
  explicit Buffer(const wire::AddressMap& m) : map(m) {
    headers.resize(map.layout.warps);
    for (auto& h : headers) h.bytes = wire::not_exited;
    std::vector<uint64_t> sizes(map.layout.warps, map.layout.slot_bytes);
    set_slots(sizes);
  }
  // Slots one behind another in warp order.
  void set_slots(const std::vector<uint64_t>& sizes) {
    uint64_t at = 0;
    starts.clear();
    size = sizes;
    table.clear();
    for (uint64_t s : sizes) {
      starts.push_back(at);
      table.push_back({buffer_base + at, static_cast<uint32_t>(s - 1), 0});
      at += s;
    }
    memory.assign(at + map.layout.lead_bytes, std::byte{0});
    cursor.assign(sizes.size(), map.layout.lead_bytes);
    events.assign(sizes.size(), {});
  }
  void start(uint32_t warp, uint64_t clock, uint64_t time = 5000, uint32_t sm = 7) {
    headers[warp].start_clock = clock;
    headers[warp].start_time = time;
    headers[warp].sm = sm;
    headers[warp].hardware_slot = warp << 8;
  }
  void raw(uint32_t warp, const std::vector<uint32_t>& words) {
    uint64_t p = starts[warp] + (map.layout.wraps ? cursor[warp] % size[warp] : cursor[warp]);
    for (uint32_t w : words) {
      if (p + 4 <= memory.size()) std::memcpy(memory.data() + p, &w, 4);
      p += 4;
    }
    cursor[warp] += words.size() * 4;
  }
  void block(uint32_t warp, uint32_t index, uint32_t mask, uint64_t clock) {
    raw(warp, {wire::word0(wire::RecordKind::block, index), mask, static_cast<uint32_t>(clock),
               static_cast<uint32_t>(clock >> 32)});
    events[warp].push_back({wire::RecordKind::block, index, mask, {clock}, 16});
  }
  void inst(uint32_t warp, uint32_t index, uint32_t mask, std::vector<uint64_t> clocks) {
    std::vector<uint32_t> words{wire::word0(wire::RecordKind::inst, index), mask};
    for (uint64_t c : clocks) words.push_back(static_cast<uint32_t>(c));
    while (words.size() % 4 != 0) words.push_back(0xdeadbeef);
    raw(warp, words);
    events[warp].push_back(
        {wire::RecordKind::inst, index, mask, std::move(clocks), static_cast<uint32_t>(words.size() * 4)});
  }
  // Clocks first, first + step, ...
  void inst_run(uint32_t warp, uint32_t index, uint32_t mask, uint64_t& clock, uint64_t step = 3) {
    std::vector<uint64_t> clocks;
    for (uint32_t i = 0; i < map.blocks[index].instructions; ++i) clocks.push_back(clock += step);
    inst(warp, index, mask, clocks);
  }
  void pair(uint32_t warp, uint32_t site, uint32_t mask, uint64_t before, uint64_t after) {
    raw(warp, {wire::word0(wire::RecordKind::pair, site), mask, static_cast<uint32_t>(before),
               static_cast<uint32_t>(after)});
    events[warp].push_back({wire::RecordKind::pair, site, mask, {before, after}, 16});
  }
  void edge(uint32_t warp, bool begin, uint32_t site, uint32_t mask, uint64_t clock) {
    const auto kind = begin ? wire::RecordKind::edge_begin : wire::RecordKind::edge_end;
    raw(warp, {wire::word0(kind, site), mask, static_cast<uint32_t>(clock), static_cast<uint32_t>(clock >> 32)});
    events[warp].push_back({kind, site, mask, {clock}, 16});
  }
  void exit(uint32_t warp, uint64_t clock) {
    headers[warp].bytes = static_cast<uint32_t>(cursor[warp] - map.layout.lead_bytes);
    headers[warp].exit_clock_lo = static_cast<uint32_t>(clock);
  }

  ByteView header_bytes() const { return std::as_bytes(std::span(headers)); }
  Result<DecodeSummary> decode(TraceKind kind, std::vector<WarpTrace>& out,
                               DecodeOptions options = {}) const {
    if (map.layout.table != 0) options.table = table;
    out.clear();
    return trace::decode(map, kind, header_bytes(), buffer_reader(buffer_base, memory), options,
                         [&](const WarpTrace& t) -> Status {
                           out.push_back(t);
                           return {};
                         });
  }

  wire::AddressMap map;
  std::vector<wire::WarpHeader> headers;
  std::vector<wire::SlotEntry> table;
  std::vector<uint64_t> starts, size, cursor;
  Bytes memory;
  std::vector<std::vector<Event>> events;
};

inline std::vector<Event> events_of(const WarpTrace& t) {
  std::vector<Event> out;
  for (uint32_t i = 0; i < t.records(); ++i) {
    const auto c = t.clocks(i);
    out.push_back({t.kind[i], t.index[i], t.mask[i], {c.begin(), c.end()}, 0});
  }
  return out;
}
inline bool operator==(const Event& a, const Event& b) {
  return a.kind == b.kind && a.index == b.index && a.mask == b.mask && a.clocks == b.clocks;
}
inline void PrintTo(const Event& e, std::ostream* os) {
  *os << "{kind " << static_cast<int>(e.kind) << " index " << e.index << " mask " << std::hex << e.mask
      << std::dec;
  for (uint64_t c : e.clocks) *os << ' ' << c;
  *os << '}';
}

// Every warp not mentioned ends at once with one legal run.
inline void fill_others(Buffer& b, TraceKind kind, uint32_t from = 1) {
  for (uint32_t w = from; w < b.map.layout.warps; ++w) {
    b.start(w, 1000);
    uint64_t clock = 1000;
    for (uint32_t block : {0u, 1u, 3u, 4u}) {
      if (kind == TraceKind::block) b.block(w, block, all, clock += 10);
      if (kind == TraceKind::inst) b.inst_run(w, block, all, clock);
    }
    b.exit(w, clock + 5);
  }
}

}  // namespace xtrace::trace::testing
