// Branches, convergence, barriers, and what has no effect here.
#include "instrument/sass/effects.h"
#include "replay/interp/op_table.h"
#include "replay/interp/paths.h"

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
void decode_bra(Decoder& d, Inst& i) {
  if (d.opcode() != 0x947) return d.refuse("BRA with a condition on the warp");
  d.expect(33, 32, 0, "a condition on the warp");
  d.expect(86, 85, 0, ".INC or .DEC");
  take_target(d);
  decode_condition(d, i);
  decode_target(d, i);
  i.exec = bra;
}

void decode_call(Decoder& d, Inst& i) {
  if (d.opcode() != 0x944) return d.refuse("a call that is not relative to the instruction");
  d.expect(86, 86, 1, ".NOINC");
  take_target(d);
  decode_condition(d, i);
  decode_target(d, i);
  i.exec = bra;  // the caller put the return address into registers
}

// BRX, RET.REL: base + 64-bit register.
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
  if (lanes == 0) return;
  if (lanes != current_path(*s.warp).mask)
    return s.fail(ErrorKind::unsupported, "an indirect branch that some lanes do not take");
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
  if (i.flag[0]) each(s, [&](unsigned l) { b[l] = 0; });
}
void register_to_barrier(Step& s, const Inst& i) {
  auto& b = s.warp->barriers[i.op];
  const Plain a(s, i.a[0]);
  each(s, [&](unsigned l) { b[l] = a[l]; });
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

void warpsync_all(Step& s, const Inst& i) {
  if (const uint32_t lanes = condition(s, i); lanes != 0) wait_warpsync(s, lanes, all_lanes);
}
void warpsync(Step& s, const Inst& i) {
  const uint32_t lanes = condition(s, i);
  if (lanes == 0) return;
  const uint32_t need = s.row(i.a[0])[first_lane(lanes)];
  for (uint32_t m = lanes; m != 0; m &= m - 1)
    if (s.row(i.a[0])[first_lane(m)] != need || (need >> first_lane(m) & 1) == 0)
      return s.fail(ErrorKind::device, "lanes that do not name each other", static_cast<int>(first_lane(m)));
  wait_warpsync(s, lanes, need);
}
void decode_warpsync(Decoder& d, Inst& i) {
  d.expect(86, 85, 0, "the kind of WARPSYNC");
  decode_condition(d, i);
  if (d.opcode() == 0x948) {
    i.exec = warpsync_all;
    return;
  }
  d.gprs(i.a, 24, 1);
  i.exec = warpsync;
}

// --- CTA barriers
void bar(Step& s, const Inst& i) { cta_barrier(s, s.mask, i.op, i.imm, i.flag[0]); }
void decode_bar(Decoder& d, Inst& i) {
  if (d.opcode() != 0xb1d) return d.refuse("a barrier named by a register");
  const uint32_t mode = d.take(79, 77);
  if (mode > 1) d.refuse("BAR.RED and BAR.SCAN");
  i.flag[0] = mode == 0;
  d.hint(80, 80);  // .DEFER_BLOCKING
  d.hint(90, 87);  // the predicate of BAR.RED
  i.op = d.take(57, 54);
  i.imm = d.take(53, 42);
  if (mode == 1 && i.imm == 0) d.refuse("BAR.ARV without a number of threads");
  i.unit = Unit::other;
  i.exec = bar;
}

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
void give_way(Step& s, const Inst&) { s.yield = true; }
void decode_yield(Decoder& d, Inst& i) {
  all_hints(d);
  i.exec = give_way;
  i.flag[3] = true;  // at once, not only now and then
}

constexpr Op ops[] = {
    {"BRA", 0x147, decode_bra},         {"CALL", 0x144, decode_call},
    {"BRX", 0x149, decode_indirect},    {"RET", 0x150, decode_indirect},
    {"EXIT", 0x14d, decode_exit},       {"BPT", 0x15c, decode_bpt},
    {"BSSY", 0x145, decode_bssy},       {"BSYNC", 0x141, decode_bsync},
    {"BREAK", 0x142, decode_break},     {"BMOV", 0x155, decode_bmov},
    {"BMOV", 0x156, decode_bmov},       {"WARPSYNC", 0x148, decode_warpsync},
    {"BAR", 0x11d, decode_bar},         {"NOP", 0x118, decode_nothing},
    {"DEPBAR", 0x11a, decode_nothing},  {"MEMBAR", 0x192, decode_nothing},
    {"ERRBAR", 0x1ab, decode_nothing},  {"CGAERRBAR", 0x1ab, decode_nothing},
    {"CCTL", 0x18f, decode_nothing},    {"YIELD", 0x146, decode_yield},
    {"NANOSLEEP", 0x15d, decode_yield},
};

}  // namespace

std::span<const Op> control_ops() { return ops; }

}  // namespace xtrace::replay::interp
