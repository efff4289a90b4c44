// That the hardware has one B0..B15 for the warp, and what it makes of them, was measured on an H200 on 2026-11-30
// (docs/isa.md, How lanes part and meet).
#include "replay/interp/convergence.h"

#include <array>
#include <bit>

#include "instrument/sass/effects.h"
#include "replay/interp/program.h"

namespace xtrace::replay::interp {
namespace {

constexpr unsigned uniform_registers = 63, uniform_predicates = 7, first_uniform_predicate = 8;

// The uniform registers of a warp, and behind them the uniform predicates.
struct Uniforms {
  std::array<uint32_t, uniform_registers + uniform_predicates> values;
  explicit Uniforms(const Step& s) {
    for (unsigned u = 0; u < uniform_registers; ++u) values[u] = s.regs[s.program->layout.ur(u)].lane[0];
    for (unsigned u = 0; u < uniform_predicates; ++u)
      values[uniform_registers + u] = s.warp->preds[first_uniform_predicate + u];
  }
};

UniformSet uniforms_of(const sass::RegEffects& e) {
  UniformSet set;
  for (unsigned u = 0; u < uniform_registers; ++u) set[u] = e.ur[u];
  for (unsigned u = 0; u < uniform_predicates; ++u) set[uniform_registers + u] = (e.upred >> u & 1) != 0;
  return set;
}

}  // namespace

void join_shared(Warp& w, uint32_t lanes, unsigned barrier) {
  WarpBarriers& b = w.shared_barriers;
  b.held[barrier] |= lanes;
  b.expecting[barrier] |= lanes;
  b.lost[barrier] = (b.lost[barrier] & ~lanes) | (lanes & b.apart);  // those that are apart do not join it as one
}

void leave_shared(Warp& w, uint32_t lanes, unsigned barrier) {
  WarpBarriers& b = w.shared_barriers;
  b.held[barrier] &= ~lanes;
  b.expecting[barrier] &= ~lanes;
  b.lost[barrier] &= ~lanes;
  b.safe[barrier] &= ~lanes;
}

void clear_shared(Warp& w, uint32_t lanes, unsigned barrier) {
  WarpBarriers& b = w.shared_barriers;
  b.saved_lost[barrier] |= b.lost[barrier] & lanes;
  leave_shared(w, lanes, barrier);
  b.held[barrier] = 0;
}

void write_shared(Warp& w, uint32_t lanes, unsigned barrier, uint32_t named) {
  WarpBarriers& b = w.shared_barriers;
  b.held[barrier] = named;
  b.expecting[barrier] = (b.expecting[barrier] & ~lanes) | (lanes & named);
  b.lost[barrier] = (b.lost[barrier] & ~lanes) | (lanes & named & b.saved_lost[barrier]);
}

void parted(Warp& w, uint32_t lanes, uint32_t taken) {
  const uint32_t on = lanes & ~taken;
  w.shared_barriers.first = (w.shared_barriers.first & ~lanes) | (std::popcount(taken) < std::popcount(on) ? taken : on);
}

void come_to_barrier(Warp& w, uint32_t lanes, unsigned barrier) {
  WarpBarriers& b = w.shared_barriers;
  b.safe[barrier] |= lanes & b.first & b.expecting[barrier] & ~b.lost[barrier];
}

void others_may_run(Warp& w, uint32_t lanes) {
  WarpBarriers& b = w.shared_barriers;
  b.first &= ~lanes;
  for (size_t k = 0; k < b.held.size(); ++k) b.lost[k] |= b.expecting[k] & ~b.held[k] & ~b.safe[k] & ~b.first;
}

void met(Warp& w, const Path& path, uint32_t lanes) {
  WarpBarriers& b = w.shared_barriers;
  if (path.state == PathState::at_warpsync) return together(w, lanes);
  const unsigned barrier = path.barrier;
  if ((b.lost[barrier] & lanes) == 0) {
    together(w, lanes);
  } else {
    if ((lanes & ~path.mask) != 0) {  // of one path nobody waited
      if (b.apart == 0) b.read = b.written = {};
      b.apart |= lanes;
      b.met_at = path.at - 1;
      b.met_by = static_cast<uint8_t>(barrier);
    }
    b.saved_lost[barrier] &= ~lanes;
  }
  leave_shared(w, lanes, barrier);
}

void execute_apart(Step& s, const Inst& i) {
  // Uniform registers of probes count what each path writes, and are changed by each.
  if (s.program->spliced) {
    if (s.mask != 0) i.exec(s, i);
    return;
  }
  WarpBarriers& b = s.warp->shared_barriers;
  const sass::Effects e = sass::effects(*s.program->arch, s.program->words[i.index], i.pc);
  const UniformSet defined = uniforms_of(e.def);
  b.read |= uniforms_of(e.use) & ~b.written;
  if (s.mask == 0) return;
  const Uniforms before(s);
  i.exec(s, i);
  if (s.faulted) return;
  b.written |= defined & ~b.read;
  if ((defined & b.read).none()) return;
  const Uniforms after(s);
  for (unsigned u = 0; u < defined.size(); ++u) {
    if (!defined[u] || !b.read[u] || before.values[u] == after.values[u]) continue;
    s.fail(ErrorKind::unsupported,
           fmt::format("{}{} changes once for each group of lanes that comes here, and which lanes come together is not modelled: at "
                       "the BSYNC at {:#06x} lanes of the warp hold different values of convergence barrier B{}, where the hardware "
                       "has one for the warp",
                       u < uniform_registers ? "UR" : "UP", u < uniform_registers ? u : u - uniform_registers,
                       b.met_at * sass::inst_bytes, b.met_by));
    s.fault.hint = "__syncwarp() in the source, between that place and this one, makes all lanes come as one group";
    return;
  }
}

}  // namespace xtrace::replay::interp
