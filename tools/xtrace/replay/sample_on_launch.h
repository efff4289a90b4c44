// What a sample that was asked for means on one launch: which CTAs and warps, and whether a probe can take it.
#pragma once

#include <optional>
#include <string>

#include "tools/xtrace/replay/counting.h"
#include "tools/xtrace/replay/options.h"

namespace xtrace::cli {

// Clusters as the CTAs in them, and what Sample::choose leaves open. `rotate`: over classes of CTAs, where it has some.
// unsupported: there are no clusters, or they are too many separate ranges.
Result<Sample> on_launch(Sample sample, const bundle::LaunchRecord& launch, bool rotate);
// Sparse executions are of events that stand for themselves; others refuse them by name.
Status makes_sense(instrument::ProbeKind probe, const Sample& sample);
// Sparse replays that a rotation makes: parts beyond the last instruction hold nothing.
uint32_t parts_of(const instrument::Splicer& splicer, const Sample& sample, bool rotate);
// Which warps. `seed`: that of the replay; `wave`: CTAs that fit on the GPU at once.
Drawn drawn(const Sample& sample, uint32_t seed, uint32_t wave);
// unsupported: no warp of the launch is in the sample.
Status selects_some(const Sample& sample, const Drawn& drawn, const bundle::LaunchRecord& launch, uint32_t warps_per_cta);
// A warning where sampled CTAs are of a last wave that does not fill the GPU: they have fewer neighbours than the others.
std::optional<std::string> tail_of(const Sample& sample, const Drawn& drawn, const bundle::LaunchRecord& launch, uint32_t wave,
                                   uint32_t warps_per_cta);

}  // namespace xtrace::cli
