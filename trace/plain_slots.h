// The warp headers of plain slots (trace/wire/record.h): built here from the SlotHead and the records, because the GPU
// writes none.
#pragma once

#include <span>

#include "trace/decode.h"

namespace xtrace::trace {

// A WarpHeader array for decode(), as bytes. Of a warp that wrote no SlotHead the header is all zero (never started). Its
// bytes are counted up to the zero chunk that ends the records, or to the end of the slot when there is none; the exit
// clock is the last clock in the records: when a warp of a plain slot ended after that is not known.
// start_time is extended from its low word relative to the first warp's: right for launches shorter than 2 s.
Result<Bytes> plain_slot_headers(const wire::AddressMap& map, const DeviceReader& read,
                                 std::span<const wire::SlotEntry> table);

}  // namespace xtrace::trace
