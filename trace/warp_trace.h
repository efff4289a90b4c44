// The decoded events of one warp, as columns. One warp is held at a time: a launch has up to hundreds of
// millions of clocks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "trace/loss.h"
#include "trace/wire/address_map.h"
#include "trace/wire/record.h"

namespace xtrace::trace {

// Which kind of records. The names are those of the probes; `point`: of any point probe.
enum class TraceKind : uint8_t { block, inst, pair, mem, point };  // mem: trace/mem_trace.h; point: trace/point_trace.h
std::string_view name_of(TraceKind kind);

// One loss, at the place in the trace where it happened: before record `record` (records() = after the last
// one).
struct LossMark {
  Loss loss = Loss::not_exited;
  uint32_t record = 0;
  uint64_t bytes = 0;  // record bytes that it costs; 0 when none or not known
  bool operator==(const LossMark&) const = default;
};

struct WarpTrace {
  uint32_t warp = 0, cta = 0;  // cta: linear number; warp: in the launch
  uint32_t warp_in_cta = 0;
  uint32_t sm = 0;             // SR_VIRTUALSMID
  uint32_t hardware_slot = 0;  // SR_VIRTID
  uint32_t cta_part = 0;       // of rotated CTAs (SlotLayout::all_parts): the replay in which it was seen
  uint64_t start_clock = 0;    // SM cycles
  uint64_t start_time = 0;     // GLOBALTIMER, ns
  bool exited = false;
  uint64_t exit_clock = 0;  // SM cycles, unwrapped; 0 unless exited

  // Record i: kind[i], index[i] (block or site), mask[i], clocks clock[clock_begin[i] .. clock_begin[i + 1]).
  //   block, edge_begin, edge_end: one clock; pair: before and after; inst: one before each instruction of
  //   the block.
  std::vector<wire::RecordKind> kind;
  std::vector<uint32_t> index, mask;
  std::vector<uint32_t> clock_begin{0};
  std::vector<uint64_t>
      clock;  // SM cycles, 64 bits; a clock earlier than its predecessor is kept as it was read

  // Records are missing before each of these record numbers: 0 = the front is missing, records() = the tail.
  std::vector<uint32_t> gaps;
  std::vector<LossMark> marks;

  // bytes_written = bytes_kept + bytes_dropped, exactly, when the warp exited.
  uint64_t bytes_written = 0, bytes_kept = 0, bytes_dropped = 0;

  uint32_t records() const { return static_cast<uint32_t>(index.size()); }
  std::span<const uint64_t> clocks(uint32_t record) const {
    return {clock.data() + clock_begin[record], clock.data() + clock_begin[record + 1]};
  }
  bool front_missing() const { return !gaps.empty() && gaps.front() == 0; }
  bool tail_missing() const { return !gaps.empty() && gaps.back() == records(); }
  void clear();  // keeps the capacity of the columns
  bool operator==(const WarpTrace&) const = default;
};

}  // namespace xtrace::trace
