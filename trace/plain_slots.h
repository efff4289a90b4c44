// Plain slots (trace/wire/record.h) as decode() wants them: warp headers, which the GPU did not write, are made from the
// SlotHead and the records; short and packed records become the chunks that they stand for.
#pragma once

#include <span>
#include <vector>

#include "trace/decode.h"

namespace xtrace::trace {

// What decode() takes. `read` and `map` speak of chunked records in slots of one size at addresses of their own.
struct RecordView {
  wire::AddressMap map;
  Bytes headers;                          // WarpHeader[warps]
  std::vector<wire::SlotEntry> table;
  DeviceReader read;                      // of the chunked records; valid as long as the reader it was made from
  uint64_t stored_bytes = 0;              // that the launch wrote: heads and records as they lie in plain slots
  uint64_t doubtful_clocks = 0;           // inst records behind which a clock may be late by a multiple of 65,536 cycles
};

// When and where each warp started, by the heads of plain slots: start_clock, start_time, sm, hardware_slot; all zero where
// there is no head.
Result<std::vector<wire::WarpHeader>> warp_starts(const wire::AddressMap& map, const DeviceReader& read,
                                                  std::span<const wire::SlotEntry> table);

// Of a warp that wrote no SlotHead the header is all zero (never started). Its bytes are counted up to the zero that ends
// the records; a slot without one was overrun, and its header claims a chunk more than can be read, which decode() counts
// as lost. The exit clock is the last clock in the records: when a warp of a plain slot ended after that is not known.
//
// Clocks and times of a SlotHead are short. They are extended relative to the first warp: clocks right for launches below
// 1 s, times, known to 256 ns, where no SM waits longer than 8 ms for its first CTA.
Result<RecordView> view_plain_slots(const wire::AddressMap& map, DeviceReader read,
                                    std::span<const wire::SlotEntry> table);

}  // namespace xtrace::trace
