// One probe at one sampling rate, replayed: what was spliced, what was seen, and its module, which stays loaded for timing.
#pragma once

#include <string>

#include "diff/report.h"
#include "tools/xtrace/replay/counting.h"
#include "tools/xtrace/replay/cta_rotation.h"
#include "tools/xtrace/replay/timing_process.h"
#include "trace/decode.h"

namespace xtrace::cli {

// A module of a run. More than one: parts of sparse sites and classes of CTAs, rotated and merged.
struct LoadedPart {
  uint32_t number = 0, cta_part = 0;
  const instrument::Spliced* spliced = nullptr;
  replay::ModuleHandle module = 0;
  BufferImage buffer;
  uint64_t records = 0;
  const std::vector<wire::BlockCount>* blocks = nullptr;   // that its CTAs executed, where they are not all that was counted
};

// Modules of the classes of one run, as parts of it; `site_part`: of sparse sites.
std::vector<LoadedPart> loaded_parts(const std::vector<CtaPart>& parts, bool rotated, const BufferImage& buffer, uint32_t site_part = 0);

struct ProbeRun {
  virtual ~ProbeRun() = default;
  virtual BufferImage image() const = 0;   // of the buffer that the code writes to
  virtual std::vector<LoadedPart> loaded() const { return {{0, 0, &spliced, module, image(), records}}; }
  instrument::Spliced spliced;
  replay::ModuleHandle module = 0;
  uint64_t records = 0;
  trace::LossCounts losses;
  diff::SemanticEvidence semantics;
  diff::SpatialEvidence space;
};

// Facts about clean replays and recording, for every configuration's evidence: after its last compare_now().
void add_clean_facts(const LaunchContext& c, diff::SemanticEvidence& e);
// Compares outputs now in memory with the reference, into `e`. Where they differ the reference is made from more clean
// replays, which leave their own outputs in memory.
Status compare_now(LaunchContext& c, replay::ModuleHandle module, diff::SemanticEvidence& e);
// What `counted` (a counting replay of the same sample) and the trace say of each block.
Status compare_path(const LaunchContext& c, const wire::AddressMap& map, const Counts& counts, std::span<const wire::BlockCount> traced,
                    diff::SemanticEvidence& e);
// Where it is not known beforehand which warps are traced: each of them wrote as much as was counted of it.
void compare_warps(const trace::DecodeSummary& summary, diff::SemanticEvidence& e);
void add_losses(const trace::LossCounts& losses, diff::SemanticEvidence& e);
diff::SpatialEvidence space_of(const LaunchContext& c, const instrument::SpliceReport& splice,
                               const replay::Resources& clean, const replay::Resources& probed, uint64_t trace_bytes);
std::vector<diff::LossCount> losses_of(const trace::LossCounts& losses);

}  // namespace xtrace::cli
