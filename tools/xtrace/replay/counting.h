// The counting replay: how often each block runs, and how many bytes of records each warp will write.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "instrument/instrument.h"
#include "replay/session.h"
#include "trace/wire/record.h"

namespace xtrace::cli {

// A launch on a backend, with what every step of its replay needs.
struct LaunchContext {
  replay::Backend& backend;
  const replay::LaunchImage& launch;
  const instrument::Splicer& splicer;
  replay::CleanReference& reference;   // grows when an instrumented output differs from it
  uint32_t warps = 0, warps_per_cta = 0;
};

// Which warps of the launch are traced.
struct Drawn {
  uint32_t one_in = 1, seed = 0;
  wire::Selection select{};
  uint32_t clock_gap = instrument::usual_clock_gap;   // inst: Plan::clock_gap
  std::optional<bool> whole_sectors{};                // inst, mem: of their records; else as sectors.h says
  bool rotates = false;                               // all one_in classes of CTAs, a replay each: none is left out
  bool has(uint32_t warp, uint32_t warps_per_cta) const { return layout(warps_per_cta).is_sampled(warp); }
  wire::SlotLayout layout(uint32_t warps_per_cta) const {
    wire::SlotLayout l;
    l.one_in = one_in;
    l.seed = seed;
    l.select = select;
    l.warps_per_cta = warps_per_cta;
    l.all_parts = rotates;
    return l;
  }
  // In one replay: of rotated CTAs all.
  uint32_t at_once() const { return rotates ? 1 : one_in; }
};

// Blocks that the bytes of warps leave out (empty: none).
struct LeftOut {
  std::vector<bool> unrecorded;   // Plan::unrecorded: they leave no records
  std::vector<bool> regrouped;    // the same lanes come there each time, in other groups, and each lane once at most
  bool has(size_t block) const { return (!unrecorded.empty() && unrecorded[block]) || regroups(block); }
  bool regroups(size_t block) const { return !regrouped.empty() && regrouped[block]; }
};

struct Counts {
  std::vector<wire::BlockCount> blocks, before;    // of two counting replays
  std::vector<wire::BlockCount> last;              // of these, by the last warp of each CTA, where that has fewer lanes than the others
  uint32_t last_lanes = 32;                        // its lanes
  std::vector<uint32_t> block_bytes, inst_bytes;   // by warp
  std::vector<uint32_t> mem_bytes;                 // likewise, of mem, or of the point probe that was counted for
  bool stable = true;                              // two counting replays agreed
  bool same_output = true;
  std::string difference;                          // of the output, when not the same
  LeftOut left_out;
  bool is_exact() const;                           // nothing is regrouped: a warp's bytes are those that it will write

  // By block: in no counted execution was a lane missing. Holds for blocks that nobody executed, not for those left out.
  // Unrecorded blocks have no executions.
  std::vector<bool> full() const;
  // The same of the lanes that each warp was launched with.
  std::vector<bool> all_launched() const;
  std::vector<uint64_t> executions() const;
};

inline bool has_any(const std::vector<bool>& blocks) { return std::find(blocks.begin(), blocks.end(), true) != blocks.end(); }
// What may lie behind the last slot of a launch whose warps wait for others (RecordForm::spare_bytes).
constexpr uint64_t spare_bytes = 64 << 10;

// `counted`: mem or a point probe. `counted_bytes`: Plan::counted_bytes.
// Warps are counted on whatever SM they run.
Result<Counts> count_launch(LaunchContext& c, const Drawn& drawn,
                            instrument::ProbeKind counted = instrument::ProbeKind::mem, const LeftOut& left_out = {},
                            const std::vector<uint32_t>& counted_bytes = {});
// Bytes of each warp's records where a block's take `by_block`, by one more count; nothing where two counts of them differ.
Result<std::optional<std::vector<uint32_t>>> count_records(LaunchContext& c, const Drawn& drawn, const Counts& counts,
                                                           const std::vector<uint32_t>& by_block);
// Without the blocks that poll (Splicer::polling()), whose executions differ each time. Lanes that leave such a loop one by one may
// come to blocks behind it in other groups each time: where these are the only ones that differ, warps have room for a record of each lane
// there. Not stable: something else differs as well.
Result<Counts> count_without_polls(LaunchContext& c, const Drawn& drawn, const std::vector<bool>& polling);

// How the two replays of `counts` differ beyond what waiting explains: blocks of loops that wait for others, and lanes that come out
// of them in other groups.
std::optional<std::string> path_difference(const LaunchContext& c, const Counts& counts);

// Whether the launch takes other paths than `counts` says, by itself: two counting replays of a kernel that waits by spinning may
// have agreed by chance. Makes some more of them.
Result<bool> paths_vary(LaunchContext& c, const Drawn& drawn, const Counts& counts);

// The same executions were counted twice: by block for the launch, and as `bytes` for each warp, in 32 bits. Where they differ
// a warp went past these, and its slot would be too small: unsupported.
Status check_bytes(const LaunchContext& c, const Counts& counts, instrument::ProbeKind probe,
                   const std::vector<uint32_t>& bytes);

// Loads a cubin, runs `use` with the module, unloads it whatever happens.
template <typename F>
auto with_module(replay::Backend& backend, ByteView cubin, F use) -> decltype(use(replay::ModuleHandle{})) {
  XT_TRY(const replay::ModuleHandle module, backend.load(cubin));
  auto result = use(module);
  const Status unloaded = backend.unload(module);
  if (result && !unloaded) return tl::make_unexpected(unloaded.error());
  return result;
}

// One instrumented replay from restored memory, in microseconds (0 where time is not measured); a launch that does not
// complete is a device error.
Result<double> run_restored(replay::Backend& backend, replay::ModuleHandle module);

}  // namespace xtrace::cli
