// That the hardware has one B0..B15 for the warp, and what it makes of them, was measured on an H200 on 2026-11-30
// (docs/isa.md, How lanes part and meet).
#include "replay/interp/convergence.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "replay/interp/program.h"

namespace xtrace::replay::interp {
namespace {

constexpr unsigned first_uniform_predicate = 8;  // in Warp::preds

uint32_t value_of(const Step& s, uint32_t uniform) {
  return uniform < uniform_registers ? s.regs[s.program->layout.ur(uniform)].lane[0]
                                     : s.warp->preds[first_uniform_predicate + uniform - uniform_registers];
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
  b.stopped |= (b.apart & lanes) != 0 && !b.changes.empty();
  for (size_t k = 0; k < b.held.size(); ++k) b.lost[k] |= b.expecting[k] & ~b.held[k] & ~b.safe[k] & ~b.first;
}

void yielded(Warp& w, uint32_t lanes) {
  WarpBarriers& b = w.shared_barriers;
  others_may_run(w, lanes);
  uint32_t behind = 0;
  for (size_t k = 0; k < b.held.size(); ++k) {
    if ((b.expecting[k] & ~lanes & w.live) == 0) continue;
    b.lost[k] |= b.expecting[k] & lanes;
    behind |= b.expecting[k] & lanes;
  }
  if (b.behind == 0) b.read_behind = {};
  b.written_behind = {};
  b.behind |= behind;
  b.watched = b.apart | b.behind;
}

void together(Warp& w, uint32_t lanes) {
  WarpBarriers& b = w.shared_barriers;
  b.stopped |= (b.apart & lanes) != 0 && !b.changes.empty();
  b.apart &= ~lanes;
  b.watched = b.apart | b.behind;
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
      if ((b.behind & lanes) != 0) b.read |= b.read_behind;
      if ((b.apart & lanes) == 0) {
        b.met_at = path.at - 1;
        b.met_by = static_cast<uint8_t>(barrier);
        b.met_yielded = (b.behind & lanes) != 0;
      }
      b.apart |= lanes;
    }
    b.saved_lost[barrier] &= ~lanes;
    b.behind &= ~lanes;
    b.watched = b.apart | b.behind;
  }
  leave_shared(w, lanes, barrier);
}

void execute_watched(Step& s, const Inst& i, const std::function<void()>& execute) {
  // Uniform registers of probes count what each path writes, and are changed by each.
  if (s.program->spliced) {
    if (s.mask != 0) execute();
    return;
  }
  WarpBarriers& b = s.warp->shared_barriers;
  const auto& [used, defined] = s.program->uniforms[static_cast<size_t>(i.uniforms)];
  const bool behind = (b.behind & s.active) != 0, apart = (b.apart & s.active) != 0;
  if (behind) b.read_behind |= used & ~b.written_behind;
  if (apart) b.read |= used & ~b.written;
  if (s.mask == 0) return;
  std::vector<UniformChange> changes;
  for (uint32_t u = 0; apart && u < defined.size(); ++u)
    if (defined[u] && b.read[u]) changes.push_back({u, value_of(s, u), i.index});
  execute();
  if (behind) b.written_behind |= defined;
  if (!apart) return;
  b.written |= defined & ~b.read;
  for (const UniformChange& c : changes)
    if (std::ranges::find(b.changes, c.which, &UniformChange::which) == b.changes.end()) b.changes.push_back(c);
}

std::optional<UniformChange> lasting_change(const Step& s) {
  WarpBarriers& b = s.warp->shared_barriers;
  b.stopped = false;
  const std::vector<UniformChange> changes = std::exchange(b.changes, {});
  for (const UniformChange& c : changes)
    if (value_of(s, c.which) != c.from) return c;
  return std::nullopt;
}

Fault apart_fault(const Warp& w, const UniformChange& change) {
  const WarpBarriers& b = w.shared_barriers;
  const bool predicate = change.which >= uniform_registers;
  const uint32_t at = b.met_at * sass::inst_bytes;
  return {ErrorKind::unsupported,
          fmt::format("{}{} changes here for one group of lanes while another has yet to read it, and which lanes come together is not "
                      "modelled: {}",
                      predicate ? "UP" : "UR", predicate ? change.which - uniform_registers : change.which,
                      b.met_yielded ? fmt::format("at the BSYNC at {:#06x} the hardware waits for no lanes that yield", at)
                                    : fmt::format("at the BSYNC at {:#06x} lanes of the warp hold different values of convergence barrier "
                                                  "B{}, where the hardware has one for the warp",
                                                  at, b.met_by)),
          -1, "__syncwarp() in the source, between that place and this one, makes all lanes come as one group"};
}

}  // namespace xtrace::replay::interp
