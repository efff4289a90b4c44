#include "instrument/decision.h"

#include <algorithm>
#include <array>
#include <string_view>

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

// A step that needs `after` cycles since the one before it has issued.
struct Step {
  sass::RawInst word;
  unsigned after = 1;
  uint8_t wait_mask = 0;
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
  unsigned coordinates() const { return shape_.grid.z > 1 ? 3 : shape_.grid.y > 1 ? 2 : 1; }

  // h = (x + gx * (y + gy * z)) * multiplier + seed, of coordinates in r[0..], into r[0]; the guard: h < 2^32 / N.
  // wire::cta_is_sampled
  std::vector<Step> sampled(const std::array<Gpr, 3>& r, Gpr seed, Pred guard, uint8_t wait_mask) const {
    const uint32_t m = wire::sample_multiplier, gx = shape_.grid.x, gy = shape_.grid.y;
    const std::array<uint32_t, 3> factor{m, m * gx, m * gx * gy};
    std::vector<Step> steps;
    Gpr sum = seed;
    for (unsigned k = coordinates(); k-- > 0;) {
      steps.push_back({enc::imad_imm(r[k], r[k], factor[k], sum), vector_to_vector, k + 1 == coordinates() ? wait_mask : uint8_t{0}});
      sum = r[k];
    }
    const auto threshold = static_cast<uint32_t>(0x100000000ull / plan_.one_in);
    steps.push_back({enc::isetp_imm(guard, enc::Compare::lt, false, sum, threshold), vector_to_vector});
    steps.push_back({enc::with_guard(enc::bra(0, 0), guard), predicate_to_guard});
    return steps;
  }

  // The scoreboard of our loads: one that the kernel waits for at the same place, else one that it has not taken.
  uint8_t scoreboard(InstIndex wait) const {
    const uint8_t usable = scratch_.shared_scoreboards(), waited = sass::get_control(code_.insts[wait].raw).wait_mask & usable;
    uint8_t taken = 0;
    for (InstIndex i = 0; i < wait; ++i)
      if (const uint8_t sb = sass::get_control(code_.insts[i].raw).write_barrier; sb < 6) taken |= static_cast<uint8_t>(1u << sb);
    for (const uint8_t set : {waited, static_cast<uint8_t>(usable & ~taken), usable})
      for (uint8_t sb = 0; sb < 6; ++sb)
        if (set >> sb & 1) return sb;
    return scratch_.scoreboard();
  }

  // Between the kernel's own instructions, of which `repeatable` may be passed.
  bool spread(InstIndex repeatable) {
    InstIndex wait = 1;   // loads need an instruction or two
    while (wait < repeatable && sass::get_control(code_.insts[wait].raw).wait_mask == 0) ++wait;
    const unsigned n = coordinates(), registers = n + (plan_.seed != 0);
    // Where each step stands, and how long it must wait for what the kernel's own instructions do not give it.
    std::array<Gpr, 3> r;
    Gpr seed = enc::RZ;
    const size_t steps = n + 2;
    std::vector<InstIndex> place(steps);
    std::vector<unsigned> pause(steps);
    InstIndex at = wait;
    const std::vector<Step> timing = sampled({}, {}, {}, 0);
    for (size_t k = 0; k < steps; ++k) {
      if (k > 0) {
        unsigned passed = 1;
        for (; at < repeatable && passed < timing[k].after; ++at) passed += sass::get_control(code_.insts[at].raw).stall;
        pause[k] = passed < timing[k].after ? timing[k].after - passed : 0;
      }
      place[k] = at;
    }
    sass::RegSet taken;
    std::vector<Gpr> free;
    for (unsigned k = 0; k < registers; ++k) {
      const auto h = scratch_.try_holder(0, place[n], {Shape::single}, std::nullopt, taken);
      if (!h) return false;
      free.push_back(h->r(0));
      taken.set(h->reg[0]);
    }
    const auto guard = scratch_.predicate(place[n], place[n + 1]);
    if (!guard) return false;
    for (unsigned k = 0; k < n; ++k) r[k] = free[k];
    if (plan_.seed != 0) seed = free[n];
    const uint8_t sb = scoreboard(wait);
    Sequence& entry = out_.insertions.before[0];
    for (unsigned k = 0; k < n; ++k)
      put(entry, enc::s2r(r[k], static_cast<uint8_t>(enc::sr_ctaid_x + k)), {.stall = 1, .write_barrier = sb});
    if (plan_.seed != 0) put(entry, enc::mov_imm(seed, plan_.seed));
    // From a load to the wait for it, and from the MOV to its reader.
    const unsigned passed = (plan_.seed != 0 ? 1 : 0) + 1 + stall_between(0, wait), needed = std::max(scoreboard_visible, vector_to_vector);
    if (passed < needed) put_pause(entry, needed - passed);
    const std::vector<Step> done = sampled(r, seed, *guard, static_cast<uint8_t>(1u << sb));
    for (size_t k = 0; k < steps; ++k) {
      Sequence& seq = out_.insertions.before[place[k]];
      put_pause(seq, pause[k]);
      put(seq, done[k].word, {.stall = k + 1 == steps ? branch_stall : 1, .wait_mask = done[k].wait_mask});
    }
    out_.branch = place.back();
    for (InstIndex i = 0; i < place.back(); ++i) {
      const sass::Control c = sass::get_control(code_.insts[i].raw);
      for (const uint8_t b : {c.write_barrier, c.read_barrier})
        if (b < 6) out_.outstanding |= static_cast<uint8_t>(1u << b);
    }
    return true;
  }
  unsigned stall_between(InstIndex from, InstIndex to) const {
    unsigned sum = 0;
    for (InstIndex i = from; i < to; ++i) sum += sass::get_control(code_.insts[i].raw).stall;
    return sum;
  }

  // In front of the kernel, where nothing is live.
  void at_once() {
    constexpr uint8_t sb = 0;   // nothing is outstanding
    constexpr std::array<Gpr, 3> cta{Gpr{0}, Gpr{1}, Gpr{2}}, tid{Gpr{3}, Gpr{4}, Gpr{5}};
    constexpr Gpr spare{6}, all{7};
    constexpr Pred guard{0};
    Sequence& seq = out_.front;
    const wire::Selection& s = plan_.select;
    const Schedule loaded{.stall = 1, .write_barrier = sb};
    const unsigned numbers = s.ctas.empty() && plan_.one_in == 1 ? 0 : coordinates();
    for (unsigned k = 0; k < numbers; ++k) put(seq, enc::s2r(cta[k], static_cast<uint8_t>(enc::sr_ctaid_x + k)), loaded);
    const Dim3& block = shape_.block;
    const unsigned threads = s.warps.empty() ? 0 : block.z > 1 ? 3 : block.y > 1 ? 2 : 1;
    for (unsigned k = 0; k < threads; ++k) put(seq, enc::s2r(tid[k], static_cast<uint8_t>(enc::sr_tid_x + k)), loaded);
    if (s.empty()) {
      if (plan_.seed != 0) put(seq, enc::mov_imm(spare, plan_.seed));
      put_pause(seq, vector_to_vector - 1);
      const std::vector<Step> steps = sampled(cta, plan_.seed != 0 ? spare : enc::RZ, guard, 1u << sb);
      for (size_t k = 0; k < steps.size(); ++k)
        put(seq, steps[k].word, {.stall = k + 1 < steps.size() ? steps[k + 1].after : branch_stall, .wait_mask = steps[k].wait_mask});
      return;
    }
    put_pause(seq, scoreboard_visible);
    const Schedule waits{.stall = vector_to_vector, .wait_mask = 1u << sb};
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
    if (plan_.one_in > 1) {   // wire::cta_is_sampled
      put(seq, enc::mov_imm(spare, plan_.seed), waits);
      put(seq, enc::imad_imm(spare, cta[0], wire::sample_multiplier, spare), waits);
      const auto threshold = static_cast<uint32_t>(0x100000000ull / plan_.one_in);
      put(seq, enc::isetp_imm(guard, enc::Compare::ge, false, spare, threshold), {.stall = predicate_to_guard});
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

  static constexpr unsigned branch_stall = 5;   // as vendor code has it

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
