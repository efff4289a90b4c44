#include "instrument/sass/form.h"

#include <algorithm>
#include <bit>

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

// --- lookup ---

constexpr size_t opcode_count = 1 << 13;
using Lookup = std::array<uint16_t, opcode_count>;  // row number + 1, 0 = none

struct Lookups {
  std::array<Lookup, arch_group_count> group{};
  bool duplicate = false;
};

constexpr Lookups make_lookups() {
  Lookups l;
  for (size_t row = 0; row < std::size(forms); ++row) {
    for (uint16_t opcode : forms[row].opcodes) {
      if (opcode == 0) break;
      for (unsigned g = 0; g < arch_group_count; ++g) {
        if ((forms[row].archs >> g & 1) == 0) continue;
        if (l.group[g][opcode] != 0) l.duplicate = true;
        l.group[g][opcode] = static_cast<uint16_t>(row + 1);
      }
    }
  }
  return l;
}

constexpr Lookups lookups = make_lookups();
static_assert(!lookups.duplicate, "two rows of forms.def claim one opcode for one architecture");

// --- widths ---

unsigned field(const RawInst& w, unsigned high, unsigned low) {
  return static_cast<unsigned>(get_bits(w, bits(high, low)));
}

unsigned integer_atomic_width(const Arch& arch, const RawInst& w) {
  const unsigned type = field(w, 75, 73);
  if (arch.sm >= 90) return type == 4 ? 4 : type == 2 || type == 3 ? 2 : 1;
  return type == 2 || type == 5 || type == 6 ? 2 : 1;
}

unsigned float_atomic_width(const RawInst& w) {
  switch (field(w, 76, 73)) {
    case 1:   // F16x4
    case 4:   // BF16x4
    case 10:  // F32x2.FTZ
    case 13:  // F32x2
    case 15:  // F64
      return 2;
    case 2:   // F16x8
    case 5:   // BF16x8
    case 11:  // F32x4.FTZ
    case 14:  // F32x4
      return 4;
    default:
      return 1;
  }
}

bool is_sparse(const RawInst& w) {
  switch (opcode13(w)) {
    case 0x237:
      return field(w, 72, 72) != 0;
    case 0x27a:
      return field(w, 80, 80) != 0;
    default:
      return field(w, 73, 73) != 0;
  }
}

// HMMA: {[78],[75]} 0 = 16x8x8, 1 = 16x8x16, 2 = 16x8x4; TF32 when [83:82] = 2. Sparse shapes: upper bound.
unsigned hmma_width(WidthRule rule, const RawInst& w) {
  const unsigned shape = field(w, 78, 78) << 1 | field(w, 75, 75);
  const bool tf32 = field(w, 83, 82) == 2;
  if (rule == WidthRule::hm_d) return field(w, 76, 76) != 0 ? 4 : 2;
  if (is_sparse(w) || shape == 3) return 4;
  constexpr uint8_t half_a[] = {2, 4, 1}, half_b[] = {1, 2, 1}, tf32_a[] = {4, 4, 2}, tf32_b[] = {2, 2, 1};
  if (rule == WidthRule::hm_a) return tf32 ? tf32_a[shape] : half_a[shape];
  return tf32 ? tf32_b[shape] : half_b[shape];
}

// IMMA: {[86:85],[75]} 0 = 8x8x16, 4 = 16x8x16, 5 = 16x8x32. Others (4-bit operands): upper bound. [nvdisasm
// 13]
unsigned imma_width(WidthRule rule, const RawInst& w) {
  const unsigned shape = field(w, 86, 85) << 1 | field(w, 75, 75);
  if (is_sparse(w)) return 4;
  switch (shape) {
    case 0:  // 8816
      return rule == WidthRule::im_d ? 2 : 1;
    case 4:  // 16816
      return rule == WidthRule::im_d ? 4 : rule == WidthRule::im_a ? 2 : 1;
    case 5:  // 16832
      return rule == WidthRule::im_d ? 4 : rule == WidthRule::im_a ? 4 : 2;
    default:
      return 4;
  }
}

// QMMA: [76:75] 0 = 16x8x16, 1 = 16x8x32 (the tile sizes over 32 lanes). Others, and sparse ones: upper
// bound.
unsigned qmma_width(WidthRule rule, const RawInst& w) {
  if (rule == WidthRule::qm_d) return field(w, 77, 77) != 0 ? 4 : 2;
  const unsigned shape = field(w, 76, 75);
  if (is_sparse(w) || shape > 1) return 4;
  const unsigned b = shape == 0 ? 1 : 2;
  return rule == WidthRule::qm_a ? 2 * b : b;
}

// LDTM, STTM: 1, 2 ... 128 repetitions ([85:83]); a 128-bit lane row takes 2 registers, a 256-bit one 4. [PTX
// ISA, tcgen05.ld; register numbers in ptxas 13 output]
unsigned tensor_memory_width(const RawInst& w) {
  const unsigned shape = field(w, 87, 87) << 2 | field(w, 82, 81);
  const unsigned repeat = 1u << field(w, 85, 83);
  const unsigned each = shape == 0 ? 2 : shape == 1 ? 4 : 1;
  return std::min(each * repeat, 128u);
}

bool tld_reads_level_zero(const Arch& arch, const RawInst& w) {
  return arch.sm >= 100 ? field(w, 88, 87) == 0 : field(w, 89, 87) == 1;
}

// DMMA: [77:76] 0 = 8x8x4, 1 = 16x8x4, 2 = 16x8x8, 3 = 16x8x16.
unsigned dmma_width(WidthRule rule, const RawInst& w) {
  constexpr uint8_t d[] = {4, 8, 8, 8}, a[] = {2, 4, 8, 16}, b[] = {2, 2, 4, 8};
  const unsigned shape = field(w, 77, 76);
  return rule == WidthRule::dm_d ? d[shape] : rule == WidthRule::dm_a ? a[shape] : b[shape];
}

// Accumulator registers of a thread: 64 x N values over 128 threads, packed in pairs when they are F16.
unsigned gmma_width(const RawInst& w) {
  const unsigned kind = opcode13(w) & 0xf;
  const bool half = (kind == 0 || kind == 3) && field(w, 75, 75) == 0;
  return half ? gmma_columns(w) / 4 : gmma_columns(w) / 2;
}

bool vector_part_is_wide(const Arch& arch, const RawInst& w, bool atomic) {
  if ((opcode13(w) & 0x1000) == 0) return field(w, 72, 72) != 0;  // the vector register is the whole address
  if (!atomic) return field(w, 90, 90) != 0;
  // sm_100 and later moved the flag (bit 70 belongs to the uniform register there): take the wider reading.
  // [guess]
  return arch.sm >= 100 || field(w, 90, 90) != 0 || field(w, 70, 70) != 0;
}

}  // namespace

unsigned arch_group(const Arch& arch) {
  if (arch.sm < 80) return 0;
  if (arch.sm < 90) return 1;
  if (arch.sm < 100) return 2;
  return arch.sm < 120 ? 3 : 4;
}

// N of a 64xNxK warpgroup MMA. The code differs by operand type. [nvdisasm 13, every code tried]
unsigned gmma_columns(const RawInst& w) {
  const auto from_steps = [](unsigned steps) { return steps < 4 ? (steps + 1) * 8 : (steps - 1) * 16; };
  switch (opcode13(w) & 0xf) {
    case 1:  // IGMMA: multiples of 3 count the steps 8 16 24 32 48 64 ... 256
      return from_steps(field(w, 58, 53) / 3);
    case 2:  // BGMMA: the same steps
      return from_steps(field(w, 57, 53));
    default:  // HGMMA, QGMMA
      return (field(w, 57, 53) + 1) * 8;
  }
}

const Form* find_form(const Arch& arch, const RawInst& w) {
  const uint16_t row = lookups.group[arch_group(arch)][opcode13(w)];
  return row == 0 ? nullptr : &forms[row - 1];
}

std::span<const Form> all_forms() { return forms; }

AluLayout alu_layout(uint16_t opcode) {
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

unsigned slot_width(const Arch& arch, const RawInst& w, const Slot& slot) {
  switch (slot.rule) {
    case WidthRule::count:
      return slot.count;
    case WidthRule::sz: {
      const unsigned size = field(w, 75, 73);
      return size == 6 || size == 7 ? 4 : size == 5 ? 2 : 1;
    }
    case WidthRule::e:
      return vector_part_is_wide(arch, w, false) ? 2 : 1;
    case WidthRule::ae:
      return vector_part_is_wide(arch, w, true) ? 2 : 1;
    case WidthRule::e70:
      return (arch.sm >= 100 ? field(w, 83, 83) : field(w, 70, 70)) != 0 ? 2 : 1;
    case WidthRule::e90:
      return field(w, 90, 90) != 0 ? 2 : 1;
    case WidthRule::desc:
      return field(w, 76, 76) != 0 || field(w, 72, 72) != 0 ? 2 : 1;
    case WidthRule::ati:
      return integer_atomic_width(arch, w);
    case WidthRule::atf:
      return float_atomic_width(w);
    case WidthRule::mnum:
      return 1u << field(w, 73, 72);
    case WidthRule::d76:
      return field(w, 76, 75) == 3 ? 2 : 1;
    case WidthRule::s85:
      return field(w, 85, 84) == 3 ? 2 : 1;
    case WidthRule::m73:
      return field(w, 73, 73) != 0 ? 2 : 1;
    case WidthRule::cs2r:
    case WidthRule::m80:
      return field(w, 80, 80) != 0 ? 2 : 1;
    case WidthRule::hm_d:
    case WidthRule::hm_a:
    case WidthRule::hm_b:
      return hmma_width(slot.rule, w);
    case WidthRule::im_d:
    case WidthRule::im_a:
    case WidthRule::im_b:
      return imma_width(slot.rule, w);
    case WidthRule::dm_d:
    case WidthRule::dm_a:
    case WidthRule::dm_b:
      return dmma_width(slot.rule, w);
    case WidthRule::sparse:
      return is_sparse(w) ? 1 : 0;
    case WidthRule::gm_d:
      return gmma_width(w);
    case WidthRule::gm_c:
      return field(w, 90, 87) == 8 ? 0 : gmma_width(w);  // !UPT: starts from zero
    case WidthRule::cctl: {
      const unsigned op = field(w, 90, 87);
      return op == 4 || op == 6 || op == 7 || op == 8 ? 0 : 2;
    }
    case WidthRule::w74:
      return field(w, 74, 74) != 0 ? 2 : 1;
    case WidthRule::w75:
      return field(w, 75, 75) != 0 ? 2 : 1;
    case WidthRule::zd:
      return arch.sm < 80 ? field(w, 87, 87) : 0;
    case WidthRule::w72:
      return field(w, 72, 72) != 0 ? 2 : 1;
    case WidthRule::c65:
      return field(w, 65, 65);
    case WidthRule::ds76:
      return field(w, 76, 76) != 0 ? 3 : 1;
    case WidthRule::u120:
      return arch.sm >= 120 ? 2 : 0;
    case WidthRule::c84:
      return field(w, 84, 84);
    case WidthRule::tdesc:
      return field(w, 76, 76) != 0 ? 2 : 0;
    case WidthRule::dim0:
    case WidthRule::dim1:
    case WidthRule::dim2: {
      const unsigned addresses = static_cast<unsigned>(slot.rule) - static_cast<unsigned>(WidthRule::dim0);
      return std::min(field(w, 81, 79), 4u) + 1 + addresses;
    }
    case WidthRule::f2a:
      return field(w, 82, 81) == 2 ? 1 : 2;
    case WidthRule::f2b:
      return field(w, 88, 87) == 2 ? 1 : 2;
    case WidthRule::f2c:
      return field(w, 85, 84) == 2 ? 1 : 2;
    case WidthRule::h884:
      return field(w, 76, 76) != 0 && field(w, 78, 78) == 0 ? 1 : 2;
    case WidthRule::qm_d:
    case WidthRule::qm_a:
    case WidthRule::qm_b:
      return qmma_width(slot.rule, w);
    case WidthRule::tld_d:
      return std::clamp(static_cast<unsigned>(std::popcount(field(w, 75, 72))), 1u, 2u);
    case WidthRule::tld_e:
      return std::max(std::popcount(field(w, 75, 72)), 2) - 2u;
    case WidthRule::tld_a: {
      const bool plain_1d =
          field(w, 63, 61) == 0 && field(w, 78, 76) == 0 && (arch.sm < 100 || field(w, 57, 56) == 0);
      return plain_1d && tld_reads_level_zero(arch, w) ? 1 : 4;
    }
    case WidthRule::tm:
      return tensor_memory_width(w);
  }
  check_failed("slot.rule", __FILE__, __LINE__, "unknown width rule");
}

}  // namespace xtrace::sass
