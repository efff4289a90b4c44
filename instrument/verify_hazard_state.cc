#include "instrument/verify_hazard_state.h"

namespace xtrace::instrument::hazards {
namespace {

template <typename A>
bool raise(A& to, const A& from) {
  bool changed = false;
  for (size_t i = 0; i < to.size(); ++i)
    if (from[i] > to[i]) {
      to[i] = from[i];
      changed = true;
    }
  return changed;
}

}  // namespace

bool join(State& to, const State& from) {
  if (!to.visited) {
    to = from;
    to.visited = true;
    return true;
  }
  bool changed = false;
  for (unsigned sb = 0; sb < 6; ++sb) {
    changed |= (from.store_reads[sb] & ~to.store_reads[sb]).any() || (from.results[sb] & ~to.results[sb]).any() ||
               (from.uniform_results[sb] & ~to.uniform_results[sb]).any();
    to.store_reads[sb] |= from.store_reads[sb];
    to.results[sb] |= from.results[sb];
    to.uniform_results[sb] |= from.uniform_results[sb];
    changed |= (from.originals[sb] & ~to.originals[sb]).any() ||
               (from.uniform_originals[sb] & ~to.uniform_originals[sb]).any();
    to.originals[sb] |= from.originals[sb];
    to.uniform_originals[sb] |= from.uniform_originals[sb];
    changed |= (from.predicate_originals[sb] & ~to.predicate_originals[sb]) != 0;
    to.predicate_originals[sb] |= from.predicate_originals[sb];
  }
  changed |= raise(to.left.vector_alu, from.left.vector_alu) | raise(to.left.vector_memory, from.left.vector_memory) |
             raise(to.left.uniform_alu, from.left.uniform_alu) | raise(to.left.uniform_other, from.left.uniform_other) |
             raise(to.left.guard, from.left.guard) | raise(to.left.vector_original, from.left.vector_original) |
             raise(to.left.uniform_original, from.left.uniform_original) |
             raise(to.left.predicate_original, from.left.predicate_original);
  changed |= raise(to.unseen, from.unseen) | raise(to.fresh_for, from.fresh_for) | (from.untold & ~to.untold).any();
  for (unsigned sb = 0; sb < 6; ++sb) {
    State::Fresh& f = to.fresh[sb];
    const State::Fresh& other = from.fresh[sb];
    changed |= ((other.vector & ~f.vector) | (other.uniform & ~f.uniform)).any() || (other.predicates & ~f.predicates) != 0;
    f.vector |= other.vector;
    f.uniform |= other.uniform;
    f.predicates |= other.predicates;
  }
  changed |= (from.returned & ~to.returned) != 0;
  to.returned |= from.returned;
  to.untold |= from.untold;
  for (size_t kind = 0; kind < kinds_in_order; ++kind) {
    changed |= (from.in_order[kind] & ~to.in_order[kind]).any();
    to.in_order[kind] |= from.in_order[kind];
  }
  const RegSet both = to.probe_value & from.probe_value;
  changed |= both != to.probe_value;
  to.probe_value = both;
  const RegSet unread = to.unread & from.unread;
  const auto guards = static_cast<sass::PredSet>(to.probe_guard & from.probe_guard);
  changed |= unread != to.unread || guards != to.probe_guard;
  to.unread = unread;
  to.probe_guard = guards;
  return changed;
}

}  // namespace xtrace::instrument::hazards
