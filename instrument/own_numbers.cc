#include "instrument/own_numbers.h"

#include <algorithm>

#include "instrument/scratch.h"

namespace xtrace::instrument {

namespace enc = sass::enc;
using enc::Gpr, enc::Ureg;

OwnNumbers own_numbers(const Code& code, const Insertions& insertions, InstIndex rest, bool loads, uint8_t usable_scoreboards, const sass::RegSet& taken) {
  constexpr BitRange special_field = bits(79, 72);
  OwnNumbers found;
  for (InstIndex i = 0; i < rest; ++i) {
    const sass::Effects& fx = code.insts[i].fx;
    const sass::Control control = sass::get_control(code.insts[i].raw);
    const auto special = get_bits(code.insts[i].raw, special_field);
    const bool of_thread = special >= enc::sr_tid_x && special < enc::sr_tid_x + 3u, of_cta = special >= enc::sr_ctaid_x && special < enc::sr_ctaid_x + 3u;
    if ((fx.mnemonic != "S2R" && fx.mnemonic != "S2UR") || fx.guarded || control.write_barrier >= 6 || (!of_thread && !of_cta)) continue;
    OwnNumber own;
    bool waited = false, kept = (fx.def.gpr & taken).none(), seen = loads || i + 1 < rest || control.stall >= latency::scoreboard_visible;
    for (InstIndex k = i + 1; k < rest; ++k) {
      const sass::Effects& later = code.insts[k].fx;
      kept = kept && (later.def.gpr & fx.def.gpr).none() && (later.def.ur & fx.def.ur).none();
      waited = waited || (sass::get_control(code.insts[k].raw).wait_mask >> control.write_barrier & 1);
    }
    if (!waited) own.wait = static_cast<uint8_t>(1u << control.write_barrier);
    for (unsigned r = 0; r < 255; ++r)
      if (fx.def.gpr.test(r)) own.vector = Gpr{static_cast<uint8_t>(r)};
    for (unsigned r = 0; r < 63; ++r)
      if (fx.def.ur.test(r)) own.uniform = Ureg{static_cast<uint8_t>(r)};
    for (InstIndex k = i; k <= rest; ++k)   // nor has a probe
      for (const Sequence* seq : {&insertions.before[k], &insertions.after[k]})
        for (const sass::RawInst& w : *seq) kept = kept && (sass::effects(*code.arch, enc::for_arch(*code.arch, w), 0).def.gpr & fx.def.gpr).none();
    if (kept && seen && (waited || (usable_scoreboards >> control.write_barrier & 1)))
      found[of_thread ? special - enc::sr_tid_x : 3 + special - enc::sr_ctaid_x] = own;
  }
  return found;
}

InstIndex behind_own_loads(const Code& code, const ProbeBlock& entry, InstIndex rest) {
  InstIndex at = 0;
  for (InstIndex i = entry.first; i < std::min(rest, entry.last()); ++i)
    if (code.insts[i].fx.mnemonic == "S2R" || code.insts[i].fx.mnemonic == "S2UR") at = i + 1;
  return at;
}

}  // namespace xtrace::instrument
