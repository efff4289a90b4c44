// Branches, convergence, barriers, and what has no effect here.
#include <bit>

#include "instrument/sass/effects.h"
#include "replay/interp/convergence.h"
#include "replay/interp/op_table.h"
#include "replay/interp/paths.h"
#include "replay/interp/program.h"

namespace xtrace::replay::interp {
namespace {

// Branch-unit instructions have a second condition, [90:87], beside the guard.
uint32_t condition(const Step& s, const Inst& i) { return s.mask & s.pred(i.pp); }
void decode_condition(Decoder& d, Inst& i) { i.pp = d.pred(87, false); }

void decode_target(Decoder& d, Inst& i) {
  const sass::Effects e = sass::effects(*d.program().arch, d.word(), d.pc);
  const auto limit = static_cast<int64_t>(d.program().words.size() * sass::inst_bytes);
  if (!e.target || *e.target < 0 || *e.target >= limit || *e.target % sass::inst_bytes != 0)
    return d.refuse("a target outside the code of the kernel");
  i.target = static_cast<uint32_t>(*e.target / sass::inst_bytes);
}
void take_target(Decoder& d) {
  d.hint(23, 16);
  d.hint(81, 34);
}

void bra(Step& s, const Inst& i) { branch(s, condition(s, i), i.target); }
// BRA.DIV: taken when lanes of a uniform mask are elsewhere; .CONV: when none are. Lanes that ended do not count [guess]: both ways
// lead to the same values.
void bra_divergent(Step& s, const Inst& i) {
  const uint32_t mask = s.row(i.a[0])[0] ^ i.a[0].flip;
  if (((mask & s.warp->live & ~s.active) != 0) != i.flag[0]) branch(s, condition(s, i), i.target);
}
void decode_bra_divergent(Decoder& d, Inst& i) {
  const uint32_t condition = d.take(33, 32);
  if (condition < 2) d.refuse("the condition on the warp");
  i.flag[0] = condition == 3;
  const bool inverted = d.flag(30);
  d.urs(i.a, 24, 1);
  if (inverted) i.a[0].flip = ~0u;
  take_target(d);
  decode_condition(d, i);
  decode_target(d, i);
  i.exec = bra_divergent;
}
// BRA.U: the path goes as one. .ANY: when the condition holds in one of its lanes; else it must hold in all
// or none [guess: where that was not so, both ways led to one instruction].
void bra_uniform(Step& s, const Inst& i) {
  const uint32_t lanes = condition(s, i);
  if (lanes == 0) return;
  if (!i.flag[0] && lanes != s.active && i.target != i.index + 1)
    return s.fail(ErrorKind::unsupported, "a branch of all lanes on which they do not agree");
  branch(s, s.active, i.target);
}
// BRA.U UP0: the path goes as one when a uniform predicate says so.
void bra_if_uniform(Step& s, const Inst& i) {
  if (s.mask != 0 && s.pred(i.pq) != 0) bra_uniform(s, i);
}
void decode_bra(Decoder& d, Inst& i) {
  if (d.opcode() == 0x1947) return decode_bra_divergent(d, i);
  if (d.opcode() == 0x1547) {
    d.expect(33, 32, 1, "the condition on the warp");
    i.pq = d.pred(24, true);
    take_target(d);
    decode_condition(d, i);
    decode_target(d, i);
    i.exec = bra_if_uniform;
    return;
  }
  if (d.opcode() != 0x947) return d.refuse("BRA with a condition on the warp");
  const uint32_t condition = d.take(33, 32);
  if (condition > 1) d.refuse("the condition on the warp");
  if (condition == 1) i.flag[0] = d.flag(84);
  d.expect(86, 85, 0, ".INC or .DEC");
  take_target(d);
  decode_condition(d, i);
  decode_target(d, i);
  i.exec = condition == 1 ? bra_uniform : bra;
}

// BRX, RET.REL, CALL.REL through a register: base + 64-bit register.
void indirect(Step& s, const Inst& i) {
  const uint32_t lanes = condition(s, i);
  uint32_t target[lane_count] = {};
  const size_t limit = s.program->words.size() * sass::inst_bytes;
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const uint64_t to =
        (uint64_t{s.row(i.a[1])[l]} << 32 | s.row(i.a[0])[l]) + static_cast<uint64_t>(i.offset);
    if (to >= limit || to % sass::inst_bytes != 0)
      return s.fail(ErrorKind::device, fmt::format("a jump to {:#x}, outside the code of the kernel", to),
                    static_cast<int>(l));
    target[l] = static_cast<uint32_t>(to / sass::inst_bytes);
  }
  branch_each(s, lanes, target);
}
void decode_indirect(Decoder& d, Inst& i) {
  if (d.opcode() != 0x949 && d.opcode() != 0x950) return d.refuse("a target in a uniform register");
  d.gprs(i.a, 24, 2);
  take_target(d);
  decode_condition(d, i);
  if (d.opcode() == 0x950) {
    d.expect(85, 85, 0, "RET.ABS");
    d.expect(86, 86, 1, ".NODEC");
  }
  const auto base = sass::register_branch_base(*d.program().arch, d.word(), d.pc);
  if (!base) return d.refuse("its base");
  i.offset = *base;
  i.exec = indirect;
}

void decode_call(Decoder& d, Inst& i) {
  if (d.opcode() != 0x944 && d.opcode() != 0x344)
    return d.refuse("a call that is not relative to the instruction, or through a uniform register");
  d.expect(86, 86, 1, ".NOINC");
  if (d.opcode() == 0x344) d.gprs(i.a, 24, 2);
  take_target(d);
  decode_condition(d, i);
  if (d.opcode() == 0x344) {
    // Its base stands where RET.REL has it. [nvdisasm 13]
    sass::RawInst ret = d.word();
    set_bits(ret, bits(11, 0), 0x950);
    set_bits(ret, bits(91, 91), 0);
    const auto base = sass::register_branch_base(*d.program().arch, ret, d.pc);
    if (!base) return d.refuse("its base");
    i.offset = *base;
    i.exec = indirect;
    return;
  }
  decode_target(d, i);
  i.exec = bra;  // the caller put the return address into registers
}

void exit_op(Step& s, const Inst& i) {
  if (const uint32_t lanes = condition(s, i); lanes != 0) exit_lanes(s, lanes);
}
void decode_exit(Decoder& d, Inst& i) {
  d.expect(86, 84, 0, "the kind of EXIT");
  decode_condition(d, i);
  i.exec = exit_op;
}

void trap(Step& s, const Inst&) { s.fail(ErrorKind::device, "the kernel trapped"); }
void decode_bpt(Decoder& d, Inst& i) {
  d.expect(86, 84, 3, "the kind of break point");  // .TRAP
  d.hint(53, 34);
  d.hint(90, 87);
  i.exec = trap;
}

// --- convergence
void bssy(Step& s, const Inst& i) { join_barrier(s, condition(s, i), i.op); }
void decode_barrier(Decoder& d, Inst& i) {
  i.op = d.take(19, 16);
  decode_condition(d, i);
}
void decode_bssy(Decoder& d, Inst& i) {
  decode_barrier(d, i);
  d.hint(63, 34);  // where the lanes meet: behind their BSYNC
  i.exec = bssy;
}
void bsync(Step& s, const Inst& i) {
  if (const uint32_t lanes = condition(s, i); lanes != 0) wait_barrier(s, lanes, i.op);
}
void decode_bsync(Decoder& d, Inst& i) {
  decode_barrier(d, i);
  i.exec = bsync;
}
void break_op(Step& s, const Inst& i) {
  if (const uint32_t lanes = condition(s, i); lanes != 0) leave_barrier(s, lanes, i.op);
}
void decode_break(Decoder& d, Inst& i) {
  decode_barrier(d, i);
  i.exec = break_op;
}

// BMOV.32: a convergence barrier to a register and back.
void barrier_to_register(Step& s, const Inst& i) {
  auto& b = s.warp->barriers[i.op];
  map(s, i.d[0], [&](unsigned l) { return b[l]; });
  if (!i.flag[0]) return;
  each(s, [&](unsigned l) { b[l] = 0; });
  clear_shared(*s.warp, s.mask, i.op);
}
void register_to_barrier(Step& s, const Inst& i) {
  auto& b = s.warp->barriers[i.op];
  // Where lanes differ the lowest one's counts. [measured H200]
  const uint32_t mask = Plain(s, i.a[0])[first_lane(s.mask)];
  each(s, [&](unsigned l) { b[l] = mask; });
  write_shared(*s.warp, s.mask, i.op, mask);
}
void decode_bmov(Decoder& d, Inst& i) {
  i.op = d.take(28, 24);
  if (i.op > 15) d.refuse("a state that is no convergence barrier");
  if (d.opcode() == 0x355) {
    d.dst_gpr(i);
    i.flag[0] = d.flag(84);
    i.exec = barrier_to_register;
  } else if (d.opcode() == 0x356) {
    d.gprs(i.a, 32, 1);
    i.exec = register_to_barrier;
  } else {
    d.refuse("this form of BMOV");
  }
}

void warpsync_literal(Step& s, const Inst& i) {
  if (const uint32_t lanes = condition(s, i); lanes != 0) wait_warpsync(s, lanes, i.imm | lanes);
}
// Every lane names the lanes that it waits for, itself among them. Groups that are here already need not
// wait.
void warpsync(Step& s, const Inst& i) {
  const uint32_t lanes = condition(s, i);
  if (lanes == 0) return;
  const uint32_t* masks = s.row(i.a[0]);
  bool all_here = true;
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const uint32_t need = masks[l];
    if ((need >> l & 1) == 0)
      return s.fail(ErrorKind::device, "an illegal instruction: a lane that does not name itself", static_cast<int>(l));
    for (uint32_t o = need & lanes; o != 0; o &= o - 1)
      if (masks[first_lane(o)] != need)
        return s.fail(ErrorKind::device, "lanes that do not name each other", static_cast<int>(l));
    all_here &= (need & s.warp->live & ~lanes) == 0;
  }
  const uint32_t need = masks[first_lane(lanes)];
  if (all_here) {
    if ((lanes & ~need) == 0) together(*s.warp, lanes);
    return;
  }
  if ((lanes & ~need) != 0)
    return s.fail(ErrorKind::unsupported, "several groups of lanes of which one must wait");
  wait_warpsync(s, lanes, need);
}
// WARPSYNC.EXCLUSIVE: the lanes of one mask come together and go on without the others.
void warpsync_exclusive(Step& s, const Inst& i) {
  if (const uint32_t lanes = condition(s, i); lanes != 0) wait_exclusively(s, lanes, s.row(i.a[0]));
}
// WARPSYNC.COLLECTIVE: lanes of one mask come together for the few instructions up to ENDCOLLECTIVE, which
// they execute as one. Lanes that come from another WARPSYNC.COLLECTIVE are refused: what they would execute
// was not measured.
void collect(Step& s, uint32_t lanes, uint32_t need) {
  const uint32_t next = current_path(*s.warp).at + 1;
  for (const Path& p : s.warp->paths)
    if (p.state == PathState::at_warpsync && (p.need & need) != 0 && p.at != next)
      return s.fail(ErrorKind::unsupported, "lanes that wait for each other at different instructions");
  wait_warpsync(s, lanes, need);
}
void collective_all(Step& s, const Inst& i) {
  if (const uint32_t lanes = condition(s, i); lanes != 0) collect(s, lanes, all_lanes);
}
void collective(Step& s, const Inst& i) {
  const uint32_t lanes = condition(s, i);
  if (lanes == 0) return;
  const uint32_t* masks = s.row(i.a[0]);
  for (uint32_t m = lanes; m != 0; m &= m - 1)
    if (const unsigned l = first_lane(m); (masks[l] >> l & 1) == 0)  // [measured H200 2026-11-30]
      return s.fail(ErrorKind::device, "an illegal instruction: a lane that does not name itself", static_cast<int>(l));
  const uint32_t need = masks[first_lane(lanes)];
  for (uint32_t m = lanes; m != 0; m &= m - 1)
    if (masks[first_lane(m)] != need)
      return s.fail(ErrorKind::unsupported, "several groups of lanes", static_cast<int>(first_lane(m)));
  collect(s, lanes, need);
}
// Behind ENDCOLLECTIVE lanes go where their WARPSYNC.COLLECTIVE says. Modelled is the one place that
// compilers name: the instruction behind it.
bool ends_collective(Decoder& d, uint32_t target) {
  return target > 0 && (sass::opcode13(d.program().words[target - 1]) & 0xfff) == 0x91b;
}
void decode_warpsync(Decoder& d, Inst& i) {
  const uint32_t kind = d.take(86, 85);
  decode_condition(d, i);
  const bool all = d.opcode() == 0x948;
  if (!all) d.gprs(i.a, 24, 1);
  if (kind == 0) {
    if (all) i.imm = d.program().arch->sm < 90 ? d.take(63, 32) : all_lanes;
    i.exec = all ? warpsync_literal : warpsync;
    return;
  }
  if (kind == 1 && !all) {
    i.exec = warpsync_exclusive;
    return;
  }
  if (kind != 2) return d.refuse("the kind of WARPSYNC");
  take_target(d);
  decode_target(d, i);
  if (!ends_collective(d, i.target)) d.refuse("a target that is not behind its ENDCOLLECTIVE");
  i.exec = all ? collective_all : collective;
}

// --- CTA barriers
// Lanes in which the guard does not hold come along: warps arrive, not lanes. [measured H200 2026-11-30]
void bar(Step& s, const Inst& i) { cta_barrier(s, s.active, i.op, i.imm, i.flag[0]); }
void bar_red(Step& s, const Inst& i) {
  CtaBarrier& b = s.cta->barriers[i.op];
  b.count += static_cast<uint32_t>(std::popcount(s.mask & s.pred(i.pp)));
  b.reduced += static_cast<uint32_t>(std::popcount(s.mask));
  s.warp->reduction = i.type;
  bar(s, i);
}
// Barrier in bits 3:0 of a register, number of threads from bit 16 on. [vendor code: what bar.sync of a
// variable becomes]
void bar_by_register(Step& s, const Inst& i) {
  const uint32_t v = s.row(i.a[0])[first_lane(s.mask)];
  for (uint32_t m = s.mask; m != 0; m &= m - 1)
    if (s.row(i.a[0])[first_lane(m)] != v)
      return s.fail(ErrorKind::unsupported, "lanes that name different barriers",
                    static_cast<int>(first_lane(m)));
  if (!i.flag[0] && v >> 16 == 0)
    return s.fail(ErrorKind::unsupported, "BAR.ARV without a number of threads");
  cta_barrier(s, s.active, v & 0xf, v >> 16 & 0xfff, i.flag[0]);
}
void decode_bar_by_register(Decoder& d, Inst& i) {
  const uint32_t mode = d.take(79, 77);
  if (mode > 1) d.refuse("BAR.RED or BAR.SCAN named by a register");
  i.flag[0] = mode == 0;
  d.hint(80, 80);  // .DEFER_BLOCKING
  d.hint(90, 87);  // the predicate of BAR.RED
  d.gprs(i.a, 32, 1);
  i.unit = Unit::other;
  i.exec = bar_by_register;
}
void decode_bar(Decoder& d, Inst& i) {
  if (d.opcode() == 0x31d) return decode_bar_by_register(d, i);
  if (d.opcode() != 0xb1d) return d.refuse("a barrier half named by a register");
  const uint32_t mode = d.take(79, 77);
  if (mode > 2) d.refuse("BAR.SCAN");
  i.flag[0] = mode != 1;
  d.hint(80, 80);  // .DEFER_BLOCKING
  i.pp = d.pred(87);
  if (mode == 2) i.type = d.take(75, 74);  // POPC AND OR
  if (i.type > 2) d.refuse("the reduction");
  i.op = d.take(57, 54);
  i.imm = d.take(53, 42);
  if (mode == 1 && i.imm == 0) d.refuse("BAR.ARV without a number of threads");
  i.unit = Unit::other;
  i.exec = mode == 2 ? bar_red : bar;
}
// B2R.RESULT: what BAR.RED gave. A count comes in the register, AND and OR in the predicate. [vendor code]
void b2r(Step& s, const Inst& i) {
  const Warp& w = *s.warp;
  const bool counts = w.reduction == 0, to_register = i.d[0] != s.program->layout.sink();
  if (w.reduction > 2 || (to_register && !counts) || (i.pu != pt && counts))
    return s.fail(ErrorKind::unsupported, "this place of the result of a BAR.RED, or one that there was not");
  map(s, i.d[0], [&](unsigned) { return w.reduced_count; });
  const bool holds = w.reduction == 1 ? w.reduced_count == w.reduced : w.reduced_count != 0;
  s.set_pred(i.pu, holds ? all_lanes : 0);
}
void decode_b2r(Decoder& d, Inst& i) {
  d.expect(79, 78, 1, "what is read");
  d.dst_gpr(i);
  i.pu = d.pred_dst(81);
  i.exec = b2r;
}

// --- the barrier of a cluster. Executed once for the lanes of the path.
void cluster_arrive(Step& s, const Inst&) { arrive_at_cluster(s); }
void decode_cluster_arrive(Decoder&, Inst& i) { i.exec = cluster_arrive; }
void cluster_wait(Step& s, const Inst&) { wait_for_cluster(s); }
void decode_cluster_wait(Decoder&, Inst& i) { i.exec = cluster_wait; }

// --- without effect on results
void all_hints(Decoder& d) {
  d.hint(63, 16);
  d.hint(90, 64);
  d.hint(104, 92);
}
void nothing(Step&, const Inst&) {}
void decode_nothing(Decoder& d, Inst& i) {
  all_hints(d);
  i.exec = nothing;
}
void give_way(Step& s, const Inst&) {
  s.yield = true;
  yielded(*s.warp, s.active);
}
void decode_yield(Decoder& d, Inst& i) {
  all_hints(d);
  i.exec = give_way;
  i.flag[3] = true;  // at once, not only now and then
}

constexpr Op ops[] = {
    {"BRA", 0x147, decode_bra},
    {"CALL", 0x144, decode_call},
    {"BRX", 0x149, decode_indirect},
    {"RET", 0x150, decode_indirect},
    {"EXIT", 0x14d, decode_exit},
    {"BPT", 0x15c, decode_bpt},
    {"BSSY", 0x145, decode_bssy},
    {"BSYNC", 0x141, decode_bsync},
    {"BREAK", 0x142, decode_break},
    {"BMOV", 0x155, decode_bmov},
    {"BMOV", 0x156, decode_bmov},
    {"WARPSYNC", 0x148, decode_warpsync},
    {"BAR", 0x11d, decode_bar},
    {"B2R", 0x11c, decode_b2r},
    {"NOP", 0x118, decode_nothing},
    {"LDGDEPBAR", 0x1af, decode_nothing},
    {"DEPBAR", 0x11a, decode_nothing},
    {"MEMBAR", 0x192, decode_nothing},
    {"ERRBAR", 0x1ab, decode_nothing},
    {"CGAERRBAR", 0x1ab, decode_nothing},
    {"CCTL", 0x18f, decode_nothing},
    // Programmatic dependent launch: launches are replayed alone.
    {"ACQBULK", 0x02e, decode_nothing},
    {"PREEXIT", 0x02d, decode_nothing},
    {"YIELD", 0x146, decode_yield},
    {"UCGABAR_ARV", 0x1c7, decode_cluster_arrive},
    {"UCGABAR_WAIT", 0x1c7, decode_cluster_wait},
    {"NANOSLEEP", 0x15d, decode_yield},
    {"ENDCOLLECTIVE", 0x11b, decode_nothing},
};

}  // namespace

std::span<const Op> control_ops() { return ops; }

}  // namespace xtrace::replay::interp
