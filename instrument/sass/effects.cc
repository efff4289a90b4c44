#include "instrument/sass/effects.h"

#include <algorithm>
#include <span>

#include "instrument/sass/branch.h"
#include "instrument/sass/form.h"

namespace xtrace::sass {
namespace {

constexpr unsigned rz = 255;
constexpr unsigned pt = 7;

unsigned field(const RawInst& w, unsigned high, unsigned low) {
  return static_cast<unsigned>(get_bits(w, bits(high, low)));
}

// Registers `first`..`first + count - 1`; the zero register and what lies beyond it are left out.
void add_registers(RegSet& set, unsigned first, unsigned count, unsigned zero) {
  const unsigned end = std::min(first + count, zero);
  for (unsigned r = first; r < end; ++r) set[r] = true;  // below the size of the set: no check
}

void add_predicate(PredSet& set, unsigned p) {
  if (p < pt) set = static_cast<PredSet>(set | 1u << p);
}

// Collects one operand of the table into a register set.
class Collector {
 public:
  Collector(const Arch& arch, const RawInst& w) : arch_(arch), w_(w), layout_(alu_layout(opcode13(w))) {}

  void add(const Slot& slot, RegEffects& out) const {
    const unsigned width = slot.rule == WidthRule::count ? slot.count : slot_width(arch_, w_, slot);
    if (width == 0) return;
    switch (slot.kind) {
      case SlotKind::none:
        return;
      case SlotKind::gpr:
        return gpr(slot.low, width, out);
      case SlotKind::ur:
        return ur(slot.low, width, out);
      case SlotKind::alu_b:
        return layout_.s_is_c ? gpr(64, width, out) : source(width, out);
      case SlotKind::alu_c:
        return layout_.s_is_c ? source(width, out) : gpr(64, width, out);
      case SlotKind::alu_s:
        return source(width, out);
      case SlotKind::uniform_b:
        return layout_.s_is_c ? ur(64, width, out) : source(width, out);
      case SlotKind::uniform_c:
        return layout_.s_is_c ? source(width, out) : ur(64, width, out);
      case SlotKind::uniform_s:
        return source(width, out);
      case SlotKind::pred:
        return add_predicate(out.pred, field(w_, slot.low + 2u, slot.low));
      case SlotKind::upred:
        return add_predicate(out.upred, field(w_, slot.low + 2u, slot.low));
      case SlotKind::plop3_third:
        return add_predicate(field(w_, 67, 67) != 0 ? out.upred : out.pred, field(w_, 70, 68));
      case SlotKind::load_pred:
        return add_predicate(out.pred, pt - field(w_, slot.low + 2u, slot.low));
      case SlotKind::mma_pred:
        return add_predicate(out.upred, pt - (field(w_, 89, 87)));
      case SlotKind::bra_upred:
        return add_predicate(out.upred, field(w_, 26, 24));
      case SlotKind::bar_pred:
        if (const unsigned mode = field(w_, 79, 77); mode == 2 || mode == 3)
          add_predicate(out.pred, field(w_, 89, 87));
        return;
      case SlotKind::relu_pred:
        if (field(w_, 79, 79) != 0) add_predicate(out.pred, field(w_, 89, 87));
        return;
      case SlotKind::pred_mask:
        out.pred = static_cast<PredSet>(out.pred | field(w_, 38, 32));
        return;
      case SlotKind::pred_all:
        out.pred = 0x7f;
        return;
      case SlotKind::upred_mask:
        out.upred = static_cast<PredSet>(out.upred | field(w_, 38, 32));
        return;
      case SlotKind::upred_all:
        out.upred = 0x7f;
        return;
      case SlotKind::barrier: {
        const unsigned b = slot.low == 16 ? field(w_, 19, 16) : field(w_, 28, 24);
        if (b < 16) out.barrier = static_cast<uint16_t>(out.barrier | 1u << b);
        return;
      }
      case SlotKind::barrier_all:
        out.barrier = 0xffff;
        return;
    }
  }

 private:
  void gpr(unsigned low, unsigned width, RegEffects& out) const {
    add_registers(out.gpr, field(w_, low + 7, low), width, rz);
  }
  void ur(unsigned low, unsigned width, RegEffects& out) const {
    add_registers(out.ur, field(w_, low + arch_.ur_bits - 1u, low), width, arch_.urz);
  }
  // The operand in bits [63:32].
  void source(unsigned width, RegEffects& out) const {
    switch (layout_.s) {
      case SourceS::reg:
        return gpr(32, width, out);
      case SourceS::ur:
        return ur(32, width, out);
      case SourceS::constant_bindless:
        return ur(32, 2, out);
      case SourceS::imm:
      case SourceS::constant:
        return;
    }
  }

  const Arch& arch_;
  const RawInst& w_;
  AluLayout layout_;
};

// What is not known may touch everything.
void set_everything(RegEffects& e, const Arch& arch) {
  add_registers(e.gpr, 0, rz, rz);
  add_registers(e.ur, 0, arch.urz, arch.urz);
  e.pred = e.upred = 0x7f;
  e.barrier = 0xffff;
}

void set_unknown(Effects& e, const Arch& arch) {
  set_everything(e.use, arch);
  set_everything(e.def, arch);
  e.guarded = true;  // its definitions are no kills
  e.may_switch_path = true;
  e.late_queue = LateQueue::other;
}

unsigned access_bytes(const Form& form, const Arch& arch, const RawInst& w) {
  if (form.space() == MemSpace::none) return 0;
  const auto rule_bytes = [&](const Slot& s) -> unsigned {
    switch (s.rule) {
      case WidthRule::sz: {
        constexpr uint8_t size[] = {1, 1, 2, 2, 4, 8, 16, 16};
        return size[field(w, 75, 73)];
      }
      case WidthRule::ati:
      case WidthRule::atf:
        return 4 * slot_width(arch, w, s);
      default:
        return 0;
    }
  };
  for (const auto& slots : {std::span<const Slot>(form.defs), std::span<const Slot>(form.uses)})
    for (const Slot& s : slots) {
      if (s.kind == SlotKind::none) break;
      if (const unsigned n = rule_bytes(s)) return n;
    }
  if (form.kind() == MemKind::async && form.mnemonic == "LDGSTS") {
    if (arch.sm >= 100) return 4u << std::min(field(w, 75, 74), 2u);
    constexpr uint8_t size[] = {1, 1, 2, 2, 4, 8, 16, 16};  // [75:73] like a load
    return size[field(w, 75, 73)];
  }
  return 0;
}

bool is_fixed_latency(const Form& form, const Arch& arch) {
  if (form.has(variable)) return false;
  switch (form.cls) {
    case OpClass::alu:
    case OpClass::uniform:
    case OpClass::front:
      return true;
    case OpClass::fp64:
      return arch.sm == 90 ||
             arch.sm == 100;  // others run it on a shared pipe with scoreboards [ptxas 13 output]
    default:
      return false;
  }
}

LateQueue late_queue(const Form& form) {
  switch (form.cls) {
    case OpClass::lsu:
      return LateQueue::lsu;
    case OpClass::xu:
      return LateQueue::xu;
    case OpClass::branch:
      return LateQueue::branch;
    case OpClass::mio:
    case OpClass::dmma:
    case OpClass::gmma:
    case OpClass::tma:
      return LateQueue::other;
    case OpClass::alu:
    case OpClass::fp64:
    case OpClass::uniform:
    case OpClass::front:
      return form.has(variable) ? LateQueue::other : LateQueue::none;
  }
  return LateQueue::other;
}

// The condition of a branch-unit instruction is @guard and Pp ([89:87], negate [90]); 7, plain = always.
bool is_conditional(const Form& form, const RawInst& w) {
  if (field(w, 15, 12) != pt) return true;
  if (form.has(optional_branch)) return true;
  // BRA.DIV and BRA.CONV without a mask register. [33:32] belongs to the target nowhere. [nvdisasm 13]
  if (form.has(rel_target) && form.flow() == Flow::branch && field(w, 33, 32) >= 2) return true;
  return field(w, 90, 87) != pt;
}

bool falls_through(const Form& form, const RawInst& w) {
  switch (form.flow()) {
    case Flow::branch:
    case Flow::branch_indirect:
    case Flow::jump_absolute:
    case Flow::ret:
    case Flow::exit:
      return is_conditional(form, w);
    case Flow::next:
    case Flow::call_relative:  // comes back
    case Flow::call_other:
    case Flow::kill:  // a debugger may continue, KILL ends only some lanes
      return true;
  }
  return true;
}

}  // namespace

Effects effects(const Arch& arch, const RawInst& w, uint32_t pc) {
  Effects e;  // one object on every path, so that it is built where the caller wants it
  const Form* form = find_form(arch, w);
  if (form == nullptr) {
    set_unknown(e, arch);
    return e;
  }
  e.known = true;
  e.mnemonic = form->mnemonic;
  const Collector collector(arch, w);
  const auto is_bound = [&](const Slot& s) {
    return s.uncertain && !(s.rule == WidthRule::tld_a && slot_width(arch, w, s) == 1);
  };
  e.exact = true;
  const auto note_bound = [&](const Slot& s) {
    RegEffects only;
    collector.add(s, only);
    if (only.gpr.any() || only.ur.any() || (only.pred | only.upred | only.barrier) != 0) e.exact = false;
  };
  for (const Slot& s : form->uses) {
    if (s.kind == SlotKind::none) break;
    collector.add(s, e.use);
    if (is_bound(s)) note_bound(s);
  }
  for (const Slot& s : form->defs) {
    if (s.kind == SlotKind::none) break;
    collector.add(s, e.def);
    if (!is_bound(s)) continue;
    collector.add(s, e.use);
    note_bound(s);
  }
  const unsigned guard = field(w, 14, 12);
  add_predicate(form->guard_is_uniform() ? e.use.upred : e.use.pred, guard);
  if (form->has(either_guard)) add_predicate(e.use.pred, guard);
  e.guarded = field(w, 15, 12) != pt;

  e.space = form->space();
  e.kind = form->kind();
  e.access_bytes = static_cast<uint8_t>(access_bytes(*form, arch, w));

  e.flow = form->flow();
  e.falls_through = falls_through(*form, w);
  constexpr Attr targets = rel_target | bssy_target | lepc_target | collective_target;
  if (const auto target = form->has(targets) ? branch_target(arch, *form, w, pc) : std::nullopt) {
    e.target = target;
    e.is_bssy_target = form->has(bssy_target);
  }
  e.may_switch_path = !form->has(stays) && (form->has(switches) || form->cls == OpClass::branch);

  e.fixed_latency = is_fixed_latency(*form, arch);
  e.late_queue = late_queue(*form);
  // Half-precision and matrix instructions run on another unit on some chips of an architecture: there the
  // code gives them a scoreboard. [vendor code: sm_75, 80, 86, 103]
  if (e.fixed_latency && get_control(w).write_barrier != Control::no_barrier) {
    e.fixed_latency = false;
    if (e.late_queue == LateQueue::none) e.late_queue = LateQueue::other;
  }
  if (form->cls == OpClass::front && form->mnemonic == "DEPBAR" &&
      field(w, 47, 47) != 0) {  // DEPBAR.LE SB[46:44], k [43:38]
    e.depbar_scoreboard = static_cast<uint8_t>(field(w, 46, 44));
    e.uses_scoreboard_count = field(w, 43, 38) > 0;
  }
  e.async_registers = form->cls == OpClass::gmma;
  e.changes_register_limit = form->has(register_limit);
  if (e.changes_register_limit && opcode13(w) == 0x19c8) e.register_limit = field(w, 63, 32);
  return e;
}

}  // namespace xtrace::sass
