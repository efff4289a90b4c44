// `mem`: addresses of every memory access, and what they cost: sectors and wavefronts.
#pragma once

#include "tools/xtrace/replay/emit.h"
#include "tools/xtrace/replay/tensor_maps.h"
#include "tools/xtrace/replay/trace_run.h"
#include "trace/mem_analysis.h"

namespace xtrace::cli {

struct MemRun : ProbeRun {
  BufferImage image() const override { return buffer->image(); }
  std::vector<LoadedPart> loaded() const override {
    std::vector<LoadedPart> all = loaded_parts(parts, rotated, image(), part);
    for (const auto& other : others)
      for (LoadedPart& p : other->loaded()) all.push_back(std::move(p));
    return all;
  }
  std::vector<CtaPart> parts;                 // more than one: CTAs, rotated
  bool rotated = false;
  std::unique_ptr<TraceBuffer> buffer;
  std::vector<trace::AccessStats> accesses;   // as spliced.map.accesses
  std::unique_ptr<LaunchTensorMaps> maps;
  std::vector<std::string> not_covered;       // "HGMMA ... at 0x120: why"
  uint32_t part = 0;                          // of sparse sites
  uint64_t own_records = 0;                   // of this part alone
  std::vector<std::unique_ptr<MemRun>> others;   // rotated: the other parts; evidence and sums above are of all of them
};

// LaunchShape::low_words_tell, as far as it is known before a module is loaded: the loader puts its variables where it likes.
bool low_words_may_tell(const bundle::LaunchRecord& launch);

Result<std::unique_ptr<MemRun>> run_addresses(LaunchContext& c, const Drawn& drawn, const Counts& counts,
                                              bool compare, const replay::Resources& clean);

// All parts of sparse sites, one after the other, each counted for itself; parts without an access are left out.
Result<std::unique_ptr<MemRun>> rotate_addresses(LaunchContext& c, uint32_t sites_one_in, const Drawn& drawn, bool compare,
                                                 const replay::Resources& clean);

// The trace file (rotated: one of each part), the table's files, and the table in `config`. Runs the probe once more, as emit_trace() does.
Status emit_mem(const EmitContext& e, MemRun& run, diff::ConfigReport& config);

}  // namespace xtrace::cli
