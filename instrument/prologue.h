// The code in front of a spliced kernel: which CTA and warp is this, where is its slot. Who is traced is decided before
// (decision.h).
#pragma once

#include "instrument/instrument.h"
#include "instrument/relocate.h"
#include "instrument/scratch.h"
#include "instrument/sequence.h"

namespace xtrace::instrument {

// Most prologues stand in front of the kernel as a whole. A light one only reads its clocks there. Its loads of special registers stand behind
// the kernel's own ones, in front of instruction `loads_at` of the entry block: each takes some 24 cycles from the next [measured H200]. The rest,
// which needs them, stands where the kernel itself first waits for something: in front of instruction `rest_at`.
struct Prologue {
  Sequence words;
  Sequence loads;
  InstIndex loads_at = 0;
  Sequence rest;
  InstIndex rest_at = 0;
  // Cycles that must pass between the end of `rest` (or of `words`, when it is empty) and the first record, or the first
  // use of a lane group.
  unsigned settle = 0;
};

// A SlotHead that the prologue leaves in registers: it is stored together with the first record.
struct HeldHead {
  InstIndex rest_at = 0;
  Holder loads, head;       // quads: the SlotHead ends up in head.r(0) and head.r(1), its place plus lead_bytes plus
                            // `record_bytes` in loads.r(2) and loads.r(3)
  uint32_t record_bytes = 0;   // of that record: the cursor starts behind it
};

// R2UR, and what its result needs beyond the stall: where it has variable latency, a wait for it on scoreboard `sb`.
void to_uniform(const sass::Arch& arch, Sequence& seq, sass::enc::Ureg to, sass::enc::Gpr from, unsigned stall, uint8_t sb);

// Plain slots of one size inside one 4 GiB window: few instructions, and they can be spread.
bool has_light_prologue(const Plan& plan, const wire::SlotLayout& layout);

// Where the kernel waits for a result anyway, in [from, to] of one block: what stands in front of it costs little.
struct Shadows {
  std::optional<InstIndex> memory;   // the first wait for a load from memory that was issued in the block
  std::optional<InstIndex> any;      // the first wait for anything
};
Shadows find_shadows(const Code& code, const ProbeBlock& block, InstIndex from, InstIndex to);

// Where the rest of a light prologue can stand: where the kernel first waits, in the entry block, for memory if it does;
// our loads are under way beside its own until then. Nothing when the entry is jumped to, or when a probe stands in front
// of the first wait; with `reads_clocks` one that stores, or uses what the prologue sets, `sector_word` among that.
std::optional<InstIndex> first_wait(const Code& code, const Blocks& blocks, const Insertions& insertions, bool reads_clocks = false,
                                    std::optional<sass::enc::Gpr> sector_word = std::nullopt);
// Probes in the entry block may read clocks before the rest of the prologue (inst with implied clocks).
bool may_read_clocks_early(const Plan& plan, const wire::SlotLayout& layout, const Blocks& blocks);

// Registers that a probe holds for the whole kernel.
struct LaneRegisters {
  std::optional<sass::enc::Gpr> offset;   // 4 * lane
  std::optional<LaneMasks> masks;         // of the lane groups
  std::optional<sass::enc::Gpr> sector_word;   // 4 * (lane / 4)
  std::optional<LaneWords> words;
};

// `insertions` are the probe's: the rest of a light prologue stands in front of all of them. `groups`: the lane groups that
// the probe uses, if it does. `lanes`: to be set. Takes registers from `scratch`.
// Classic prologues end drained: no scoreboard is left outstanding.
Prologue build_prologue(const Code& code, const Blocks& blocks, const LaunchShape& shape, const Plan& plan,
                        const wire::SlotLayout& layout, const std::optional<LaneGroups>& groups,
                        const std::optional<HeldHead>& held, const LaneRegisters& lanes,
                        const Insertions& insertions, Scratch& scratch);

// Warps of a CTA, as numbered by the prologue.
uint32_t warps_per_cta(const LaunchShape& shape);

}  // namespace xtrace::instrument
