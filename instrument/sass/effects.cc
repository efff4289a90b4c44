#include "instrument/sass/effects.h"

#include <algorithm>
#include <bit>

#include "instrument/sass/branch.h"
#include "instrument/sass/form.h"

namespace xtrace::sass {
namespace {

constexpr unsigned rz = 255;
constexpr unsigned pt = 7;

unsigned field(const RawInst& w, unsigned high, unsigned low) {
  return static_cast<unsigned>(get_bits(w, bits(high, low)));
}

// Registers `first`..`first + count - 1`; the zero register and what lies beyond it are left out. `first` is at most that.
void add_registers(RegSet& set, unsigned first, unsigned count, unsigned zero) {
  constexpr unsigned at_once = 32;
  count = std::min(count, zero - first);
  for (; count > at_once; first += at_once, count -= at_once) set.set_run(first, at_once);
  set.set_run(first, count);
}

void add_predicate(PredSet& set, unsigned p) {
  if (p < pt) set = static_cast<PredSet>(set | 1u << p);
}

// Collects operands of an opcode into a register set.
class Collector {
 public:
  Collector(const Arch& arch, const RawInst& w)
      : arch_(arch), w_(w), bytes_(reinterpret_cast<const unsigned char*>(&w)), ur_mask_((1u << arch.ur_bits) - 1),
        urz_(arch.urz) {
    static_assert(std::endian::native == std::endian::little);
  }

  void gpr(Opcode::Single s, RegSet& out) const { single(out, bytes_[s.at], rz, s.present); }
  void ur(Opcode::Single s, RegSet& out) const { single(out, bytes_[s.at] & ur_mask_, urz_, s.present); }
  void pred(Opcode::Single s, PredSet& out) const {
    out = static_cast<PredSet>(out | (s.present << (w_.hi >> s.at & 7) & 0x7f));
  }

  void add(const Slot& slot, RegEffects& out) const {
    const unsigned width = slot.rule == WidthRule::count ? slot.count : slot_width(arch_, w_, slot);
    if (width == 0) return;
    switch (slot.kind) {
      case SlotKind::none:
      case SlotKind::alu_b:
      case SlotKind::alu_c:
      case SlotKind::alu_s:
      case SlotKind::uniform_b:
      case SlotKind::uniform_c:
      case SlotKind::uniform_s:
        return;  // an Opcode has none
      case SlotKind::gpr:
        return add_registers(out.gpr, bytes_[slot.low / 8u], width, rz);
      case SlotKind::ur:
        return add_registers(out.ur, bytes_[slot.low / 8u] & ur_mask_, width, urz_);
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
  static void single(RegSet& set, unsigned r, unsigned zero, unsigned present) {
    set.set_if(r, (present & static_cast<unsigned>(r != zero)) != 0);
  }

  const Arch& arch_;
  const RawInst& w_;
  const unsigned char* bytes_;  // of the word; register fields stand in whole bytes
  unsigned ur_mask_, urz_;
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

unsigned access_bytes(const Opcode& opcode, const Arch& arch, const RawInst& w) {
  constexpr uint8_t size[] = {1, 1, 2, 2, 4, 8, 16, 16};  // [75:73]
  const Form& form = *opcode.form;
  if (form.space() == MemSpace::none) return 0;
  if (opcode.access == WidthRule::sz) return size[field(w, 75, 73)];
  if (opcode.access != WidthRule::count) return 4 * slot_width(arch, w, {.rule = opcode.access});
  if (form.kind() != MemKind::async || form.mnemonic != "LDGSTS") return 0;
  return arch.sm >= 100 ? 4u << std::min(field(w, 75, 74), 2u) : size[field(w, 75, 73)];
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
  if (form.flow() == Flow::next) return true;
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
  const Opcode* opcode = find_opcode(arch, w);
  if (opcode == nullptr) {
    set_unknown(e, arch);
    return e;
  }
  const Form* form = opcode->form;
  e.known = true;
  e.mnemonic = form->mnemonic;
  const Collector collector(arch, w);
#pragma GCC unroll 3
  for (const Opcode::Single s : opcode->gpr_read) collector.gpr(s, e.use.gpr);
  if (opcode->has_uniform) {
    for (const Opcode::Single s : opcode->ur_read) collector.ur(s, e.use.ur);
    collector.ur(opcode->ur_write, e.def.ur);
  }
#pragma GCC unroll 2
  for (const Opcode::Single s : opcode->pred_read) collector.pred(s, e.use.pred);
#pragma GCC unroll 2
  for (const Opcode::Single s : opcode->pred_write) collector.pred(s, e.def.pred);
  collector.gpr(opcode->gpr_write, e.def.gpr);
  const auto is_bound = [&](const Slot& s) {
    return s.uncertain && !(s.rule == WidthRule::tld_a && slot_width(arch, w, s) == 1);
  };
  e.exact = true;
  const auto note_bound = [&](const Slot& s) {
    RegEffects only;
    collector.add(s, only);
    if (only.gpr.any() || only.ur.any() || (only.pred | only.upred | only.barrier) != 0) e.exact = false;
  };
  for (const Slot& s : opcode->other_reads) {
    if (s.kind == SlotKind::none) break;
    collector.add(s, e.use);
    if (is_bound(s)) note_bound(s);
  }
  for (const Slot& s : opcode->other_writes) {
    if (s.kind == SlotKind::none) break;
    collector.add(s, e.def);
    if (!is_bound(s)) continue;
    collector.add(s, e.use);
    note_bound(s);
  }
  const unsigned guard = field(w, 14, 12);
  e.use.pred = static_cast<PredSet>(e.use.pred | (opcode->guard_pred << guard & 0x7f));
  e.use.upred = static_cast<PredSet>(e.use.upred | (opcode->guard_upred << guard & 0x7f));
  e.guarded = field(w, 15, 12) != pt;

  e.space = form->space();
  e.kind = form->kind();
  e.access_bytes = static_cast<uint8_t>(access_bytes(*opcode, arch, w));

  e.flow = form->flow();
  e.falls_through = falls_through(*form, w);
  constexpr Attr targets = rel_target | bssy_target | lepc_target | collective_target;
  if (const auto target = form->has(targets) ? branch_target(arch, *form, w, pc) : std::nullopt) {
    e.target = target;
    e.is_bssy_target = form->has(bssy_target);
  }
  e.may_switch_path = opcode->may_switch_path;
  // Chips with few double-precision units share them: a scoreboard there. [ptxas 13 output]
  const bool shared_fp64 = form->cls == OpClass::fp64 && arch.sm != 90 && arch.sm != 100;
  e.fixed_latency = opcode->fixed_latency && !shared_fp64;
  e.late_queue = opcode->late_queue;
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
