// Where in the entry block the rest of the prologue stands: in the shadow of a wait of the kernel's own (prologue.h).
#include <algorithm>
#include <array>

#include "instrument/probes/probes.h"
#include "instrument/prologue.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

// It stores, or uses what the prologue sets: a uniform register, a predicate of lane groups.
bool needs_prologue(const sass::Arch& arch, const sass::RawInst& w, std::optional<sass::enc::Gpr> sector_word) {
  const sass::Effects fx = sass::effects(arch, sass::enc::for_arch(arch, w), 0);
  if (sector_word && fx.use.gpr.test(sector_word->index)) return true;
  return fx.kind != sass::MemKind::none || fx.use.ur.any() || fx.def.ur.any() || fx.use.pred != 0;
}

}  // namespace

Shadows find_shadows(const Code& code, const ProbeBlock& block, InstIndex from, InstIndex to) {
  Shadows found;
  std::array<bool, 6> loads{};   // by scoreboard: signalled by a load from memory, in this block
  for (InstIndex i = block.first; i <= to; ++i) {
    const sass::Control c = sass::get_control(code.insts[i].raw);
    bool load = false;
    for (unsigned sb = 0; sb < 6; ++sb) load |= (c.wait_mask >> sb & 1) && loads[sb];
    if (i >= from && load && !found.memory) found.memory = i;
    if (i >= from && c.wait_mask != 0 && !found.any) found.any = i;
    const sass::Effects& fx = code.insts[i].fx;
    if (c.write_barrier < 6) loads[c.write_barrier] = fx.kind == sass::MemKind::load && fx.space != sass::MemSpace::constant;
  }
  return found;
}

std::optional<InstIndex> first_wait(const Code& code, const Blocks& blocks, const Insertions& insertions, bool reads_clocks,
                                    std::optional<sass::enc::Gpr> sector_word) {
  if (!blocks.runs_once(0)) return std::nullopt;
  const ProbeBlock& entry = blocks.blocks[0];
  InstIndex clear = 0;   // no probe in front of it that needs the prologue
  const auto needs_it = [&](const Sequence& seq) {
    if (!reads_clocks) return !seq.empty();
    return std::any_of(seq.begin(), seq.end(), [&](const sass::RawInst& w) { return needs_prologue(*code.arch, w, sector_word); });
  };
  while (clear < entry.last() && !needs_it(insertions.before[clear]) && !needs_it(insertions.after[clear])) ++clear;
  if (clear == 0) return std::nullopt;
  const Shadows shadows = find_shadows(code, entry, 1, clear);
  if (shadows.memory) return shadows.memory;
  if (shadows.any) return shadows.any;
  if (clear == entry.last()) return clear;
  return std::nullopt;
}

}  // namespace xtrace::instrument
