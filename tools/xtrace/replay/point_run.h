// A point probe: what happens at some points of the kernel, in one replay or in several sparse ones.
#pragma once

#include "tools/xtrace/replay/emit.h"
#include "tools/xtrace/replay/trace_run.h"
#include "trace/point_analysis.h"

namespace xtrace::cli {

struct PointRun : ProbeRun {
  struct Part {                             // a replay
    std::shared_ptr<TraceBuffer> buffer;    // one for all classes of CTAs
    CtaPart of;                             // its module
    uint32_t number = 0;                    // of sparse sites
    bool varies = false;                    // takes other paths each time, or waits for others
  };
  BufferImage image() const override { return parts.front().buffer->image(); }
  std::vector<LoadedPart> loaded() const override {
    std::vector<LoadedPart> all;
    for (const Part& p : parts)
      all.push_back({p.number, p.of.number, &p.of.spliced, p.of.module, p.buffer->image(), p.of.records, rotated ? &p.of.blocks : nullptr});
    return all;
  }
  bool rotated = false;                     // CTAs
  instrument::ProbeKind probe{};
  std::vector<Part> parts;                  // more than one: sparse sites or CTAs, rotated
  wire::AddressMap map;                     // of all parts together
  std::optional<trace::PointAnalysis> analysis;
  std::vector<std::string> names;           // of regions
};

// Counts for itself. `rotate`: all parts of sparse sites, one after the other; else the first alone.
Result<std::unique_ptr<ProbeRun>> run_points(LaunchContext& c, instrument::ProbeKind probe, const Sample& sample, const Drawn& drawn,
                                             bool rotate, bool compare, const replay::Resources& clean);

// The trace file, the timeline of what has begin and end (one replay), and the table. Runs the probe once more.
Status emit_points(const EmitContext& e, PointRun& run, diff::ConfigReport& config);

}  // namespace xtrace::cli
