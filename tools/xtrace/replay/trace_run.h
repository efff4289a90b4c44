// One replay under a record-writing probe: slots, splice, launch, decode, evidence, and the artefacts once they are earned.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "instrument/slot_plan.h"
#include "tools/xtrace/replay/counting.h"
#include "tools/xtrace/replay/cta_rotation.h"
#include "tools/xtrace/replay/options.h"
#include "tools/xtrace/replay/probe_run.h"
#include "trace/aggregate.h"
#include "trace/plain_slots.h"

namespace xtrace::cli {

// A trace buffer on the device, and how to read what lies in it.
class TraceBuffer {
 public:
  // unsupported when it does not fit beside the launch's memory, with the sizes and what to do.
  static Result<std::unique_ptr<TraceBuffer>> create(replay::Backend& backend, std::span<const uint32_t> bytes,
                                                     uint32_t largest_record, bool wraps,
                                                     instrument::RecordForm form = {});
  ~TraceBuffer();
  TraceBuffer(const TraceBuffer&) = delete;

  const wire::SlotLayout& layout() const { return plan_.layout; }
  uint64_t bytes() const { return plan_.total_bytes; }
  // Before each decoded launch: what another one left, at another sampling rate, would pass for records of this one.
  Status clear();
  // The records that code with this map wrote, for decode(). Valid while the buffer is, until the next clear().
  Result<trace::RecordView> view(const wire::AddressMap& map);
  trace::DeviceReader reader();               // reads ahead in large pieces

  // Other plain slots in the place of this buffer's own: of one size, and no larger.
  Status clear(const wire::SlotLayout& smaller);
  struct Slots {
    uint32_t first_warp = 0, warps = 0;
    Bytes bytes;                              // slot after slot
  };
  // Those of sampled warps, with some of others between them.
  Result<std::vector<Slots>> read_slots(const wire::SlotLayout& smaller);
  std::span<const wire::SlotEntry> entries() const { return plan_.entries; }
  BufferImage image() const;

 private:
  explicit TraceBuffer(replay::Backend& backend) : backend_(backend) {}
  trace::DeviceReader reader(const wire::SlotLayout& slots);
  replay::Backend& backend_;
  instrument::SlotPlan plan_;
  DevPtr buffer_;
  uint64_t ahead_at_ = 0;
  Bytes ahead_;
};

// So that each traced warp has a slot of its own, also one that writes its head alone.
std::vector<uint32_t> with_heads(const LaunchContext& c, const Drawn& drawn, std::vector<uint32_t> bytes);
// Bytes for warps that may take another path than was counted.
std::vector<uint32_t> room_for_more(std::vector<uint32_t> bytes, uint32_t largest_record);

struct TraceRun : ProbeRun {
  BufferImage image() const override { return buffer->image(); }
  std::vector<LoadedPart> loaded() const override;
  std::vector<CtaPart> parts;                 // more than one: CTAs, rotated
  bool rotated = false;
  std::unique_ptr<TraceBuffer> buffer;
  trace::TraceKind kind = trace::TraceKind::block;
  std::optional<trace::Aggregate> aggregate;
  trace::DecodeSummary summary;
  wire::AddressMap map;                       // as the decoded records see it
  uint64_t doubtful_clocks = 0;               // trace::RecordView
  bool clocks_ran_back = false;               // and nothing else is wrong with the trace
  double microseconds = 0;                    // that the launch took
};

// Splices, loads, runs and decodes. `counts` are those of the same sample. Fails only where the run says nothing about
// the probe (refused, no memory, the device is gone).
Result<std::unique_ptr<TraceRun>> run_traced(LaunchContext& c, instrument::ProbeKind probe, const Drawn& drawn, const Counts& counts, bool compare,
                                             const replay::Resources& clean);

}  // namespace xtrace::cli
