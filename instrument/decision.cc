#include "instrument/decision.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "instrument/cta_part.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;
using enc::Gpr, enc::Pred;
using Shape = Holder::Shape;

// What kernels begin with. Each reads registers, constants and special registers, and writes registers.
constexpr std::array<std::string_view, 33> of_registers = {
    "CS2R",   "FADD",   "FFMA", "FMUL", "IABS",  "IADD3", "IMAD",  "IMNMX", "ISETP", "LDC", "LEA",
    "LOP3",   "MOV",    "NOP",  "PLOP3", "PRMT", "R2UR",  "S2R",   "S2UR",  "SEL",   "SHF", "UIADD3",
    "UIMAD",  "UISETP", "ULDC", "ULEA", "ULOP3", "UMOV",  "UPRMT", "USEL",  "USHF",  "VIADD", "VIMNMX"};

bool only_registers(const sass::Effects& fx) {
  const bool constant = fx.kind == sass::MemKind::load && fx.space == sass::MemSpace::constant;
  return fx.known && fx.flow == sass::Flow::next && fx.falls_through && !fx.may_switch_path && (fx.kind == sass::MemKind::none || constant) &&
         std::find(of_registers.begin(), of_registers.end(), fx.mnemonic) != of_registers.end();
}

constexpr unsigned branch_stall = 5;   // as vendor code has it
constexpr BitRange special_field = bits(79, 72);

// Where the number of the CTA along one axis comes from: a load of the kernel's own, whose result stands in a register in front of the
// instructions [from, to], or one of ours.
struct Coordinate {
  unsigned axis = 0;
  InstIndex from = 0, to = 0;
  uint8_t scoreboard = 0;
  bool own = false;
  std::optional<Gpr> vector{};
  std::optional<enc::Ureg> uniform{};
};

// What a decision consists of, and where.
struct Placed {
  InstIndex at = 0;
  unsigned pause = 0;   // that the kernel's own instructions do not give it
};

class Builder {
 public:
  Builder(const Code& code, const LaunchShape& shape, const Plan& plan, Scratch& scratch)
      : code_(code), shape_(shape), plan_(plan), scratch_(scratch), out_(code.insts.size()) {}

  Decision build(InstIndex repeatable) {
    if (plan_.select.empty() && repeatable > 0 && spread(repeatable)) return std::move(out_);
    at_once();
    return std::move(out_);
  }

 private:
  // wire::cta_is_sampled: the sum of factor * number over the axes, and of what the part begins with, modulo 2^32, lies below this.
  uint32_t threshold() const { return class_limit(plan_); }
  uint32_t factor(unsigned axis) const {
    return wire::sample_multiplier * (axis > 0 ? shape_.grid.x : 1) * (axis > 1 ? shape_.grid.y : 1);
  }
  // For one part of several alike it must be there: the others differ in it.
  bool begins_with_constant() const { return plan_.rotates || class_start(plan_) != 0; }
  unsigned axes() const { return shape_.grid.z > 1 ? 3 : shape_.grid.y > 1 ? 2 : 1; }

  sass::Control control(InstIndex i) const { return sass::get_control(code_.insts[i].raw); }

  // The scoreboard of our loads: one that the kernel waits for at the same place, else one that it has not taken.
  uint8_t scoreboard(InstIndex wait) const {
    const uint8_t usable = scratch_.shared_scoreboards(), waited = control(wait).wait_mask & usable;
    uint8_t taken = 0;
    for (InstIndex i = 0; i < wait; ++i)
      if (const uint8_t sb = control(i).write_barrier; sb < 6) taken |= static_cast<uint8_t>(1u << sb);
    for (const uint8_t set : {waited, static_cast<uint8_t>(usable & ~taken), usable})
      for (uint8_t sb = 0; sb < 6; ++sb)
        if (set >> sb & 1) return sb;
    return scratch_.scoreboard();
  }

  // A load of a special register takes turns with those of all other warps: the kernel's own is used if it can be.
  Coordinate find(unsigned axis, InstIndex repeatable) const {
    for (InstIndex i = 0; i < repeatable; ++i) {
      const sass::Effects& fx = code_.insts[i].fx;
      const uint8_t sb = control(i).write_barrier;
      if ((fx.mnemonic != "S2R" && fx.mnemonic != "S2UR") || fx.guarded || sb >= 6 ||
          get_bits(code_.insts[i].raw, special_field) != enc::sr_ctaid_x + axis)
        continue;
      Coordinate c{axis, i + 1, i + 1, sb};
      while (c.from < repeatable && !(control(c.from).wait_mask >> sb & 1)) ++c.from;
      if (!(control(c.from).wait_mask >> sb & 1)) continue;
      const auto written = [&](InstIndex k) {
        return (code_.insts[k].fx.def.gpr & fx.def.gpr).any() || (code_.insts[k].fx.def.ur & fx.def.ur).any();
      };
      while (c.to < repeatable && !written(c.to)) ++c.to;
      if (c.to < c.from) continue;
      for (unsigned r = 0; r < 255; ++r)
        if (fx.def.gpr.test(r)) c.vector = Gpr{static_cast<uint8_t>(r)};
      for (unsigned r = 0; r < 63; ++r)
        if (fx.def.ur.test(r)) c.uniform = enc::Ureg{static_cast<uint8_t>(r)};
      return c;
    }
    return our_own(axis, repeatable);
  }
  Coordinate our_own(unsigned axis, InstIndex repeatable) const {
    InstIndex wait = 1;
    while (wait < repeatable && control(wait).wait_mask == 0) ++wait;
    return {axis, wait, repeatable, scoreboard(wait), true};
  }

  // Where each of the terms, the comparison and the branch stand; the terms in order of when they are there.
  std::vector<Placed> place(std::vector<Coordinate>& terms, InstIndex repeatable) const {
    std::sort(terms.begin(), terms.end(), [](const Coordinate& a, const Coordinate& b) {
      return std::pair(a.from, a.to) < std::pair(b.from, b.to);
    });
    std::vector<Placed> placed;
    InstIndex at = 0;
    const auto add = [&](InstIndex from, InstIndex to, unsigned cycles) {
      unsigned passed = 1;
      const auto pass = [&] { passed += control(at++).stall; };
      while (at < from) pass();
      while (at < to && passed < cycles) pass();
      placed.push_back({at, passed < cycles ? cycles - passed : 0});
      return at <= to;
    };
    for (size_t k = 0; k < terms.size(); ++k) {
      if (add(terms[k].from, terms[k].to, k == 0 ? 0 : vector_to_vector)) continue;
      terms[k] = our_own(terms[k].axis, repeatable);
      return place(terms, repeatable);
    }
    add(at, repeatable, vector_to_vector);
    add(at, repeatable, predicate_to_guard);
    return placed;
  }

  // Between the kernel's own instructions, of which `repeatable` may be passed. False: too few registers.
  bool spread(InstIndex repeatable) {
    std::vector<Coordinate> terms;
    for (unsigned axis = 0; axis < axes(); ++axis) terms.push_back(find(axis, repeatable));
    const std::vector<Placed> placed = place(terms, repeatable);
    const size_t compare = terms.size(), branch = compare + 1;
    sass::RegSet taken;
    const auto reg = [&]() -> std::optional<Gpr> {
      const auto h = scratch_.try_holder(0, placed[compare].at, {Shape::single}, std::nullopt, taken);
      if (!h) return std::nullopt;
      taken.set(h->reg[0]);
      return h->r(0);
    };
    const auto sum = reg();
    const auto guard = scratch_.predicate(placed[compare].at, placed[branch].at);
    std::vector<std::optional<Gpr>> helps;   // the number itself, or the factor
    for (const Coordinate& c : terms) helps.push_back(c.vector ? c.vector : reg());
    if (!sum || !guard || std::find(helps.begin(), helps.end(), std::nullopt) != helps.end()) return false;

    Sequence& entry = out_.insertions.before[0];
    for (size_t k = 0; k < terms.size(); ++k)
      if (terms[k].own)
        put(entry, enc::s2r(*helps[k], static_cast<uint8_t>(enc::sr_ctaid_x + terms[k].axis)), {.stall = 1, .write_barrier = terms[k].scoreboard});
    for (size_t k = 0; k < terms.size(); ++k)
      if (terms[k].uniform) put(entry, enc::mov_imm(*helps[k], factor(terms[k].axis)));
    if (begins_with_constant()) put(entry, enc::mov_imm(*sum, class_start(plan_)));
    unsigned passed = 1;   // from the last of them, a load or a MOV, to the first term
    for (InstIndex i = 0; i < placed[0].at; ++i) passed += control(i).stall;
    const unsigned needed = entry.empty() ? 0 : std::max(scoreboard_visible, vector_to_vector);
    if (passed < needed) put_pause(entry, needed - passed);

    const auto at = [&](size_t k) -> Sequence& {
      Sequence& seq = out_.insertions.before[placed[k].at];
      put_pause(seq, placed[k].pause);
      return seq;
    };
    for (size_t k = 0; k < terms.size(); ++k) {
      const Gpr added = k == 0 && !begins_with_constant() ? enc::RZ : *sum;
      put(at(k),
          terms[k].uniform ? enc::imad_ur(*sum, *helps[k], *terms[k].uniform, added) : enc::imad_imm(*sum, *helps[k], factor(terms[k].axis), added),
          {.stall = 1, .wait_mask = static_cast<uint8_t>(1u << terms[k].scoreboard)});
    }
    put(at(compare), enc::isetp_imm(*guard, enc::Compare::lt, false, *sum, threshold()));
    put(at(branch), enc::with_guard(enc::bra(0, 0), *guard), {.stall = branch_stall});
    out_.branch = placed[branch].at;
    for (InstIndex i = 0; i < *out_.branch; ++i)
      for (const uint8_t b : {control(i).write_barrier, control(i).read_barrier})
        if (b < 6) out_.outstanding |= static_cast<uint8_t>(1u << b);
    return true;
  }

  // In front of the kernel, where nothing is live.
  void at_once() {
    constexpr uint8_t sb = 0;   // nothing is outstanding
    constexpr std::array<Gpr, 3> cta{Gpr{0}, Gpr{1}, Gpr{2}}, tid{Gpr{3}, Gpr{4}, Gpr{5}};
    constexpr Gpr sum{6}, all{7};
    constexpr Pred guard{0};
    Sequence& seq = out_.front;
    const wire::Selection& s = plan_.select;
    const Schedule loaded{.stall = 1, .write_barrier = sb}, waits{.stall = vector_to_vector, .wait_mask = 1u << sb};
    const unsigned numbers = s.ctas.empty() && plan_.one_in == 1 ? 0 : axes();
    for (unsigned k = 0; k < numbers; ++k) put(seq, enc::s2r(cta[k], static_cast<uint8_t>(enc::sr_ctaid_x + k)), loaded);
    const Dim3& block = shape_.block;
    const unsigned threads = s.warps.empty() ? 0 : block.z > 1 ? 3 : block.y > 1 ? 2 : 1;
    for (unsigned k = 0; k < threads; ++k) put(seq, enc::s2r(tid[k], static_cast<uint8_t>(enc::sr_tid_x + k)), loaded);
    put_pause(seq, scoreboard_visible);
    const auto linearise = [&](const Dim3& extent, const std::array<Gpr, 3>& r, unsigned n) {
      if (n > 2) put(seq, enc::imad_imm(r[1], r[2], extent.y, r[1]), waits);
      if (n > 1) put(seq, enc::imad_imm(r[0], r[1], extent.x, r[0]), waits);
    };
    linearise(shape_.grid, cta, numbers);
    linearise(block, tid, threads);
    // `all` stays 1 as long as every list has the warp.
    put(seq, enc::mov_imm(all, 1), waits);
    if (!s.ctas.empty()) keep(seq, s.ctas, cta[0], cta[1], all);
    if (!s.warps.empty()) {
      put(seq, enc::shf_r_u32_hi_imm(tid[0], tid[0], 5), waits);
      keep(seq, s.warps, tid[0], cta[1], all);
    }
    if (!s.sms.empty()) {
      put(seq, enc::s2r(tid[1], enc::sr_virtualsmid), {.stall = scoreboard_visible, .write_barrier = sb});
      put(seq, enc::nop(), waits);
      keep(seq, s.sms, tid[1], cta[1], all);
    }
    if (plan_.one_in > 1) {
      put(seq, enc::mov_imm(sum, class_start(plan_)), waits);
      put(seq, enc::imad_imm(sum, cta[0], wire::sample_multiplier, sum), waits);
      put(seq, enc::isetp_imm(guard, enc::Compare::ge, false, sum, threshold()), {.stall = predicate_to_guard});
      put(seq, enc::with_guard(enc::mov_imm(all, 0), guard), waits);
    }
    put(seq, enc::isetp_imm(guard, enc::Compare::ne, false, all, 0), {.stall = predicate_to_guard});
    put(seq, enc::with_guard(enc::bra(0, 0), guard), {.stall = branch_stall});
  }

  // wire::Selection::has: all := 0 where `number` is in none of the ranges.
  static void keep(Sequence& seq, const std::vector<wire::Selection::Range>& ranges, Gpr number, Gpr found, Gpr all) {
    constexpr Pred guard{0};
    constexpr Gpr spare{6};
    constexpr uint8_t lut_and = 0xc0;
    const Schedule settled{.stall = vector_to_vector};
    put(seq, enc::mov_imm(found, 0));
    for (const wire::Selection::Range& r : ranges) {
      put(seq, enc::iadd3_imm(spare, number, 0u - r.first, enc::RZ), settled);
      put(seq, enc::isetp_imm(guard, enc::Compare::le, false, spare, r.last - r.first), {.stall = predicate_to_guard});
      put(seq, enc::with_guard(enc::mov_imm(found, 1), guard), settled);
    }
    put(seq, enc::lop3(all, all, found, enc::RZ, lut_and), settled);
  }

  const Code& code_;
  const LaunchShape& shape_;
  const Plan& plan_;
  Scratch& scratch_;
  Decision out_;
};

}  // namespace

InstIndex repeatable_entry(const Code& code, const Blocks& blocks) {
  if (!blocks.runs_once(0)) return 0;
  sass::RegEffects written;
  InstIndex i = 0;
  for (; i < blocks.blocks[0].last(); ++i) {
    const sass::Effects& fx = code.insts[i].fx;
    const bool known = (fx.use.gpr & ~written.gpr).none() && (fx.use.ur & ~written.ur).none() &&
                       (fx.use.pred & ~written.pred) == 0 && (fx.use.upred & ~written.upred) == 0;
    if (!only_registers(fx) || !known) break;
    if (fx.guarded) continue;
    written.gpr |= fx.def.gpr;
    written.ur |= fx.def.ur;
    written.pred |= fx.def.pred;
    written.upred |= fx.def.upred;
  }
  return i;
}

sass::RegSet unsettled_registers(const Code& code, InstIndex repeatable) {
  sass::RegSet set;
  for (InstIndex i = 0; i < repeatable; ++i)
    if (!code.insts[i].fx.fixed_latency && sass::get_control(code.insts[i].raw).write_barrier >= 6) set |= code.insts[i].fx.def.gpr;
  return set;
}

Decision build_decision(const Code& code, const Blocks& blocks, const LaunchShape& shape, const Plan& plan, Scratch& scratch) {
  return Builder(code, shape, plan, scratch).build(repeatable_entry(code, blocks));
}

}  // namespace xtrace::instrument
