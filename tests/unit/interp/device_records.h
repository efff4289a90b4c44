// Memory for records on a backend, and how decoders read it.
#pragma once

#include <memory>

#include "instrument/slot_plan.h"
#include "replay/backend.h"
#include "trace/decode.h"

namespace xtrace::interp_test {

// Takes memory for the slots, and places them and their table there.
inline Result<DevPtr> place_records(replay::Backend& backend, instrument::SlotPlan& slots) {
  XT_TRY(const DevPtr at, backend.allocate(slots.total_bytes, "records"));
  instrument::place(slots, at.value);
  if (slots.layout.table != 0) XT_TRY_STATUS(backend.write(DevPtr{slots.layout.table}, std::as_bytes(std::span(slots.entries))));
  return at;
}

// A view holds until the next read.
inline trace::DeviceReader reader_of(replay::Backend& backend) {
  return [&backend, piece = std::make_shared<Bytes>()](uint64_t address, uint64_t bytes) -> Result<ByteView> {
    XT_TRY(*piece, backend.read(DevPtr{address}, bytes));
    return ByteView(*piece);
  };
}

}  // namespace xtrace::interp_test
