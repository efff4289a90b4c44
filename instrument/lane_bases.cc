#include "instrument/lane_bases.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <set>

#include "instrument/apart_writes.h"
#include "instrument/code.h"
#include "instrument/register_terms.h"
#include "instrument/sass/access.h"
#include "instrument/sass/encode.h"
#include "instrument/thread_terms.h"

namespace xtrace::instrument {
namespace {

using namespace register_terms;

constexpr BitRange guard_field = bits(15, 12);
constexpr unsigned warp_lanes = ThreadTerms::warp_lanes;

// Forward, to a fixed point. States stand where paths meet or part; between them they are carried along.
class Flow {
 public:
  using Place = std::pair<InstIndex, uint8_t>;
  struct Found {
    std::map<Place, Value> registers;
    std::map<Place, uint32_t> uniform;
  };

  Flow(const Code& code, const LaunchFacts& launch, ThreadTerms& terms)
      : code_(code), launch_(launch), terms_(terms), entries_(code.insts.size(), 0), whole_join_(code.insts.size(), true),
        apart_(code, launch.whole), start_(code.functions.at(0).entry) {
    entries_[start_] = 2;
    for (InstIndex i = 0; i < code.insts.size(); ++i) {
      if (!code.reachable[i]) continue;
      const auto next = code.successors(i);
      for (InstIndex n : next) {
        entries_[n] += next.size() == 1 && n == i + 1 && code.insts[i].fx.flow == sass::Flow::next ? 1 : 2;
        if (!is_whole(i) || !is_whole(n)) whole_join_[n] = false;
      }
    }
    find_calls();
  }

  // A value that turns out to be one of several at a whole join is that from the beginning in the next round: else what was
  // derived of the first of them would be taken for another value where paths meet behind it.
  Found run() {
    for (auto known = joins_;; known = joins_) {
      at_.clear();
      returned_.clear();
      found_ = {};
      pass();
      if (joins_ == known) return std::move(found_);
    }
  }

 private:
  void find_calls() {
    const std::vector<Function>& functions = code_.functions;
    std::vector<sass::RegEffects> written(functions.size());
    std::vector<std::vector<size_t>> callees(functions.size());
    for (size_t f = 1; f < functions.size(); ++f) {
      std::vector<bool> seen(code_.insts.size(), false);
      std::vector<InstIndex> work{functions[f].entry};
      const auto go = [&](InstIndex n) {
        if (n < seen.size() && !seen[n]) work.push_back(n);
      };
      while (!work.empty()) {
        const InstIndex i = work.back();
        work.pop_back();
        if (seen[i]) continue;
        seen[i] = true;
        const sass::Effects& fx = code_.insts[i].fx;
        add(written[f], fx.def);
        if (fx.flow == sass::Flow::call_relative) {
          for (size_t g = 1; g < functions.size(); ++g)
            if (contains(functions[g].calls_to_it, i)) callees[f].push_back(g);
          go(i + 1);
        } else if (contains(functions[f].rets, i)) {
          if (fx.falls_through) go(i + 1);
        } else {
          for (InstIndex n : code_.successors(i)) go(n);
        }
      }
    }
    for (size_t round = 0; round < functions.size(); ++round)   // who calls whom is at most so deep
      for (size_t f = 1; f < functions.size(); ++f)
        for (size_t g : callees[f]) add(written[f], written[g]);
    for (size_t f = 1; f < functions.size(); ++f) {
      for (InstIndex i : functions[f].calls_to_it) add(calls_[i], written[f]);
      for (InstIndex i : functions[f].rets) add(returns_[i], written[f]);
    }
  }
  static bool contains(const std::vector<InstIndex>& all, InstIndex i) { return std::find(all.begin(), all.end(), i) != all.end(); }
  static void add(sass::RegEffects& to, const sass::RegEffects& more) {
    to.gpr |= more.gpr;
    to.ur |= more.ur;
    to.pred = static_cast<sass::PredSet>(to.pred | more.pred);
  }

  // Behind i other lanes may go on.
  bool ends_block(InstIndex i) const {
    const std::vector<uint32_t>& b = launch_.block_of;
    return i + 1 >= b.size() || b[i] != b[i + 1];
  }
  static void forget_passing(State& s) {
    for (Value& v : s.gpr)
      if (v.passes) v = unknown;
  }
  static void forget(State& s, const sass::RegSet& uniform) {
    for (size_t u = 0; u < s.ur.size(); ++u)
      if (uniform.test(u)) s.ur[u] = unknown;
  }
  bool is_whole(InstIndex i) const { return i < launch_.whole.size() && launch_.whole[i]; }
  void pass() {
    State first;
    for (Value& v : first.gpr) v = unknown;
    for (Value& v : first.ur) v = unknown;
    at_[start_] = first;
    work_.push_back(start_);
    while (!work_.empty()) {
      InstIndex i = work_.front();
      work_.pop_front();
      State s = at_[i];
      while (true) {
        look(i, s);
        apply(code_, launch_, terms_, i, is_whole(i), s);
        const auto next = code_.successors(i);
        const bool goes_on = next.size() == 1 && entries_[next[0]] == 1;
        if (!goes_on || ends_block(i)) forget_passing(s);
        if (goes_on) {
          if (ends_block(i)) forget(s, apart_.between(i, next[0]));
          i = next[0];
          continue;
        }
        leave(i, next, s);
        break;
      }
    }
  }

  // A call brings to its return point what the callee leaves alone, and the callee what it has written: else what lanes have there
  // would be that of every call.
  void leave(InstIndex i, const std::vector<InstIndex>& next, const State& s) {
    const auto push = [&](InstIndex n) {
      if (std::find(work_.begin(), work_.end(), n) == work_.end()) work_.push_back(n);
    };
    const auto callee = calls_.find(i);
    if (callee != calls_.end()) {
      const sass::RegEffects& written = callee->second;
      State kept = s;
      forget(kept, apart_.anywhere());
      for (Value& v : kept.gpr)
        if (v.guard != guard_always && (written.pred >> (v.guard & 7) & 1) != 0) v = unknown;
      if (arrive(i + 1, kept, ~written.gpr, ~written.ur) && returned_.contains(i + 1)) push(i + 1);
    }
    const auto returns = returns_.find(i);
    for (InstIndex n : next) {
      State there = s;
      if (returns == returns_.end() || (code_.insts[i].fx.falls_through && n == i + 1)) {
        forget(there, apart_.between(i, n));
        if (arrive(n, there, ~sass::RegSet(), ~sass::RegSet())) push(n);
        continue;
      }
      const sass::RegEffects& written = returns->second;
      const bool first = returned_.insert(n).second;
      forget(there, apart_.anywhere());
      if (arrive(n, there, written.gpr, written.ur) || first) push(n);
    }
  }

  // Whether the state at n has changed.
  bool arrive(InstIndex n, const State& s, const sass::RegSet& gpr, const sass::RegSet& ur) {
    const auto [found, added] = at_.try_emplace(n);
    bool changed = added;
    const auto merge = [&](auto& old, const auto& in, const auto& which, unsigned file) {
      for (size_t r = 0; r < in.size(); ++r) {
        if (!which.test(r)) continue;
        Value v = meet(terms_, old[r], in[r], n, whole_join_[n]);
        const auto place = std::pair(n, static_cast<uint32_t>(file + r));
        if (const auto known = joins_.find(place); v.is_term() && known != joins_.end()) {
          const auto term = terms_.join(known->second, v.term);
          v = term ? Value{Value::Kind::term, v.guard, true, false, joined | n, *term} : unknown;
        }
        if (v.is_term() && v.by == (joined | n)) joins_.insert_or_assign(place, v.term);
        v.settle();
        changed |= !(v == old[r]);
        old[r] = v;
      }
    };
    merge(found->second.gpr, s.gpr, gpr, 0);
    merge(found->second.ur, s.ur, ur, static_cast<unsigned>(s.gpr.size()));
    return changed;
  }

  void look(InstIndex i, const State& s) {
    const sass::RawInst& w = code_.insts[i].raw;
    const auto accesses = sass::accesses(*code_.arch, w);
    const auto* all = std::get_if<std::vector<sass::Access>>(&accesses);
    if (all == nullptr) return;
    const auto guard = static_cast<uint8_t>(get_bits(w, guard_field));
    const auto keep = [&](auto& found, uint8_t reg, bool holds, auto value) {
      if (holds) found.insert_or_assign({i, reg}, value);
      else found.erase({i, reg});
    };
    for (const sass::Access& a : *all) {
      if (a.low != a.none) {
        const Value& v = s.gpr[a.low];
        keep(found_.registers, a.low, v.is_term() && (v.guard == guard_always || v.guard == guard), v);
      }
      if (!a.wide && a.uniform_low != a.none) {
        const Value& v = s.ur[a.uniform_low];
        const auto n = v.is_term() ? terms_.number_of(v.term) : std::nullopt;
        keep(found_.uniform, a.uniform_low, n.has_value(), n.value_or(0));
      }
    }
  }

  const Code& code_;
  const LaunchFacts& launch_;
  ThreadTerms& terms_;
  std::vector<uint32_t> entries_;
  std::vector<bool> whole_join_;   // all blocks that lead here are whole, and so is this one
  ApartWrites apart_;   // uniform registers count until a block ends, and on where nobody writes them
  const InstIndex start_;
  std::map<InstIndex, sass::RegEffects> calls_, returns_;   // by CALL, by RET: what the callee writes, and who it calls
  std::map<InstIndex, State> at_;
  std::set<InstIndex> returned_;   // return points that have been come to by a RET
  std::map<std::pair<InstIndex, uint32_t>, Term> joins_;   // at instruction; register, or 256 and uniform register
  std::deque<InstIndex> work_;
  Found found_;
};

// Of a table by lane: lane * stride + (lane >> shift) * step. Lanes that are not there count as they are.
std::optional<Strided> strided_of(const std::vector<uint32_t>& table, const Dim3& block) {
  if (table.size() != warp_lanes || table[0] != 0) return std::nullopt;
  Strided s{table[1], 0, 0};
  if (std::has_single_bit(block.x) && block.x > 1 && block.x < warp_lanes) {
    s.step = table[block.x] - block.x * s.stride;
    s.shift = s.step == 0 ? uint8_t{0} : static_cast<uint8_t>(std::countr_zero(block.x));
  }
  for (uint32_t lane = 0; lane < warp_lanes; ++lane)
    if (table[lane] != lane * s.stride + (lane >> s.shift) * s.step) return std::nullopt;
  return s;
}

// By lane, where every warp has the same; what lanes have that are not there goes on as in front of them.
std::vector<uint32_t> by_lane(const ThreadTerms& terms, Term t) {
  std::vector<uint32_t> table(warp_lanes);
  for (uint32_t lane = 0; lane < warp_lanes; ++lane)
    table[lane] = lane < terms.threads() ? terms.at(t, lane) : lane < 2 ? table[0] : 2 * table[lane - 1] - table[lane - 2];
  std::vector<uint32_t> all(align_up(terms.threads(), warp_lanes), 0);
  bool same = true;
  for (uint32_t thread = 0; thread < terms.threads(); ++thread) {
    all[thread] = terms.at(t, thread);
    same &= all[thread] == table[thread % warp_lanes];
  }
  return same ? table : all;
}

}  // namespace

LaneBases::LaneBases(const Code& code, const LaunchFacts& launch) {
  ThreadTerms terms(launch.block);
  Flow::Found found = Flow(code, launch, terms).run();
  uniform_at_ = std::move(found.uniform);
  std::map<std::vector<uint32_t>, uint32_t> numbers;
  for (const auto& [place, value] : found.registers) {
    const bool known = terms.is_known(value.term);
    std::vector<uint32_t> table = by_lane(terms, known ? value.term : terms.relative(value.term));
    const auto [at, added] = numbers.try_emplace(std::move(table), static_cast<uint32_t>(tables_.size()));
    if (added) {
      tables_.push_back(at->first);
      strided_.push_back(strided_of(at->first, launch.block));
    }
    at_[place] = {known, at->second, value.guard};
  }
}

}  // namespace xtrace::instrument
