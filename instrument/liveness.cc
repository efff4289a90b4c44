#include "instrument/liveness.h"

#include <bit>
#include <deque>

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

Liveness::Liveness(const Code& code) {
  find_live(code);
  find_pending(code);
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
    LiveSet after;
    for (InstIndex s : code.successors(i)) merge(after, live_in_[s]);
    poisoned_ |= fx.def.gpr & ~after.gpr;
    poisoned_pred_ |= static_cast<sass::PredSet>(fx.def.pred & ~after.pred);
    if (fx.async_registers) poisoned_ |= fx.def.gpr | fx.use.gpr;
    mentioned_ur_ |= fx.use.ur | fx.def.ur;
  }
}

void Liveness::find_pending(const Code& code) {
  const size_t n = code.insts.size();
  pending_reads_.resize(n);
  outstanding_.assign(n, 0);
  struct State {
    Pending pending;
    uint8_t outstanding = 0;
    bool visited = false;
  };
  std::vector<State> in(n);
  std::deque<InstIndex> work{0};
  std::vector<bool> queued(n, false);
  in[0].visited = true;
  while (!work.empty()) {
    const InstIndex i = work.front();
    work.pop_front();
    queued[i] = false;
    State state = in[i];
    const Effects& fx = code.insts[i].fx;
    const sass::Control control = sass::get_control(code.insts[i].raw);
    for (unsigned sb = 0; sb < 6; ++sb)
      if (control.wait_mask >> sb & 1) {
        state.pending[sb].reset();
        state.outstanding &= static_cast<uint8_t>(~(1u << sb));
      }
    uint8_t own = sass::Control::no_barrier;
    for (uint8_t barrier : {control.write_barrier, control.read_barrier})
      if (barrier < 6) {
        state.outstanding |= static_cast<uint8_t>(1u << barrier);
        own = barrier;   // the read barrier when there are both: it is released first
      }
    if (fx.late_queue != sass::LateQueue::none) {
      if (own < 6)
        state.pending[own] |= fx.use.gpr;
      else
        poisoned_ |= fx.use.gpr;
    }
    for (InstIndex s : code.successors(i)) {
      State& to = in[s];
      bool changed = !to.visited;
      to.visited = true;
      for (unsigned sb = 0; sb < 6; ++sb) {
        const RegSet joined = to.pending[sb] | state.pending[sb];
        changed |= joined != to.pending[sb];
        to.pending[sb] = joined;
      }
      changed |= (to.outstanding | state.outstanding) != to.outstanding;
      to.outstanding |= state.outstanding;
      if (changed && !queued[s]) {
        queued[s] = true;
        work.push_back(s);
      }
    }
  }
  for (InstIndex i = 0; i < n; ++i) {
    for (const RegSet& p : in[i].pending) pending_reads_[i] |= p;
    outstanding_[i] = in[i].outstanding;
  }
}

sass::RegSet Liveness::writable_before(InstIndex i, uint32_t limit) const {
  RegSet r = ~(live_in_[i].gpr | pending_reads_[i] | poisoned_);
  for (uint32_t reg = limit; reg < 256; ++reg) r.reset(reg);
  return r;
}

sass::PredSet Liveness::writable_predicates_before(InstIndex i) const {
  return static_cast<sass::PredSet>(~(live_in_[i].pred | poisoned_pred_) & 0x7f);
}

sass::RegSet Liveness::untouched_uniform() const { return ~mentioned_ur_; }

}  // namespace xtrace::instrument
