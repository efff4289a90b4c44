// Classes of CTAs, rotated: a replay each, of one module but for the constants that tell the class, into one buffer with a slot for
// every warp. Each is decoded by itself, so that a CTA that is missing in its own, or was seen in another, is a loss.
#pragma once

#include <string>
#include <vector>

#include "tools/xtrace/replay/counting.h"

namespace xtrace::cli {

struct CtaPart {
  uint32_t number = 0;                     // of the class
  instrument::Spliced spliced;
  replay::ModuleHandle module = 0;
  uint64_t records = 0;
  std::vector<wire::BlockCount> blocks;    // that its CTAs executed
};

// Classes that the launch has a traced warp of; without a rotation the one of the sample.
std::vector<uint32_t> cta_parts_of(const LaunchContext& c, const Drawn& drawn);
// As many modules, of `first`, which is spliced for the first of them.
Result<std::vector<CtaPart>> load_cta_parts(LaunchContext& c, const Drawn& drawn, instrument::Spliced first);
Status unload(LaunchContext& c, std::vector<CtaPart>& parts);
// What the executions of blocks in `now` are above those in `before` (empty: none).
std::vector<wire::BlockCount> less(const std::vector<wire::BlockCount>& now, const std::vector<wire::BlockCount>& before);
// The parts add up to one launch only if each replay takes the same path: unsupported.
tl::unexpected<Error> parts_differ();

}  // namespace xtrace::cli
