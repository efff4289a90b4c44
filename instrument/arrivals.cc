#include "instrument/arrivals.h"

#include <algorithm>
#include <deque>

#include "instrument/sequence.h"

namespace xtrace::instrument {
namespace {

// Longest time that a result of fixed latency takes (liveness.cc has the figures).
constexpr uint8_t matrix_latency = 48, other_latency = 20;
constexpr uint8_t visible = latency::scoreboard_visible;
// By how much another kind of instruction may read a result of fixed latency sooner than a store or an ALU does: IMAD an IMAD's after
// two cycles, a store after four; DFMA's a store after six, others after eight; uniform ALU's the uniform ALU after four, others after
// six. Predicates are read as operands, no later than anybody reads them. [sass.md 5.1]
constexpr unsigned sooner = 2;
constexpr unsigned first_uniform = 256, first_predicate = 256 + 64;

// f(number) for every register that an instruction reads or writes.
template <typename F>
void each_register(const sass::RegEffects& regs, F f) {
  regs.gpr.for_each(f);
  regs.ur.for_each([&](unsigned r) { f(first_uniform + r); });
  for (unsigned p = 0; p < 7; ++p)
    if (regs.pred >> p & 1) f(first_predicate + p);
}

}  // namespace

unsigned Arrivals::number(File file, uint8_t index) {
  return file == File::vector ? index : file == File::uniform ? first_uniform + index : first_predicate + index;
}

Arrivals::Arrivals(const Code& code) : code_(code), in_(code.insts.size()) {
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    const sass::Effects& fx = code.insts[i].fx;
    if (code.reachable[i] && fx.async_registers) each_register(fx.def, [&](unsigned r) { never_[r] = true; });
  }
  std::deque<InstIndex> work{0};
  std::vector<bool> queued(code.insts.size(), false);
  in_[0].visited = true;
  while (!work.empty()) {
    const InstIndex i = work.front();
    work.pop_front();
    queued[i] = false;
    const State after = step(i);
    for (InstIndex s : code.successors(i)) {
      State& to = in_[s];
      bool changed = !to.visited;
      to.visited = true;
      for (unsigned r = 0; r < registers; ++r) {
        changed |= after.cycles[r] > to.cycles[r] || (after.scoreboards[r] & ~to.scoreboards[r]) != 0 ||
                   after.silent[r] > to.silent[r] || after.written[r] > to.written[r];
        to.silent[r] |= after.silent[r];
        to.written[r] |= after.written[r];
        to.cycles[r] = std::max(to.cycles[r], after.cycles[r]);
        to.scoreboards[r] |= after.scoreboards[r];
      }
      if (changed && !queued[s]) {
        queued[s] = true;
        work.push_back(s);
      }
    }
  }
}

Arrivals::State Arrivals::step(InstIndex i) const {
  const sass::Effects& fx = code_.insts[i].fx;
  const sass::Control c = sass::get_control(code_.insts[i].raw);
  State s = in_[i];
  const auto there = static_cast<uint8_t>(~c.wait_mask);
  for (uint8_t& sb : s.scoreboards) sb &= there;
  // What it reads has arrived.
  if (fx.exact) each_register(fx.use, [&](unsigned r) {
    s.scoreboards[r] = s.cycles[r] = 0;
    s.silent[r] = false;
  });
  const uint8_t latency = fx.mnemonic.ends_with("MMA") ? matrix_latency : other_latency;
  each_register(fx.def, [&](unsigned r) {
    s.written[r] = true;
    s.silent[r] = !fx.fixed_latency && c.write_barrier >= 6;
    if (fx.fixed_latency) s.cycles[r] = std::max(s.cycles[r], latency);
    else if (c.write_barrier < 6) {
      s.scoreboards[r] |= static_cast<uint8_t>(1u << c.write_barrier);
      s.cycles[r] = std::max(s.cycles[r], visible);   // a wait that is nearer does not see it
    }
  });
  for (uint8_t& n : s.cycles) n = static_cast<uint8_t>(n > c.stall ? n - c.stall : 0);
  return s;
}

Arrivals::Needs Arrivals::needs(InstIndex i, bool after, File file, uint8_t index) const {
  const unsigned r = number(file, index);
  const sass::RegEffects& use = code_.insts[i].fx.use;
  const bool reads = file == File::vector ? use.gpr.test(index) : file == File::uniform ? use.ur.test(index)
                                                                                        : (use.pred >> index & 1) != 0;
  const State s = after ? step(i) : in_[i];
  Needs n;
  n.never = never_[r] || !s.written[r];
  if (!after && reads) {
    n.wait_mask = sass::get_control(code_.insts[i].raw).wait_mask;
    if (file != File::predicate) n.cycles = std::min<unsigned>(s.cycles[r], sooner);
    return n;
  }
  n.never |= s.silent[r];
  n.wait_mask = s.scoreboards[r];
  n.cycles = s.cycles[r];
  return n;
}

}  // namespace xtrace::instrument
