// What a Splicer holds: the kernel as it was read, shared by all that are made of it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "instrument/blocks.h"
#include "instrument/code.h"
#include "instrument/cubin/image.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/decision.h"
#include "instrument/instrument.h"
#include "instrument/lane_bases.h"
#include "instrument/liveness.h"
#include "instrument/probes/probes.h"
#include "instrument/prologue.h"

namespace xtrace::instrument {

struct Splicer::Counted {
  std::vector<bool> full_blocks, whole;   // by block, by instruction
  LaneBases lanes;
  bool lines = true;
};

struct Splicer::Impl {
  Bytes cubin;
  LaunchShape shape;
  cubin::Image image;
  cubin::KernelInfo info;
  Code code;
  Blocks blocks;
  Liveness liveness;
  wire::AddressMap map;   // blocks only

  Scope scope(const Splicer& s) const {
    return {shape, s.places_, s.counted_->lanes, *s.asked_, s.counted_->whole, s.counted_->lines, s.sites_, s.low_words_tell_};
  }
  Spliced original() const;
  Status put_together(const Insertions& insertions, Prologue prologue, std::optional<Decision> decision, Spliced& out) const;
};

const ProbeBody& body_of(ProbeKind probe);
LaunchFacts facts_of(const LaunchShape& shape, const cubin::KernelInfo& info, const Code& code, const Blocks& blocks);

}  // namespace xtrace::instrument
