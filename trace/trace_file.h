// Our trace on disk (docs/trace-format.md): a header with everything a reader needs to interpret the events,
// the warps as columns in zstd frames, and a trailer that says the file is whole. Written and read one warp
// at a time.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "base/types.h"
#include "trace/decode.h"
#include "trace/implied_points.h"
#include "trace/mem_columns.h"
#include "trace/mem_trace.h"
#include "trace/output_file.h"
#include "trace/point_trace.h"
#include "trace/varint.h"
#include "trace/warp_trace.h"

namespace xtrace::trace {

constexpr uint32_t trace_file_version = 8;

// Which launch, and what was run.
struct TraceIdentity {
  std::string bundle;  // name of the recording, as the user gave it
  uint64_t launch_ordinal = 0;
  std::string kernel;  // mangled name
  Hash128 code;        // of the recorded cubin
  Dim3 grid, block;
  uint32_t sm = 0;          // architecture: 90
  std::string device;       // "NVIDIA H200"
  double sm_clock_ghz = 0;  // 0 when not known
  std::string verdict;      // of the replay that emitted the trace; free text with reason codes
  std::vector<std::pair<std::string, std::string>> notes;
  bool operator==(const TraceIdentity&) const = default;
};

struct TraceMeta {
  TraceIdentity identity;
  TraceKind kind = TraceKind::block;
  wire::AddressMap map;
  std::vector<wire::WarpHeader> headers;  // as read back, all warps; for the clock model
  std::vector<std::string> labels;        // of blocks (of sites in a pair trace); may be empty
};

class TraceFileWriter {
 public:
  // Writes to `path`.tmp; finish() renames it. Errors are environment errors with the path (disk full, no
  // permission).
  static Result<std::unique_ptr<TraceFileWriter>> create(const std::filesystem::path& path,
                                                         const TraceMeta& meta, int zstd_level = 3);
  Status add(const WarpTrace& trace);
  // For a mem trace, in place of add(): what decode_mem() visits goes into the file.
  MemVisitor& mem() { return mem_; }
  // For a point trace likewise, what decode_points() visits.
  PointVisitor& points() { return points_; }
  Status finish(const DecodeSummary& summary);
  uint64_t bytes_written() const { return output_.bytes(); }

 private:
  // Each warp, once it is whole, joins the next frame.
  class MemWriter : public MemVisitor {
   public:
    MemWriter(TraceFileWriter& file, const wire::AddressMap& map) : file_(file), encoder_(map) {}
    Status block(uint32_t block, uint32_t active) override;
    Status access(uint32_t index, uint32_t mask, const LaneAddresses& addresses) override;
    Status operands(uint32_t index, uint32_t active, std::span<const uint32_t> words) override;
    Status warp(const MemWarp& warp) override;

   private:
    TraceFileWriter& file_;
    MemEncoder encoder_;
  };
  class PointWriter : public PointVisitor {
   public:
    PointWriter(TraceFileWriter& file, const wire::AddressMap& map) : file_(file), map_(map), encoder_(map_) {}
    Status begin(const PointWarp& warp) override;
    Status event(const PointEvent& event) override;
    Status end(const PointWarp& warp) override;

   private:
    TraceFileWriter& file_;
    const wire::AddressMap map_;
    PointEncoder encoder_;
  };
  TraceFileWriter(int level, const wire::AddressMap& map) : level_(level), mem_(*this, map), points_(*this, map) {}
  Status close_warp(uint64_t records);   // that was appended to pending_
  Status put_frame(uint32_t tag, const std::string& raw);

  OutputFile output_;
  int level_;
  TraceKind kind_ = TraceKind::block;
  std::string pending_;  // encoded warps that make up the next frame
  uint64_t warps_ = 0, records_ = 0;
  MemWriter mem_;
  PointWriter points_;
};

class TraceFileReader {
 public:
  // bad_input: not a trace file, a newer version, a damaged header.
  static Result<std::unique_ptr<TraceFileReader>> open(const std::filesystem::path& path);
  const TraceMeta& meta() const { return meta_; }
  // The next warp; false at the end of a whole file. bad_input when the file is damaged or ends before its
  // trailer, naming how many warps were whole.
  Result<bool> next(WarpTrace& out);
  // The same for a mem trace; the warp is visited.
  Result<bool> next(MemVisitor& visitor);
  Result<bool> next(PointVisitor& visitor);
  // Valid once next() has returned false.
  const DecodeSummary& summary() const { return summary_; }

 private:
  struct Frame {
    uint32_t tag = 0;
    std::string raw;
  };
  explicit TraceFileReader(std::filesystem::path path) : path_(std::move(path)) {}
  Result<Frame> read_frame();
  Result<bool> more();   // the next warp stands at at_ of warps_; false: the file has ended
  Result<bool> close_warp(const VarintReader& in, uint64_t records);
  Status parse_meta(const std::string& raw);
  Status parse_end(const std::string& raw);

  std::filesystem::path path_;
  std::ifstream file_;
  uint64_t file_bytes_ = 0;
  TraceMeta meta_;
  std::vector<AccessRange> ranges_;  // mem
  std::optional<ImpliedPoints> implied_;   // point; once a warp was read
  std::string warps_;  // the current frame
  size_t at_ = 0;      // in it
  uint64_t warps_read_ = 0, records_read_ = 0;
  bool ended_ = false;
  DecodeSummary summary_;
};

}  // namespace xtrace::trace
