// From the bytes that probes wrote to events, warp by warp. Nothing is assumed of the bytes: whatever does
// not decode is counted as a loss (loss.def) and decoding goes on where the records make sense again.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "trace/warp_trace.h"
#include "trace/wire/address_map.h"

namespace xtrace::trace {

// Gives the `bytes` bytes at a device address. May give fewer (what is missing is counted as slot_missing),
// and its view must stay valid until the next call. An error stops the decoding. Called once for each warp,
// in warp order, for the part of its slot that holds records.
using DeviceReader = std::function<Result<ByteView>(uint64_t address, uint64_t bytes)>;
// For a buffer that was read back whole: `buffer` are the device bytes from `base` on.
DeviceReader buffer_reader(uint64_t base, ByteView buffer);

// Where the slot of a warp lies: by the table, or all of them one after the other.
struct SlotPlace {
  uint64_t address = 0, bytes = 0;
};
inline SlotPlace place_of_slot(const wire::SlotLayout& l, std::span<const wire::SlotEntry> table, uint32_t warp) {
  if (l.table != 0) return {table[warp].address, uint64_t{table[warp].mask} + 1};
  return {l.slots + uint64_t{warp} * l.slot_bytes, l.slot_bytes};
}

struct DecodeOptions {
  // Table mode (layout.table != 0): one entry a warp, as in device memory; {0, 0} for warps that need no
  // slot.
  std::span<const wire::SlotEntry> table;
  // Decode the slot of a warp that did not exit up to the first chunk that is no record. Needs a buffer that
  // was zeroed before the launch; slots that may have wrapped are left alone.
  bool salvage = true;
  // Bytes of each warp according to a counting replay; empty = not compared.
  std::span<const uint64_t> counted_bytes;
};

struct DecodeSummary {
  uint64_t sampled_warps = 0, unsampled_warps = 0;
  uint64_t records = 0, clocks = 0;
  uint64_t bytes_written = 0, bytes_kept = 0,
           bytes_dropped = 0;  // of warps that exited: written = kept + dropped
  LossCounts losses;
  void add(const DecodeSummary& more) {   // of another replay
    sampled_warps += more.sampled_warps;
    unsampled_warps += more.unsampled_warps;
    records += more.records;
    clocks += more.clocks;
    bytes_written += more.bytes_written;
    bytes_kept += more.bytes_kept;
    bytes_dropped += more.bytes_dropped;
    losses.merge(more.losses);
  }
};

// Called once for each sampled warp, in warp order, records or not. The trace is reused after the call.
using WarpVisitor = std::function<Status(const WarpTrace&)>;

// `headers` are the WarpHeader array as read back. Unsampled warps are checked and not visited.
// bad_input: the map contradicts itself or `kind`, or the header array or slot table is shorter than
// layout.warps needs. Time: linear in the bytes. Memory: the largest warp.
//
// Clocks of 32 bits are extended to 64 from the start clock on: a step is taken modulo 2^32 into [-2^31,
// 2^31), so a pause of more than 2^31 cycles (1.1 s at 1.98 GHz) between two neighbouring clocks of a warp
// reads as a step back, which the invariants report.
Result<DecodeSummary> decode(const wire::AddressMap& map, TraceKind kind, ByteView headers,
                             const DeviceReader& read, const DecodeOptions& options,
                             const WarpVisitor& visit);

}  // namespace xtrace::trace
