#include "instrument/liveness.h"

#include <algorithm>
#include <deque>

#include "instrument/collective.h"

namespace xtrace::instrument {
namespace {

using sass::Effects;
using sass::RegSet;

void merge(LiveSet& into, const LiveSet& from) {
  into.gpr |= from.gpr;
  into.ur |= from.ur;
  into.pred |= from.pred;
  into.upred |= from.upred;
}

// Live before an instruction, from what is live after it.
LiveSet transfer(const Effects& fx, const LiveSet& after) {
  LiveSet before = after;
  if (!fx.guarded) {
    before.gpr &= ~fx.def.gpr;
    before.ur &= ~fx.def.ur;
    before.pred &= static_cast<sass::PredSet>(~fx.def.pred);
    before.upred &= static_cast<sass::PredSet>(~fx.def.upred);
  }
  before.gpr |= fx.use.gpr;
  before.ur |= fx.use.ur;
  before.pred |= fx.use.pred;
  before.upred |= fx.use.upred;
  return before;
}

std::vector<std::vector<InstIndex>> predecessors(const Code& code) {
  std::vector<std::vector<InstIndex>> preds(code.insts.size());
  for (InstIndex i = 0; i < code.insts.size(); ++i)
    if (code.reachable[i])
      for (InstIndex s : code.successors(i)) preds[s].push_back(i);
  return preds;
}

}  // namespace

std::optional<InOrder> comes_in_order(const Effects& fx) {
  constexpr std::array<std::string_view, kinds_in_order> mnemonics = {"LDS", "MOVM", "F2F"};
  const auto kind = std::find(mnemonics.begin(), mnemonics.end(), fx.mnemonic);
  if (kind == mnemonics.end()) return std::nullopt;
  return static_cast<InOrder>(kind - mnemonics.begin());
}

Liveness::Liveness(const Code& code) {
  find_live(code);
  find_pending(code);
  find_held(code);
}

void Liveness::find_held(const Code& code) {
  constexpr uint32_t unlimited = 256;
  const auto n = static_cast<InstIndex>(code.insts.size());
  held_.assign(n, unlimited);
  const auto limit = [&](InstIndex i) {
    const Effects& fx = code.insts[i].fx;
    return code.reachable[i] && fx.changes_register_limit ? std::min(fx.register_limit, unlimited) : unlimited;
  };
  std::vector<uint32_t> earlier(n, unlimited), later(n, unlimited);
  bool again = std::any_of(code.insts.begin(), code.insts.end(),
                           [](const CodeInst& i) { return i.fx.changes_register_limit; });
  while (again) {
    again = false;
    const auto lower = [&](uint32_t& to, uint32_t from) {
      again |= from < to;
      to = std::min(to, from);
    };
    for (InstIndex i = 0; i < n; ++i) {
      if (!code.reachable[i]) continue;
      for (InstIndex s : code.successors(i)) lower(earlier[s], std::min(earlier[i], limit(i)));
    }
    for (InstIndex i = n; i-- > 0;) {
      if (!code.reachable[i]) continue;
      lower(later[i], limit(i));
      for (InstIndex s : code.successors(i)) lower(later[i], later[s]);
    }
  }
  for (InstIndex i = 0; i < n; ++i) held_[i] = std::min(earlier[i], later[i]);
}

void Liveness::find_live(const Code& code) {
  const auto preds = predecessors(code);
  live_in_.resize(code.insts.size());
  std::vector<bool> queued(code.insts.size(), false);
  std::deque<InstIndex> work;
  for (InstIndex i = static_cast<InstIndex>(code.insts.size()); i-- > 0;)
    if (code.reachable[i]) {
      work.push_back(i);
      queued[i] = true;
    }
  while (!work.empty()) {
    const InstIndex i = work.front();
    work.pop_front();
    queued[i] = false;
    LiveSet after;
    for (InstIndex s : code.successors(i)) merge(after, live_in_[s]);
    LiveSet before = transfer(code.insts[i].fx, after);
    if (before == live_in_[i]) continue;
    live_in_[i] = before;
    for (InstIndex p : preds[i])
      if (!queued[p]) {
        queued[p] = true;
        work.push_front(p);
      }
  }
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    if (!code.reachable[i]) continue;
    const Effects& fx = code.insts[i].fx;
    if (fx.async_registers) poisoned_ |= fx.def.gpr | fx.use.gpr;
    mentioned_ur_ |= fx.use.ur | fx.def.ur;
    mentioned_pred_ |= static_cast<sass::PredSet>(fx.use.pred | fx.def.pred);
  }
  // Between WARPSYNC.COLLECTIVE and ENDCOLLECTIVE lanes of other ones may be there, which need what is live where they go on.
  const std::vector<Collective> collectives = find_collectives(code);
  LiveSet elsewhere;
  for (const Collective& c : collectives) merge(elsewhere, live_in_[c.target]);
  for (const Collective& c : collectives)
    for (InstIndex i = c.at + 1; i < c.target && i < code.insts.size(); ++i) merge(live_in_[i], elsewhere);
}

// Longest time that a fixed-latency result takes: 21 to 33 cycles for matrix instructions, at most 14 for the rest
// (sass.md 5.1); with room to spare.
constexpr uint8_t matrix_latency = 48, other_latency = 20;
// And longest time until a fixed-latency instruction has read its sources: vendor code overwrites those of matrix
// instructions after 7 cycles at the earliest, others after 1 or 2 (sass.md 5.1).
constexpr uint8_t matrix_read = 16, other_read = 2;

void Liveness::pass_results(const CodeInst& inst, Pending& pending) {
  const Effects& fx = inst.fx;
  const sass::Control control = sass::get_control(inst.raw);
  for (uint8_t& c : pending.latency) c = static_cast<uint8_t>(c > control.stall ? c - control.stall : 0);
  for (uint8_t& c : pending.predicate_latency) c = static_cast<uint8_t>(c > control.stall ? c - control.stall : 0);
  if (fx.exact)
    for (RegSet& untold : pending.untold) untold &= ~(fx.use.gpr | fx.def.gpr);
  for (unsigned sb = 0; sb < 6; ++sb) {
    const bool waited = (control.wait_mask >> sb & 1) != 0;
    if (waited) pending.results[sb].reset();
    if (waited) pending.predicates[sb] = 0;
    if (!fx.exact) continue;
    pending.results[sb] &= ~(fx.use.gpr | fx.def.gpr);
    pending.predicates[sb] &= static_cast<sass::PredSet>(~(fx.use.pred | fx.def.pred));
  }
  const uint8_t latency = fx.mnemonic.ends_with("MMA") ? matrix_latency : other_latency;
  for (unsigned r = 0; r < 255; ++r) {
    if (fx.exact && fx.use.gpr.test(r)) pending.latency[r] = 0;
    if (fx.def.gpr.test(r)) pending.latency[r] = fx.fixed_latency ? latency : 0;
  }
  for (unsigned p = 0; p < 7; ++p) {
    if (fx.exact && (fx.use.pred >> p & 1)) pending.predicate_latency[p] = 0;
    if (fx.def.pred >> p & 1) pending.predicate_latency[p] = fx.fixed_latency ? latency : 0;
  }
  if (fx.fixed_latency) return;
  if (const auto kind = comes_in_order(fx)) {
    RegSet& untold = pending.untold[static_cast<size_t>(*kind)];
    untold |= fx.def.gpr;
    if (control.write_barrier < 6) {
      pending.results[control.write_barrier] |= untold;
      untold.reset();
    }
    return;
  }
  if (control.write_barrier >= 6) return;
  pending.results[control.write_barrier] |= fx.def.gpr;
  pending.predicates[control.write_barrier] |= fx.def.pred;
}

void Liveness::find_pending(const Code& code) {
  const size_t n = code.insts.size();
  taken_.reserve(n);
  taken_pred_.assign(n, 0);
  outstanding_.assign(n, 0);
  struct State {
    Pending pending;
    uint8_t outstanding = 0;
    bool visited = false;
  };
  const auto step = [&](InstIndex i, State state) {
    const Effects& fx = code.insts[i].fx;
    const sass::Control control = sass::get_control(code.insts[i].raw);
    for (unsigned sb = 0; sb < 6; ++sb)
      if (control.wait_mask >> sb & 1) {
        state.pending.scoreboard[sb].reset();
        state.outstanding &= static_cast<uint8_t>(~(1u << sb));
      }
    uint8_t own = sass::Control::no_barrier;
    for (uint8_t barrier : {control.write_barrier, control.read_barrier})
      if (barrier < 6) {
        state.outstanding |= static_cast<uint8_t>(1u << barrier);
        own = barrier;   // the read barrier when there are both: it is released first
      }
    for (uint8_t& c : state.pending.cycles) c = static_cast<uint8_t>(c > control.stall ? c - control.stall : 0);
    const bool matrix = fx.mnemonic.ends_with("MMA");
    if (fx.fixed_latency) {
      const uint8_t read = matrix ? matrix_read : other_read;
      for (unsigned r = 0; r < 255 && read > control.stall; ++r)
        if (fx.use.gpr.test(r))
          state.pending.cycles[r] = std::max(state.pending.cycles[r], static_cast<uint8_t>(read - control.stall));
    }
    pass_results(code.insts[i], state.pending);
    if (!fx.fixed_latency && control.write_barrier >= 6) {
      if (!comes_in_order(fx)) poisoned_ |= fx.def.gpr;
      poisoned_pred_ |= fx.def.pred;
    }
    const bool queued_op = fx.late_queue == sass::LateQueue::lsu || fx.late_queue == sass::LateQueue::xu;
    if (fx.late_queue == sass::LateQueue::other && own < 6) state.pending.scoreboard[own] |= fx.use.gpr;
    if (queued_op) {
      RegSet& queue = state.pending.queue[fx.late_queue == sass::LateQueue::xu];
      queue |= fx.use.gpr;
      if (own < 6) {   // covers every earlier reader of its queue as well
        state.pending.scoreboard[own] |= queue;
        queue.reset();
      }
    }
    return state;
  };
  std::vector<State> in(n);
  std::deque<InstIndex> work{0};
  std::vector<bool> queued(n, false);
  in[0].visited = true;
  while (!work.empty()) {
    const InstIndex i = work.front();
    work.pop_front();
    queued[i] = false;
    const State state = step(i, in[i]);
    const Effects& fx = code.insts[i].fx;
    const sass::Control own = sass::get_control(code.insts[i].raw);
    const bool signals = own.write_barrier < 6 || own.read_barrier < 6;
    if (fx.late_queue == sass::LateQueue::branch || (fx.late_queue == sass::LateQueue::other && !signals))
      poisoned_ |= fx.use.gpr;
    for (InstIndex s : code.successors(i)) {
      State& to = in[s];
      bool changed = !to.visited;
      to.visited = true;
      const auto join = [&](RegSet& into, const RegSet& from) {
        changed |= (from & ~into).any();
        into |= from;
      };
      const auto raise = [&](auto& into, const auto& from) {
        for (size_t r = 0; r < into.size(); ++r) {
          changed |= from[r] > into[r];
          into[r] = std::max(into[r], from[r]);
        }
      };
      const Pending& p = state.pending;
      for (unsigned sb = 0; sb < 6; ++sb) {
        join(to.pending.scoreboard[sb], p.scoreboard[sb]);
        join(to.pending.results[sb], p.results[sb]);
        changed |= (p.predicates[sb] & ~to.pending.predicates[sb]) != 0;
        to.pending.predicates[sb] |= p.predicates[sb];
      }
      for (unsigned q = 0; q < 2; ++q) join(to.pending.queue[q], p.queue[q]);
      for (size_t k = 0; k < kinds_in_order; ++k) join(to.pending.untold[k], p.untold[k]);
      raise(to.pending.cycles, p.cycles);
      raise(to.pending.latency, p.latency);
      raise(to.pending.predicate_latency, p.predicate_latency);
      changed |= (to.outstanding | state.outstanding) != to.outstanding;
      to.outstanding |= state.outstanding;
      if (changed && !queued[s]) {
        queued[s] = true;
        work.push_back(s);
      }
    }
  }
  for (InstIndex i = 0; i < n; ++i) {
    const Pending& p = in[i].pending;
    for (const sass::PredSet set : p.predicates) taken_pred_[i] |= set;
    for (unsigned k = 0; k < 7; ++k)
      if (p.predicate_latency[k] > 0) taken_pred_[i] |= static_cast<sass::PredSet>(1u << k);
    outstanding_[i] = in[i].outstanding;
    taken_.push_back(taken(p));
  }
}

Liveness::Taken Liveness::taken(const Pending& p) {
  Taken t;
  for (const RegSet& queue : p.queue) t.otherwise |= queue;
  for (const RegSet& untold : p.untold) t.otherwise |= untold;
  for (unsigned r = 0; r < 255; ++r)
    if (p.cycles[r] > 0 || p.latency[r] > 0) t.otherwise.set(r);
  t.all = t.otherwise;
  for (unsigned sb = 0; sb < 6; ++sb) {
    t.scoreboard[sb] = p.scoreboard[sb] | p.results[sb];
    t.all |= t.scoreboard[sb];
  }
  return t;
}

sass::RegSet Liveness::writable_between(InstIndex from, InstIndex to, uint32_t limit) const {
  sass::RegSet writable = writable_before(from, limit);
  for (InstIndex i = from + 1; i <= to; ++i) writable &= writable_before(i, limit);
  return writable;
}

sass::RegSet Liveness::writable_before(InstIndex i, uint32_t limit) const { return writable(i, limit, taken_[i].all); }

sass::RegSet Liveness::writable_after_wait(InstIndex i, uint32_t limit, uint8_t scoreboards) const {
  return writable(i, limit, taken_after_wait(i, scoreboards));
}

sass::RegSet Liveness::taken_after_wait(InstIndex i, uint8_t scoreboards) const {
  RegSet others = taken_[i].otherwise;
  for (unsigned sb = 0; sb < 6; ++sb)
    if ((scoreboards >> sb & 1) == 0) others |= taken_[i].scoreboard[sb];
  return others;
}

sass::RegSet Liveness::writable(InstIndex i, uint32_t limit, const RegSet& taken) const {
  return below(i, limit, ~(live_in_[i].gpr | taken | poisoned_));
}

sass::RegSet Liveness::settled_before(InstIndex i, uint32_t limit, uint8_t scoreboards) const {
  return below(i, limit, ~(taken_after_wait(i, scoreboards) | poisoned_));
}

// Of a set, those below the limit that the warp holds.
sass::RegSet Liveness::below(InstIndex i, uint32_t limit, RegSet r) const {
  const uint32_t held = held_[i] < 256 ? held_[i] - std::min(held_[i], reserved_registers) : 256;
  for (uint32_t reg = std::min(limit, held); reg < 256; ++reg) r.reset(reg);
  return r;
}

sass::PredSet Liveness::writable_predicates_before(InstIndex i) const {
  return static_cast<sass::PredSet>(settled_predicates_before(i) & ~live_in_[i].pred);
}

sass::RegSet Liveness::untouched_uniform() const { return ~mentioned_ur_; }

}  // namespace xtrace::instrument
