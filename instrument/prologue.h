// The code in front of a spliced kernel: which CTA and warp is this, is it sampled, where is its slot.
#pragma once

#include "instrument/instrument.h"
#include "instrument/scratch.h"
#include "instrument/sequence.h"

namespace xtrace::instrument {

struct Prologue {
  Sequence words;
  // Index in `words` of the branch to the untouched copy (its target is set once the layout is known).
  std::optional<size_t> branch_to_copy;
};

// Uses R0..R7 and P0 freely: nothing is live at a kernel's entry. Ends drained: no scoreboard is left outstanding.
Prologue build_prologue(const LaunchShape& shape, const Plan& plan, const wire::SlotLayout& layout,
                        const UniformPlan& uniform);

// Warps of a CTA, as numbered by the prologue.
uint32_t warps_per_cta(const LaunchShape& shape);

}  // namespace xtrace::instrument
