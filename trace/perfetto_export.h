// A timeline for ui.perfetto.dev: one process a streaming multiprocessor, one thread a warp, one slice a
// block (or a pair site), in the protobuf TrackEvent format, written by hand.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "trace/clock_model.h"
#include "trace/output_file.h"
#include "trace/record_gaps.h"
#include "trace/warp_trace.h"

namespace xtrace::trace {

struct PerfettoOptions {
  uint64_t max_slices = 2'000'000;  // about 45 bytes each; the browser gets slow far above
};

struct PerfettoSummary {
  uint64_t slices = 0;           // written
  uint64_t slices_left_out = 0;  // over the limit
  uint64_t warps = 0, bytes = 0;
};

// "B3 sgemm.cu:41" when the caller knows the line (`lines[b]` not empty), else "B3 0x0190".
std::vector<std::string> block_labels(const wire::AddressMap& map, const std::vector<std::string>& lines);

class PerfettoExporter {
 public:
  // `labels`: slice names by block (by site for pair traces); an empty vector takes the default labels.
  // Environment errors when the file can not be written; it appears under its name when finish() succeeds.
  static Result<std::unique_ptr<PerfettoExporter>> create(const std::filesystem::path& path,
                                                          const wire::AddressMap& map, TraceKind kind,
                                                          ClockModel clocks, std::vector<std::string> labels,
                                                          const PerfettoOptions& options);
  // Slices end where the next record of the warp begins (the last one at the warp's exit), so they show what
  // the warp did, waiting included. Those of blocks without a clock of their own (wire::Block::implied) say
  // "(placed)". Where other parts of sparse sites record blocks that may lie between, a slice lasts no longer than it must: by its
  // clocks and its instructions. Losses appear as instant marks.
  Status add(const WarpTrace& trace);
  Result<PerfettoSummary> finish();

 private:
  PerfettoExporter(const wire::AddressMap& map, TraceKind kind, ClockModel clocks,
                   std::vector<std::string> labels, const PerfettoOptions& options);
  Status flush(size_t above);
  void packet(const std::string& body);
  void describe_sm(uint32_t sm);
  void describe_warp(const WarpTrace& trace);
  void slice(uint64_t track, uint64_t begin_ns, uint64_t end_ns, uint32_t index, uint32_t mask);
  void instant(uint64_t track, uint64_t ns, const std::string& name, uint64_t bytes);
  bool ends_at_next(const WarpTrace& trace, uint32_t record) const;
  uint64_t least_end(const WarpTrace& trace, uint32_t record) const;
  uint64_t time_of(const WarpTrace& trace, uint64_t clock) const;
  uint64_t name_iid(uint32_t index, std::string& interned);

  const wire::AddressMap& map_;
  const TraceKind kind_;
  const ClockModel clocks_;
  const std::vector<std::string> labels_;
  const PerfettoOptions options_;
  const RecordGaps gaps_;
  OutputFile output_;
  std::string out_;
  std::vector<bool> named_, sm_described_;
  bool first_packet_ = true;
  uint64_t last_ns_ = 0;
  PerfettoSummary summary_;
};

}  // namespace xtrace::trace
