// Timing rules of inserted code, by a forward data-flow over the new words. The state in front of a word
// (verify_hazard_state.h) says what may still be under way on some path to it.
//
// Thresholds are the smallest distances in vendor code or the table's upper bound where vendor code is no guide
// (sass.md 5.1); they are written down here again, on purpose, and not taken from sequence.h.
#include <algorithm>
#include <array>
#include <bit>
#include <deque>

#include "instrument/sass/print.h"
#include "instrument/verify_fields.h"
#include "instrument/verify_hazard_state.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

using sass::RegSet;

using hazards::State;

// Cycles from an instruction to a wait that sees that it took a scoreboard. [measured H200, 2026-11-30: a store one cycle in front of a
// MOV that waited for it had its address overwritten]
constexpr uint8_t seen_after = 2;

class Hazards {
 public:
  Hazards(const SpliceView& v, Violations& out) : v_(v), out_(out) {}

  void run() {
    find_edges();
    state(0).visited = true;
    std::deque<uint32_t> work{0};
    std::vector<bool> queued(v_.words.size(), false);
    while (!work.empty()) {
      const uint32_t head = work.front();
      work.pop_front();
      queued[head] = false;
      follow(head, false, [&](uint32_t s, const State& from) {
        if (!join(state(s), from) || queued[s]) return;
        queued[s] = true;
        work.push_back(s);
      });
    }
    for (uint32_t head = 0; head < v_.words.size(); ++head)
      if (head_[head] != no_head && state(head).visited) follow(head, true, [](uint32_t, const State&) {});
  }

 private:
  std::vector<uint32_t> successors(uint32_t k) const {
    std::vector<uint32_t> next;
    const auto add = [&](uint32_t s) {
      if (s < v_.words.size()) next.push_back(s);
    };
    if (v_.is_inserted(k)) {
      add(k + 1);
      if (v_.effects[k].target) add(static_cast<uint32_t>(*v_.effects[k].target / sass::inst_bytes));
      return next;
    }
    const Copy& copy = v_.copies[v_.copy_of[k]];
    const InstIndex i = v_.origin[k];
    if (!v_.old.reachable[i]) return next;
    // Falling through passes the words behind the instruction, jumping does not.
    const sass::Effects& fx = v_.old.insts[i].fx;
    for (InstIndex s : v_.old.successors(i)) {
      const bool falls = s == i + 1 && fx.falls_through;
      if (falls) add(k + 1);
      if (!falls || (fx.target && *fx.target == v_.old.pc(s))) add(copy.label[s]);
    }
    return next;
  }

  // Only states in front of heads are kept: the first word, and those that are not reached from the word in front alone.
  void find_edges() {
    edges_.reserve(v_.words.size());
    head_.assign(v_.words.size(), no_head);
    std::vector<uint8_t> arrive(v_.words.size(), 0);   // from the word in front: 1; from elsewhere: 2
    arrive[0] = 2;
    for (uint32_t k = 0; k < v_.words.size(); ++k) {
      edges_.push_back(successors(k));
      for (uint32_t s : edges_.back()) arrive[s] |= s == k + 1 ? 1 : 2;
    }
    uint32_t heads = 0;
    for (uint32_t k = 0; k < v_.words.size(); ++k)
      if (arrive[k] & 2) head_[k] = heads++;
    in_.resize(heads);
  }
  State& state(uint32_t head) { return in_[head_[head]]; }

  // From a head to the next, or to an end; `leaves` is told each way to a head and the state on it.
  template <typename Leaves>
  void follow(uint32_t k, bool report, const Leaves& leaves) {
    State s = state(k);
    for (bool on = true; on; ++k) {
      transfer(k, s, report);
      on = false;
      for (uint32_t next : edges_[k]) {
        if (next == k + 1 && head_[next] == no_head) on = true;
        else if (next == k + 1 || v_.is_inserted(k) || !v_.not_taken[v_.origin[k]]) leaves(next, s);
        else {
          State elsewhere = s;
          elsewhere.unread.reset();
          leaves(next, elsewhere);
        }
      }
    }
  }

  static bool is_memory(const sass::Effects& fx) { return fx.kind != sass::MemKind::none && fx.space != sass::MemSpace::constant; }
  static bool is_uniform_alu(const sass::Effects& fx) { return fx.def.ur.any() && fx.mnemonic.starts_with('U'); }

  void fail(std::string_view rule, uint32_t k, std::string what) {
    out_.push_back({rule, v_.pc(k), sass::print(*v_.old.arch, v_.words[k], v_.pc(k)) + ": " + std::move(what)});
  }

  // Inserted code reads what an original instruction has just written: there is time, or the next one reads it as well.
  void check_originals(uint32_t k, const State& s) {
    const sass::Effects& fx = v_.effects[k];
    const uint32_t next = v_.next_original[k];
    const sass::RegEffects none;
    const sass::RegEffects& read = next == SpliceView::inserted ? none : v_.old.insts[next].fx.use;
    const auto early = [&](std::string_view file, unsigned r, uint8_t left) {
      fail("result-too-early", k, fmt::format("{}{} of the kernel may be ready {} cycles later", file, r, left));
    };
    (fx.use.gpr & ~read.gpr).for_each([&](unsigned r) {
      if (s.left.vector_original[r] > 0) early("R", r, s.left.vector_original[r]);
    });
    (fx.use.ur & ~read.ur).for_each([&](unsigned r) {
      if (s.left.uniform_original[r] > 0) early("UR", r, s.left.uniform_original[r]);
    });
    for (unsigned p = 0; p < 7; ++p)
      if ((fx.use.pred >> p & 1) && s.left.predicate_original[p] > 0 && !(read.pred >> p & 1))
        early("P", p, s.left.predicate_original[p]);
  }

  void check_uses(uint32_t k, const State& s) {
    check_originals(k, s);
    const sass::Effects& fx = v_.effects[k];
    fx.use.gpr.for_each([&](unsigned r) {
      for (unsigned sb = 0; sb < 6; ++sb)
        if (s.results[sb].test(r) || (s.originals[sb].test(r) && !s.probe_value.test(r)))
          fail("result-too-early", k, fmt::format("R{} awaits SB{}", r, sb));
      const uint8_t left = is_memory(fx) ? s.left.vector_memory[r] : s.left.vector_alu[r];
      if (left > 0) fail("result-too-early", k, fmt::format("R{} is ready {} cycles later", r, left));
      if ((fx.kind == sass::MemKind::store || fx.kind == sass::MemKind::reduction) && !s.probe_value.test(r) && !is_address(k, r) && !v_.spill_save[k])
        fail("record-clobbered", k, fmt::format("R{} may hold another value than the probe's", r));
    });
    fx.use.ur.for_each([&](unsigned r) {
      for (unsigned sb = 0; sb < 6; ++sb)
        if (s.uniform_originals[sb].test(r)) fail("result-too-early", k, fmt::format("UR{} awaits SB{}", r, sb));
      const uint8_t left = is_uniform_alu(fx) ? s.left.uniform_alu[r] : s.left.uniform_other[r];
      for (unsigned sb = 0; sb < 6; ++sb)
        if (s.uniform_results[sb].test(r)) fail("result-too-early", k, fmt::format("UR{} awaits SB{}", r, sb));
      if (left > 0) fail("result-too-early", k, fmt::format("UR{} is ready {} cycles later", r, left));
    });
    for (unsigned p = 0; p < 7; ++p)
      if ((fx.use.pred >> p & 1) && s.left.guard[p] > 0)
        fail("result-too-early", k, fmt::format("P{} is ready {} cycles later", p, s.left.guard[p]));
    if (fx.guarded && !own_guard(k, s)) fail("record-clobbered", k, "the guard may hold another value than the probe's");
    if (!fx.guarded && (fx.def.gpr & s.unread & ~fx.use.gpr).any())
      fail("record-clobbered", k, "what the probe put there before was never read");
  }

  // The data of a store that was found to hold the register of an address.
  bool is_address(uint32_t k, unsigned r) const {
    return v_.address_store[k] && get_bits(v_.words[k], bits(39, 32)) == r;
  }

  // A probe's guard is the probe's, or that of the EXIT behind it, or of the access that it records.
  bool own_guard(uint32_t k, const State& s) const {
    const auto guard = get_bits(v_.words[k], fields::guard_field);
    if (v_.access_guard[k] || (s.probe_guard >> (guard & 7) & 1) != 0) return true;
    const uint32_t next = v_.next_original[k];
    return next != SpliceView::inserted && v_.old.insts[next].fx.flow == sass::Flow::exit &&
           get_bits(v_.old.insts[next].raw, fields::guard_field) == guard;
  }

  void check_definitions(uint32_t k, const State& s) {
    const sass::Effects& fx = v_.effects[k];
    for (unsigned sb = 0; sb < 6; ++sb) {
      const RegSet hit = s.store_reads[sb] & fx.def.gpr;
      if (hit.none()) continue;
      unsigned r = 0;
      while (!hit.test(r)) ++r;
      fail("store-overwritten", k, fmt::format("R{} is written before SB{} says that a probe's store has read it", r, sb));
    }
  }

  // Inserted code writes where a result of the kernel may still be on its way: it would come on top. That nobody reads it on this path
  // does not keep it from coming.
  void check_arrivals(uint32_t k, const State& s) {
    const sass::Effects& fx = v_.effects[k];
    const auto later = [&](std::string_view file, unsigned r, const std::string& when) {
      fail("register-clobber", k, fmt::format("what the kernel put into {}{} may arrive later: {}", file, r, when));
    };
    const auto first = [](const RegSet& set) {
      unsigned r = 0;
      while (!set.test(r)) ++r;
      return r;
    };
    for (unsigned sb = 0; sb < 6; ++sb) {
      const std::string when = fmt::format("nobody waited for SB{}", sb);
      if (const RegSet hit = fx.def.gpr & s.originals[sb]; hit.any()) later("R", first(hit), when);
      if (const RegSet hit = fx.def.ur & s.uniform_originals[sb]; hit.any()) later("UR", first(hit), when);
      if (const auto hit = static_cast<unsigned>(fx.def.pred & s.predicate_originals[sb]); hit != 0)
        later("P", static_cast<unsigned>(std::countr_zero(hit)), when);
    }
    RegSet untold = s.untold;
    for (const RegSet& kind : s.in_order) untold |= kind;
    if (const RegSet hit = fx.def.gpr & untold; hit.any()) later("R", first(hit), "it has no scoreboard");
    fx.def.gpr.for_each([&](unsigned r) {
      if (s.left.vector_original[r] > 0) later("R", r, fmt::format("in {} cycles", s.left.vector_original[r]));
    });
    for (unsigned p = 0; p < 7; ++p)
      if ((fx.def.pred >> p & 1) && s.left.predicate_original[p] > 0) later("P", p, fmt::format("in {} cycles", s.left.predicate_original[p]));
  }

  // An original instruction touches what inserted code loads: not before that has arrived.
  void check_claimed(uint32_t k, const State& s) {
    const sass::Effects& fx = v_.effects[k];
    for (unsigned sb = 0; sb < 6; ++sb) {
      const RegSet hit = s.results[sb] & (fx.def.gpr | fx.use.gpr);
      if (hit.any()) fail("register-clobber", k, fmt::format("a register that inserted code loads under SB{} may arrive later", sb));
    }
  }

  // An original instruction touches a predicate that inserted code gives back: not before it is there.
  void check_returned(uint32_t k, const State& s) {
    const sass::Effects& fx = v_.effects[k];
    for (unsigned p = 0; p < 7; ++p)
      if (((fx.use.pred | fx.def.pred) & s.returned) >> p & 1 && s.left.guard[p] > 0)
        fail("result-too-early", k, fmt::format("P{} of the kernel is back {} cycles later", p, s.left.guard[p]));
  }

  // Behind the first word of a prologue that repeats the kernel's beginning: all of that is done.
  void check_done(uint32_t k, const State& s) {
    const auto still = [](const auto& counts) { return std::any_of(counts.begin(), counts.end(), [](uint8_t n) { return n > 0; }); };
    const auto any = [](const auto& sets) { return std::any_of(sets.begin(), sets.end(), [](const RegSet& r) { return r.any(); }); };
    if (any(s.originals) || any(s.uniform_originals) || any(s.results) || any(s.uniform_results) || still(s.left.vector_original) ||
        still(s.left.uniform_original) || still(s.left.predicate_original))
      fail("entry-repeated", k, "results of the kernel's beginning may still be on their way");
  }

  void transfer(uint32_t k, State& s, bool report) {
    const sass::Effects& fx = v_.effects[k];
    const sass::Control c = sass::get_control(v_.words[k]);
    const bool inserted = v_.is_inserted(k);
    for (unsigned sb = 0; sb < 6; ++sb)
      if (c.wait_mask >> sb & 1) {
        if (report && s.unseen[sb] > 0)
          fail("store-overwritten", k, fmt::format("waits for SB{} {} cycles before that was seen to be taken", sb, s.unseen[sb]));
        s.store_reads[sb].reset();
        s.results[sb].reset();
        s.uniform_results[sb].reset();
        const State::Fresh none;
        const State::Fresh& left = inserted && s.fresh_for[sb] > 0 ? s.fresh[sb] : none;
        s.originals[sb] &= left.vector;
        s.uniform_originals[sb] &= left.uniform;
        s.predicate_originals[sb] &= left.predicates;
      }
    if (report) {
      if (inserted) check_uses(k, s);
      else check_claimed(k, s), check_returned(k, s);
      if (inserted) check_arrivals(k, s);
      check_definitions(k, s);
      if (v_.samples() && k == v_.prologue_first + 1) check_done(k, s);
    }
    if (inserted) {
      define(k, fx, c, s, report);
    } else {
      // What an original instruction reads or writes again has arrived: it waited for it, if only by counting groups.
      for (unsigned sb = 0; sb < 6; ++sb) {
        s.originals[sb] &= ~(fx.use.gpr | fx.def.gpr);
        s.uniform_originals[sb] &= ~(fx.use.ur | fx.def.ur);
        s.predicate_originals[sb] &= static_cast<sass::PredSet>(~(fx.use.pred | fx.def.pred));
      }
      if (c.write_barrier < 6) {
        s.originals[c.write_barrier] |= fx.def.gpr;
        s.uniform_originals[c.write_barrier] |= fx.def.ur;
        s.predicate_originals[c.write_barrier] |= fx.def.pred;
        s.fresh[c.write_barrier] = {fx.def.gpr, fx.def.ur, fx.def.pred};
        s.fresh_for[c.write_barrier] = seen_after;
      }
      original_results(fx, s);
      const auto kind = comes_in_order(fx);
      for (RegSet& untold : s.in_order) untold &= ~(fx.use.gpr | fx.def.gpr);
      if (!fx.fixed_latency && c.write_barrier >= 6) (kind ? s.in_order[static_cast<size_t>(*kind)] : s.untold) |= fx.def.gpr;
      if (kind && c.write_barrier < 6) {
        s.originals[c.write_barrier] |= s.in_order[static_cast<size_t>(*kind)];
        s.fresh[c.write_barrier].vector |= s.in_order[static_cast<size_t>(*kind)];
        s.in_order[static_cast<size_t>(*kind)].reset();
      }
      s.probe_value &= ~fx.def.gpr;
      s.unread &= ~(fx.def.gpr | fx.use.gpr);
      s.probe_guard &= static_cast<sass::PredSet>(~fx.def.pred);
      if (!fx.guarded) s.returned &= static_cast<sass::PredSet>(~fx.def.pred);
    }
    for (const uint8_t sb : {c.read_barrier, c.write_barrier})
      if (inserted && sb < 6) s.unseen[sb] = seen_after;
    const auto pass = [&](auto& counts) {
      for (auto& n : counts) n = static_cast<uint8_t>(n > c.stall ? n - c.stall : 0);
    };
    pass(s.unseen);
    pass(s.fresh_for);
    pass(s.left.vector_alu);
    pass(s.left.vector_memory);
    pass(s.left.uniform_alu);
    pass(s.left.uniform_other);
    pass(s.left.guard);
    pass(s.left.vector_original);
    pass(s.left.uniform_original);
    pass(s.left.predicate_original);
  }

  // What it reads has arrived. 21 to 33 cycles for results of matrix instructions, at most 14 for the rest (sass.md 5.1).
  static void original_results(const sass::Effects& fx, State& s) {
    const auto set = [&s](const sass::RegEffects& e, uint8_t cycles) {
      e.gpr.for_each([&](unsigned r) { s.left.vector_original[r] = cycles; });
      e.ur.for_each([&](unsigned r) { s.left.uniform_original[r] = cycles; });
      for (unsigned p = 0; p < 7; ++p)
        if (e.pred >> p & 1) s.left.predicate_original[p] = cycles;
    };
    if (fx.exact) set(fx.use, 0);
    if (!fx.fixed_latency) return;
    set(fx.def, fx.mnemonic.ends_with("MMA") ? 33 : 14);
    // Nor does anybody read them sooner than this, though the kernel's next instruction may, being of another kind.
    const bool on_double = fx.mnemonic == "DADD" || fx.mnemonic == "DMUL" || fx.mnemonic == "DFMA";
    fx.def.gpr.for_each([&](unsigned r) {
      s.left.vector_alu[r] = on_double ? 8 : 3;
      s.left.vector_memory[r] = on_double ? 6 : 4;
    });
    const bool moves = fx.mnemonic == "UMOV" || fx.mnemonic == "ULDC" || fx.mnemonic == "VOTEU";
    fx.def.ur.for_each([&](unsigned r) {
      s.left.uniform_alu[r] = moves ? 2 : 4;
      s.left.uniform_other[r] = moves ? 2 : 6;
    });
  }

  void define(uint32_t k, const sass::Effects& fx, const sass::Control& c, State& s, bool report) {
    const bool stores = fx.kind == sass::MemKind::store || fx.kind == sass::MemKind::reduction;
    if (stores && fx.use.gpr.any()) {
      if (c.read_barrier < 6)
        s.store_reads[c.read_barrier] |= fx.use.gpr;
      else if (report)
        fail("store-overwritten", k, "a store without a read barrier");
    } else if (fx.late_queue != sass::LateQueue::none && c.write_barrier < 6) {
      s.store_reads[c.write_barrier] |= fx.use.gpr;   // what has its result has read its sources
    }
    s.unread &= ~fx.use.gpr;
    if (fx.kind == sass::MemKind::none) s.unread |= fx.def.gpr;
    if (v_.rounds) s.unread.reset(*v_.rounds);   // 0 again, though nobody came by a loop
    if (v_.ways) s.unread.reset(*v_.ways);       // another number, though nobody ended
    s.probe_guard |= fx.def.pred;
    s.probe_guard &= static_cast<sass::PredSet>(~v_.returned[k]);
    s.returned &= static_cast<sass::PredSet>(~fx.def.pred);
    s.returned |= v_.returned[k];
    const bool r2ur = fx.mnemonic == "R2UR";
    const bool slow_uniform = fx.mnemonic == "UIADD3" || fx.mnemonic == "ULOP3" || fx.mnemonic == "UIMAD";
    fx.def.gpr.for_each([&](unsigned r) {
      if (c.write_barrier < 6) {
        s.results[c.write_barrier].set(r);
      } else if (!fx.fixed_latency && report) {
        fail("result-too-early", k, "a result of variable latency without a write barrier");
      } else {
        s.left.vector_alu[r] = fx.mnemonic == "CS2R" ? v_.old.arch->clock_to_alu : 4;
        s.left.vector_memory[r] = v_.old.arch->result_to_memory;
      }
      if (v_.spilled_write[k] && fx.kind == sass::MemKind::load) s.probe_value.reset(r);   // what is loaded back is the kernel's
      else s.probe_value.set(r);
      s.left.vector_original[r] = 0;
    });
    fx.def.ur.for_each([&](unsigned r) {
      if (c.write_barrier < 6) {
        s.uniform_results[c.write_barrier].set(r);
        return;
      }
      if (!fx.fixed_latency && report) fail("result-too-early", k, "a result of variable latency without a write barrier");
      s.left.uniform_alu[r] = r2ur ? 13 : slow_uniform ? 4 : 2;
      s.left.uniform_other[r] = r2ur ? 13 : slow_uniform ? 12 : 5;
    });
    for (unsigned p = 0; p < 7; ++p)
      if (fx.def.pred >> p & 1) {
        s.left.guard[p] = 13;
        s.left.predicate_original[p] = 0;
      }
  }

  const SpliceView& v_;
  Violations& out_;
  static constexpr uint32_t no_head = ~0u;
  std::vector<std::vector<uint32_t>> edges_;   // by word: where it goes on
  std::vector<uint32_t> head_;                 // by word: its number among the heads
  std::vector<State> in_;                      // by head
};

}  // namespace

void check_hazards(const SpliceView& v, Violations& out) { Hazards(v, out).run(); }

}  // namespace xtrace::instrument
