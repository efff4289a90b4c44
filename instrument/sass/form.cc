#include "instrument/sass/form.h"

#include "base/check.h"

namespace xtrace::sass {
namespace {

// --- reading the effects notation at compile time ---

struct OperandName {
  std::string_view name;
  SlotKind kind;
  uint8_t low;
};
constexpr OperandName operand_names[] = {
    {"Rd", SlotKind::gpr, 16},          {"Ra", SlotKind::gpr, 24},
    {"Rb", SlotKind::gpr, 32},          {"Rc", SlotKind::gpr, 64},
    {"Re", SlotKind::gpr, 40},          {"A", SlotKind::gpr, 24},
    {"B", SlotKind::alu_b, 0},          {"C", SlotKind::alu_c, 0},
    {"S", SlotKind::alu_s, 0},          {"Ud", SlotKind::ur, 16},
    {"Ua", SlotKind::ur, 24},           {"Ub", SlotKind::ur, 32},
    {"Uc", SlotKind::ur, 64},           {"Ut", SlotKind::ur, 40},
    {"Uf", SlotKind::ur, 48},           {"UB", SlotKind::uniform_b, 0},
    {"UC", SlotKind::uniform_c, 0},     {"US", SlotKind::uniform_s, 0},
    {"Pu", SlotKind::pred, 81},         {"Pv", SlotKind::pred, 84},
    {"Pp", SlotKind::pred, 87},         {"Pq", SlotKind::pred, 77},
    {"Pr", SlotKind::pred, 68},         {"UPu", SlotKind::upred, 81},
    {"UPv", SlotKind::upred, 84},       {"UPp", SlotKind::upred, 87},
    {"UPq", SlotKind::upred, 77},       {"UPr", SlotKind::upred, 68},
    {"Prx", SlotKind::plop3_third, 68}, {"Pnz", SlotKind::load_pred, 64},
    {"Pnz87", SlotKind::load_pred, 87}, {"UPmma", SlotKind::mma_pred, 87},
    {"UPb", SlotKind::bra_upred, 24},   {"Pbar", SlotKind::bar_pred, 87},
    {"Prelu", SlotKind::relu_pred, 87}, {"Pmask", SlotKind::pred_mask, 32},
    {"Pall", SlotKind::pred_all, 0},    {"UPmask", SlotKind::upred_mask, 32},
    {"UPall", SlotKind::upred_all, 0},  {"Bd", SlotKind::barrier, 16},
    {"Bs", SlotKind::barrier, 24},      {"Ball", SlotKind::barrier_all, 0},
};

struct RuleName {
  std::string_view name;
  WidthRule rule;
};
constexpr RuleName rule_names[] = {
    {"sz", WidthRule::sz},       {"e", WidthRule::e},         {"ae", WidthRule::ae},
    {"e70", WidthRule::e70},     {"e90", WidthRule::e90},     {"desc", WidthRule::desc},
    {"ati", WidthRule::ati},     {"atf", WidthRule::atf},     {"mnum", WidthRule::mnum},
    {"d76", WidthRule::d76},     {"s85", WidthRule::s85},     {"m73", WidthRule::m73},
    {"cs2r", WidthRule::cs2r},   {"m80", WidthRule::m80},     {"hm_d", WidthRule::hm_d},
    {"hm_a", WidthRule::hm_a},   {"hm_b", WidthRule::hm_b},   {"im_d", WidthRule::im_d},
    {"im_a", WidthRule::im_a},   {"im_b", WidthRule::im_b},   {"dm_d", WidthRule::dm_d},
    {"dm_a", WidthRule::dm_a},   {"dm_b", WidthRule::dm_b},   {"sparse", WidthRule::sparse},
    {"gm_d", WidthRule::gm_d},   {"gm_c", WidthRule::gm_c},   {"cctl", WidthRule::cctl},
    {"w74", WidthRule::w74},     {"w75", WidthRule::w75},     {"c84", WidthRule::c84},
    {"c65", WidthRule::c65},     {"w72", WidthRule::w72},     {"zd", WidthRule::zd},
    {"ds76", WidthRule::ds76},   {"u120", WidthRule::u120},   {"tdesc", WidthRule::tdesc},
    {"dim0", WidthRule::dim0},   {"dim1", WidthRule::dim1},   {"dim2", WidthRule::dim2},
    {"f2a", WidthRule::f2a},     {"f2b", WidthRule::f2b},     {"f2c", WidthRule::f2c},
    {"h884", WidthRule::h884},   {"qm_d", WidthRule::qm_d},   {"qm_a", WidthRule::qm_a},
    {"qm_b", WidthRule::qm_b},   {"tm", WidthRule::tm},       {"tld_d", WidthRule::tld_d},
    {"tld_e", WidthRule::tld_e}, {"tld_a", WidthRule::tld_a},
};

// Not constexpr: reaching it in a constant expression is the compile error that reports a bad row.
void bad_effects_notation() { check_failed("forms.def", "forms.def", 0, "effects notation does not parse"); }

constexpr Slot parse_operand(std::string_view token) {
  const size_t colon = token.find(':');
  const std::string_view name = token.substr(0, colon);
  Slot slot;
  for (const OperandName& o : operand_names) {
    if (o.name != name) continue;
    slot.kind = o.kind;
    slot.low = o.low;
  }
  if (slot.kind == SlotKind::none) bad_effects_notation();
  if (colon == std::string_view::npos) return slot;
  std::string_view width = token.substr(colon + 1);
  if (width.starts_with('~')) {
    slot.uncertain = true;
    width.remove_prefix(1);
  }
  if (width.size() == 1 && width[0] >= '1' && width[0] <= '8') {
    slot.count = static_cast<uint8_t>(width[0] - '0');
    return slot;
  }
  for (const RuleName& r : rule_names) {
    if (r.name != width) continue;
    slot.rule = r.rule;
    return slot;
  }
  bad_effects_notation();
  return slot;
}

constexpr Form make_form(std::string_view mnemonic, ArchMask archs, OpClass cls, Attr attrs,
                         std::string_view effects, std::string_view text,
                         std::initializer_list<uint16_t> opcodes) {
  Form f{.mnemonic = mnemonic,
         .archs = archs,
         .cls = cls,
         .attrs = attrs,
         .defs = {},
         .uses = {},
         .text = text,
         .opcodes = {}};
  bool reading_uses = false;
  size_t defs = 0, uses = 0;
  while (!effects.empty()) {
    const size_t space = effects.find(' ');
    const std::string_view token = effects.substr(0, space);
    effects = space == std::string_view::npos ? std::string_view{} : effects.substr(space + 1);
    if (token.empty()) continue;
    if (token == "<-") {
      reading_uses = true;
    } else if (reading_uses) {
      f.uses[uses++] = parse_operand(token);
    } else {
      f.defs[defs++] = parse_operand(token);
    }
  }
  if (!reading_uses) bad_effects_notation();
  size_t n = 0;
  for (uint16_t opcode : opcodes) f.opcodes[n++] = opcode;
  return f;
}

constexpr Form forms[] = {
#define XT_OP(mnemonic, archs, cls, attrs, effects, text, ...) \
  make_form(mnemonic, archs, OpClass::cls, attrs, effects, text, {__VA_ARGS__}),
#include "instrument/sass/forms.def"
#undef XT_OP
};

// --- where the operands of an opcode stand ---

constexpr AluLayout layout_of(uint16_t opcode) {
  const bool extended = (opcode & 0x1000) != 0;
  switch (opcode >> 9 & 7) {
    case 1:
      return {extended ? SourceS::ur : SourceS::reg, false};
    case 2:
      return {SourceS::imm, true};
    case 3:
      return {extended ? SourceS::constant_bindless : SourceS::constant, true};
    case 4:
      return {SourceS::imm, false};
    case 5:
      return {extended ? SourceS::constant_bindless : SourceS::constant, false};
    case 6:
      return {SourceS::ur, false};
    case 7:
      return {SourceS::ur, true};
    default:
      return {SourceS::reg, false};
  }
}

// The slot with a logical operand replaced by the register field that it is in this layout; none when it is no register.
constexpr Slot placed(Slot slot, const AluLayout& layout) {
  constexpr uint8_t source = 32, other = 64;
  const auto at = [&slot](SlotKind kind, uint8_t low) {
    slot.kind = kind;
    slot.low = low;
    return slot;
  };
  const auto in_source = [&] {
    switch (layout.s) {
      case SourceS::reg:
        return at(SlotKind::gpr, source);
      case SourceS::ur:
        return at(SlotKind::ur, source);
      case SourceS::constant_bindless:
        slot.rule = WidthRule::count;
        slot.count = 2;
        return at(SlotKind::ur, source);
      default:
        return Slot{};
    }
  };
  switch (slot.kind) {
    case SlotKind::alu_b:
      return layout.s_is_c ? at(SlotKind::gpr, other) : in_source();
    case SlotKind::alu_c:
      return layout.s_is_c ? in_source() : at(SlotKind::gpr, other);
    case SlotKind::uniform_b:
      return layout.s_is_c ? at(SlotKind::ur, other) : in_source();
    case SlotKind::uniform_c:
      return layout.s_is_c ? in_source() : at(SlotKind::ur, other);
    case SlotKind::alu_s:
    case SlotKind::uniform_s:
      return in_source();
    default:
      return slot;
  }
}

template <size_t N>
constexpr bool take(std::array<Opcode::Single, N>& singles, unsigned at) {
  for (Opcode::Single& s : singles)
    if (s.present == 0) {
      s = {static_cast<uint8_t>(at), 1};
      return true;
    }
  return false;
}

// Sorts the slots of one direction into singles and the rest.
template <size_t Slots, size_t Registers>
constexpr void sort_slots(const std::array<Slot, Slots>& slots, const AluLayout& layout,
                          std::array<Opcode::Single, Registers>& gprs, std::array<Opcode::Single, Registers>& urs,
                          std::array<Opcode::Single, 2>& preds, std::array<Slot, Slots>& others, WidthRule& access) {
  size_t n = 0;
  for (const Slot& original : slots) {
    const Slot s = placed(original, layout);
    if (access == WidthRule::count && (s.rule == WidthRule::sz || s.rule == WidthRule::ati || s.rule == WidthRule::atf))
      access = s.rule;
    if (s.kind == SlotKind::none) continue;
    const bool single = s.rule == WidthRule::count && s.count == 1 && !s.uncertain;
    if (single && s.kind == SlotKind::gpr && take(gprs, s.low / 8u)) continue;
    if (single && s.kind == SlotKind::ur && take(urs, s.low / 8u)) continue;
    if (single && s.kind == SlotKind::pred && take(preds, s.low - 64u)) continue;
    others[n++] = s;
  }
}

constexpr LateQueue late_queue(const Form& form) {
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

constexpr bool is_fixed_latency(const Form& form) {
  const bool fixed = form.cls == OpClass::alu || form.cls == OpClass::fp64 || form.cls == OpClass::uniform ||
                     form.cls == OpClass::front;
  return fixed && !form.has(variable);
}

constexpr Opcode make_opcode(const Form& form, uint16_t opcode) {
  Opcode o;
  o.form = &form;
  const AluLayout layout = layout_of(opcode);
  std::array<Opcode::Single, 1> gpr_write{}, ur_write{};
  sort_slots(form.defs, layout, gpr_write, ur_write, o.pred_write, o.other_writes, o.access);
  sort_slots(form.uses, layout, o.gpr_read, o.ur_read, o.pred_read, o.other_reads, o.access);
  o.gpr_write = gpr_write[0];
  o.ur_write = ur_write[0];
  o.has_uniform = o.ur_read[0].present != 0 || o.ur_write.present != 0;
  o.guard_upred = form.guard_is_uniform();
  o.guard_pred = !form.guard_is_uniform() || form.has(either_guard);
  o.late_queue = late_queue(form);
  o.fixed_latency = is_fixed_latency(form);
  o.may_switch_path = !form.has(stays) && (form.has(switches) || form.cls == OpClass::branch);
  return o;
}

constexpr size_t count_opcodes() {
  size_t n = 0;
  for (const Form& f : forms)
    for (const uint16_t opcode : f.opcodes) n += opcode != 0;
  return n;
}

constexpr size_t opcode_rows = count_opcodes();

constexpr std::array<Opcode, opcode_rows> make_opcodes() {
  std::array<Opcode, opcode_rows> all{};
  size_t n = 0;
  for (const Form& f : forms)
    for (const uint16_t opcode : f.opcodes)
      if (opcode != 0) all[n++] = make_opcode(f, opcode);
  return all;
}

constexpr std::array<Opcode, opcode_rows> opcodes = make_opcodes();

// --- lookup ---

constexpr size_t opcode_count = 1 << 13;
using Lookup = std::array<uint16_t, opcode_count>;  // index in `opcodes` + 1, 0 = none

struct Lookups {
  std::array<Lookup, arch_group_count> group{};
  bool duplicate = false;
};

constexpr Lookups make_lookups() {
  Lookups l;
  size_t n = 0;
  for (const Form& f : forms) {
    for (const uint16_t opcode : f.opcodes) {
      if (opcode == 0) break;
      ++n;
      for (unsigned g = 0; g < arch_group_count; ++g) {
        if ((f.archs >> g & 1) == 0) continue;
        if (l.group[g][opcode] != 0) l.duplicate = true;
        l.group[g][opcode] = static_cast<uint16_t>(n);
      }
    }
  }
  return l;
}

constexpr Lookups lookups = make_lookups();
static_assert(!lookups.duplicate, "two rows of forms.def claim one opcode for one architecture");

}  // namespace

const Opcode* find_opcode(const Arch& arch, const RawInst& w) {
  const uint16_t row = lookups.group[arch_group(arch)][opcode13(w)];
  return row == 0 ? nullptr : &opcodes[row - 1];
}

const Form* find_form(const Arch& arch, const RawInst& w) {
  const Opcode* opcode = find_opcode(arch, w);
  return opcode == nullptr ? nullptr : opcode->form;
}

std::span<const Form> all_forms() { return forms; }

AluLayout alu_layout(uint16_t opcode) { return layout_of(opcode); }

}  // namespace xtrace::sass
