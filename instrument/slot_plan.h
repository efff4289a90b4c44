// Sizes the slots from the counting replay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "trace/wire/address_map.h"

namespace xtrace::instrument {

struct SlotPlan {
  wire::SlotLayout layout;                 // addresses relative to 0 until place() is called
  std::vector<wire::SlotEntry> entries;    // table mode only
  uint64_t total_bytes = 0;                // headers, table, slots, guard, and room to align the slots
  uint64_t slot_alignment = 1;             // size of the largest slot
};

// How records in plain slots are written; the default is chunks.
struct RecordForm {
  uint32_t index_bits = 0;
  bool short_records = false;
  bool headless = false;
  bool lines = false;          // `mem`: records and slots are whole lines (wire::mem_line)
  bool whole_sectors = false;  // `inst`: records, heads and slots fill sectors (SlotLayout::whole_sectors)
  bool sectors = false;        // point probes: records, heads and slots are multiples of sectors
  // Behind the last slot: where a warp that writes more than was counted does no harm, and its records are missed all the same.
  uint64_t spare_bytes = 0;
};

// Point probes: where some records have columns, all records begin at sectors, and so do columns, and slots. (In lines, a head of 12 bytes would take
// 128; a column that lies across two lines costs no more than one that does not [measured H200, docs/performance.md "Tried"].)
RecordForm form_of(const std::vector<wire::Point>& points);

// `bytes[w]`: what warp w was counted to write; 0 for warps that are not sampled. `largest_record`: in bytes. `wraps`: the
// counts change between replays.
// Every slot holds lead + bytes and the zero behind; its size is a power of two, except for plain slots in stride mode, which
// are whole chunks when all of them take less than 4 GiB. No slot lies across a multiple of 4 GiB: probes move the low word
// of their address alone. Stride mode (no table load in the prologue) when equal slots cost at
// most `stride_budget` bytes, else one slot size per warp by a table.
SlotPlan plan_slots(std::span<const uint32_t> bytes, uint32_t largest_record, bool wraps, RecordForm form,
                    uint64_t stride_budget);
// Layout of a counting pass: a header for each warp, and one BlockCount per block (`counters`: twice as many under Plan::last_apart),
// in so many copies that warps seldom add to the same: additions to one address come one after another.
SlotPlan plan_counters(uint32_t warps, uint32_t counters, bool headers = true);
// By counter, what all copies together say; those behind the last are none. `bytes`: what lies from `counters` on; `map`: of the code
// that counted.
std::vector<wire::BlockCount> sum_counters(const wire::AddressMap& map, ByteView bytes);

// Fixes the addresses once the buffer has one. `address` must be aligned to 2 MiB.
void place(SlotPlan& plan, uint64_t address);

}  // namespace xtrace::instrument
