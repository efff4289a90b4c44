// Memory for records on a backend, and how decoders read it.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
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

// Sectors of which something was written since they were filled with this byte, and those of which not all was.
struct Sectors {
  uint64_t written = 0, in_part = 0;
  static constexpr uint8_t pattern = 0xa5;
  static Sectors of(ByteView bytes) {
    Sectors s;
    for (uint64_t at = 0; at + wire::sector_bytes <= bytes.size(); at += wire::sector_bytes) {
      std::array<uint32_t, wire::sector_bytes / 4> words;
      std::memcpy(words.data(), bytes.data() + at, sizeof words);
      const auto left = std::count(words.begin(), words.end(), 0x01010101u * pattern);
      s.written += left != std::ssize(words);
      s.in_part += left != 0 && left != std::ssize(words);
    }
    return s;
  }
};

// A view holds until the next read.
inline trace::DeviceReader reader_of(replay::Backend& backend) {
  return [&backend, piece = std::make_shared<Bytes>()](uint64_t address, uint64_t bytes) -> Result<ByteView> {
    XT_TRY(*piece, backend.read(DevPtr{address}, bytes));
    return ByteView(*piece);
  };
}

}  // namespace xtrace::interp_test
