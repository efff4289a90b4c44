#include "tests/values/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "instrument/sass/form.h"
#include "instrument/sass/print.h"
#include "tests/values/own_words.h"
#include "tests/values/resources.h"
#include "tests/values/texture_words.h"

namespace xtrace::values {
namespace {

using sass::Form;
using sass::MemSpace;
using sass::OpClass;
using sass::RawInst;
using sass::Slot;
using sass::SlotKind;
using sass::WidthRule;

const sass::Arch& sm90() { return **sass::find_arch(90); }

uint32_t get(const RawInst& w, unsigned high, unsigned low) {
  return static_cast<uint32_t>(get_bits(w, bits(high, low)));
}
void put(RawInst& w, unsigned high, unsigned low, uint64_t v) { set_bits(w, bits(high, low), v); }

// Where the operands of each place of a word go. Apart, so that no operand overlaps another.
unsigned gpr_at(unsigned low) {
  return low == 16 ? 40 : low == 24 ? 8 : low == 32 ? 24 : low == 64 ? 32 : 48;
}
unsigned gpr_room(unsigned low) { return low == 24 ? 16 : low == 40 ? 4 : 8; }
unsigned ur_at(unsigned low) {
  return low == 16 ? 20 : low == 24 ? 4 : low == 32 ? 8 : low == 64 ? 12 : low == 40 ? 16 : 24;
}
unsigned pred_at(unsigned low) { return low == 81 ? 4 : low == 84 ? 5 : low == 87 ? 0 : low == 77 ? 1 : 2; }
constexpr uint16_t uldc_of_memory = 0x18b8;  // its address is one in global memory [measured H200]
constexpr unsigned descriptor_ur = 36, guard_pred = 3;

bool in(std::string_view m, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), m) != list.end();
}

// The uniform register of an address is a memory descriptor and no part of it.
bool has_descriptor(const RawInst& w) { return sass::print(sm90(), w, 0).find("desc[") != std::string::npos; }

bool through_handle(const Form& f, const RawInst& w) {
  if (const uint16_t op = sass::opcode13(w); op == 0x1ab9 || op == 0x1582) return true;
  if (sass::alu_layout(sass::opcode13(w)).s != sass::SourceS::constant_bindless) return false;
  return std::any_of(f.uses.begin(), f.uses.end(), [](const Slot& s) {
    return s.kind == SlotKind::alu_b || s.kind == SlotKind::alu_c || s.kind == SlotKind::alu_s;
  });
}

bool is_global_access(const Form& f) {
  return f.space() == MemSpace::global || f.space() == MemSpace::generic || f.mnemonic == "CCTL" ||
         f.mnemonic == "QSPC";
}
// One whose address has 32 bits.
bool is_low_access(const Form& f, const RawInst& w) {
  const uint16_t op = sass::opcode13(w);
  if (!is_global_access(f) || op == 0x197e || op == 0x197f) return false;
  if (get(w, 72, 72) == 0) return true;
  return std::any_of(f.uses.begin(), f.uses.end(), [&](const Slot& s) {
    return s.kind == SlotKind::gpr && s.low == 24 && sass::slot_width(sm90(), w, s) == 1 && has_descriptor(w);
  });
}

// Empty when the form can be executed alone. Forms of own_words() are not asked.
std::string why_not(const Form& f) {
  if (f.mnemonic == "LDGMC") return "needs a multicast object of several GPUs";
  return {};
}

// Why this word of a form that can be executed can not.
std::string why_not_word(const Form& f, const RawInst& w) {
  const std::string t = sass::print(sm90(), w, 0);
  const auto says = [&](std::string_view part) { return t.find(part) != std::string::npos; };
  const bool atomic = f.kind() == sass::MemKind::atomic || f.kind() == sass::MemKind::reduction;
  if (atomic && is_global_access(f) && (says(".CONSTANT") || says(".S64") || says("ADD.EF.128") || says("INC.EF.128") || says("ADD.128")))
    return "an atomic of a type or an order that there is not: an illegal instruction";
  const size_t mnemonic = t.starts_with('@') ? t.find(' ') + 1 : 0;
  const bool of_64 = t.substr(0, t.find(' ', mnemonic)).find(".64") != std::string::npos;  // and not its address
  const bool extreme = says(".MAX") || says(".MIN"), counts = says(".INC") || says(".DEC");
  if (atomic && ((extreme && (says("F32") || says("F64"))) || (counts && (says(".S32") || of_64))))
    return "an atomic of a type that its operation does not have: an illegal instruction";
  if (!atomic && is_global_access(f) && says(".CONSTANT.")) return "a constant access of some scope: an illegal instruction";
  if (says("HGMMA") && ((says(".F16.") && (says("TF32") || says("BF16"))) || says("x16.F32.TF32") || says("x8.F")))
    return "a shape of HGMMA that its types do not have: an illegal instruction";
  if (says(".U32.RELU") || says(".U16x2.RELU") || (says("F2IP.U8") && says("RELU")))
    return "RELU of an unsigned value: an illegal instruction";
  if (says("CCTL.C.") || says("CCTL.I.")) return "CCTL of the constant or instruction cache: an illegal instruction";
  if (says("BF16_V2") && (says(".FTZ") || says(".FMZ") || says(".SAT")))
    return "a modifier that BF16 does not have: an illegal instruction";
  if (says("HFMA2") && says(".F32")) return "HFMA2.F32: an illegal instruction";
  return {};
}

Class class_of(const Form& f, const RawInst& w) {
  if (through_handle(f, w)) return Class::handle;
  if (f.mnemonic.starts_with("SYNCS")) return Class::barrier;
  if (f.mnemonic == "CCTLL") return Class::local;
  if (f.cls == OpClass::gmma) return Class::group;
  if (sass::opcode13(w) == uldc_of_memory) return Class::uniform;
  switch (f.space()) {
    case MemSpace::shared:
      return Class::shared;
    case MemSpace::local:
      return (sass::opcode13(w) & 0x1000) != 0 && !has_descriptor(w) ? Class::local_uniform : Class::local;
    case MemSpace::constant:
      return Class::constant;
    case MemSpace::texture:
      return Class::texture;
    case MemSpace::global:
    case MemSpace::generic:
      break;
    default:
      if (!is_global_access(f)) return Class::plain;
  }
  bool descriptor = true;
  for (const Slot& s : f.uses)
    if (s.kind == SlotKind::ur && s.rule == WidthRule::desc && !has_descriptor(w)) descriptor = false;
  if (is_low_access(f, w)) return descriptor ? Class::low : Class::low_uniform;
  return descriptor ? Class::vector64 : Class::uniform;
}

// How operands that are RZ, PT or an immediate in the row are treated.
struct Variant {
  bool all = false;      // every register and predicate that the form names is a real one
  bool guarded = false;  // under P3 or UP3
  int immediate = -1;    // of `immediates`; -1: the row's
};
constexpr uint32_t immediates[] = {0x00000005, 0xc0a9f37b, 0x3fc04248};

class Mover {
 public:
  Mover(const Form& f, const RawInst& w, Variant v)
      : form_(f), w_(w), v_(v), layout_(sass::alu_layout(sass::opcode13(w))) {}

  // Nothing when an operand has no room.
  bool move(Class c) {
    class_ = c;
    put(w_, 124, 105, 0);
    for (const auto& slots : {std::span<const Slot>(form_.defs), std::span<const Slot>(form_.uses)})
      for (const Slot& s : slots) {
        if (s.kind == SlotKind::none) break;
        if (!slot(s)) return false;
      }
    address(c);
    constant_fields();
    put(w_, 15, 12, v_.guarded ? guard_pred : 7);
    return true;
  }
  const RawInst& word() const { return w_; }

 private:
  bool gpr(unsigned low, const Slot& s) {
    const unsigned width = sass::slot_width(sm90(), w_, s);
    if (width == 0) return true;
    if (width > gpr_room(low)) return false;
    // Local addresses do not begin at 0; warpgroup MMA has its accumulator in one place.
    const bool frame = class_ == Class::local_uniform && low == 24;
    const bool accumulator = class_ == Class::group && low == 64;
    if (get(w_, low + 7, low) != 255 || v_.all || frame) put(w_, low + 7, low, gpr_at(accumulator ? 16 : low));
    return true;
  }
  void ur(unsigned low) {
    const bool memory = low == 24 && sass::opcode13(w_) == uldc_of_memory;
    if (get(w_, low + 5, low) != 63 || v_.all) put(w_, low + 5, low, ur_at(memory ? 32 : low));
  }
  // Accesses keep predicates that they do not have: which of them hardware allows is not known.
  bool all_predicates() const {
    return v_.all && (form_.space() == MemSpace::none || form_.cls != OpClass::lsu);
  }
  void pred(unsigned low) {
    if (get(w_, low + 2, low) != 7 || all_predicates()) put(w_, low + 2, low, pred_at(low));
  }
  bool source(const Slot& s) {
    switch (layout_.s) {
      case sass::SourceS::reg:
        return gpr(32, s);
      case sass::SourceS::ur:
        ur(32);
        return true;
      case sass::SourceS::constant: {
        const uint32_t at = 0x210 + parameter_constants + get(w_, 53, 40) % 4 * 16;
        put(w_, 58, 54, 0);
        put(w_, 53, 38, at);
        return true;
      }
      case sass::SourceS::imm:
        if (v_.immediate >= 0) put(w_, 63, 32, immediates[v_.immediate]);
        return true;
      case sass::SourceS::constant_bindless:
        ur(32);
        put(w_, 58, 54, 0);
        put(w_, 53, 40, get(w_, 53, 40) % 4 * 4);
        return true;
    }
    return false;
  }
  bool slot(const Slot& s) {
    switch (s.kind) {
      case SlotKind::gpr:
        return gpr(s.low, s);
      case SlotKind::ur:
        if (s.rule == WidthRule::u120) return true;  // not of sm_90
        if (s.rule == WidthRule::desc && has_descriptor(w_))
          put(w_, s.low + 5u, s.low, descriptor_ur);
        else
          ur(s.low);
        return true;
      case SlotKind::alu_b:
      case SlotKind::uniform_b:
        if (!layout_.s_is_c) return source(s);
        if (s.kind == SlotKind::alu_b) return gpr(64, s);
        ur(64);
        return true;
      case SlotKind::alu_c:
      case SlotKind::uniform_c:
        if (layout_.s_is_c) return source(s);
        if (s.kind == SlotKind::alu_c) return gpr(64, s);
        ur(64);
        return true;
      case SlotKind::alu_s:
      case SlotKind::uniform_s:
        return source(s);
      case SlotKind::pred:
      case SlotKind::upred:
      case SlotKind::relu_pred:
        pred(s.low == 0 ? 87 : s.low);
        return true;
      case SlotKind::plop3_third:
        pred(68);
        return true;
      case SlotKind::load_pred:
        if (get(w_, s.low + 2u, s.low) != 0) put(w_, s.low + 2u, s.low, 7 - pred_at(87));
        return true;
      case SlotKind::mma_pred:
        if (get(w_, 89, 87) != 0 || v_.all) put(w_, 89, 87, 7 - pred_at(87));
        return true;
      case SlotKind::pred_mask:
      case SlotKind::upred_mask:
        if (v_.immediate >= 0) put(w_, 63, 32, 0x55u << v_.immediate & 0x7f);
        return true;
      default:
        return true;
    }
  }
  // Fields that a form has no use for and hardware wants to see empty: else the instruction is illegal.
  // [measured H200]
  void constant_fields() {
    const std::string_view m = form_.mnemonic;
    if (in(m, {"LEA", "ULEA"}) && get(w_, 80, 80) == 0)
      m == "LEA" ? put(w_, 71, 64, 255) : put(w_, 69, 64, 63);
    const std::string t = sass::print(sm90(), w_, 0);
    const auto says = [&](std::string_view part) { return t.find(part) != std::string::npos; };
    if (says("F2FP") && says("PACK_AB") && !says("MERGE_C")) put(w_, 71, 64, 255);
    if (says("UNPACK_B") && !says("MERGE_C")) put(w_, 71, 64, 255), put(w_, 31, 24, 255);
    if (says("HADD2.F32")) put(w_, 31, 24, 255);
    if (says("MATCH.ANY") || (m == "IMAD" && (sass::opcode13(w_) & 0xff) == 0x24)) put(w_, 83, 81, 7);
  }
  // Offsets and constants that keep an access inside its memory.
  void address(Class c) {
    const uint16_t op = sass::opcode13(w_);
    switch (c) {
      case Class::plain:
      case Class::copy:
      case Class::control:
      case Class::group:
      case Class::texture:
      case Class::surface:
      case Class::tensor:
      case Class::cluster:
        return;
      case Class::handle:
        if (op == 0x1ab9 || op == 0x1582) put(w_, 58, 54, 0), put(w_, 53, 38, immediate_offset);
        return;
      case Class::vector64:
      case Class::uniform:
      case Class::low:
      case Class::low_uniform:
        if (op == 0x197e || op == 0x197f) return;
        if (op == 0x980 || op == 0x385)
          put(w_, 63, 32, immediate_offset);
        else
          put(w_, 63, 40, immediate_offset);
        return;
      case Class::shared:
      case Class::barrier:
        put(w_, 63, 40, shared_base + immediate_offset);
        return;
      case Class::local:
      case Class::local_uniform:
        put(w_, 63, 40, immediate_offset);
        return;
      case Class::constant:
        put(w_, 58, 54, 0);
        put(w_, 53, 38, 0x210 + parameter_constants);
        return;
    }
  }

  const Form& form_;
  RawInst w_;
  const Variant v_;
  const sass::AluLayout layout_;
  Class class_ = Class::plain;
};

// `compiled`: how many of them, the first, come from compiled code.
std::vector<RawInst> oracle_rows(size_t& compiled) {
  std::vector<RawInst> rows;
  for (const std::string_view file : {oracle_vectors(), oracle_forms(), oracle_generated()}) {
    std::istringstream lines{std::string(file)};
    for (std::string line; std::getline(lines, line);) {
      unsigned long long lo = 0, hi = 0;
      if (std::sscanf(line.c_str(), "sm_90 %llx %llx", &lo, &hi) == 2) rows.push_back({lo, hi});
    }
    if (file.data() == oracle_forms().data()) compiled = rows.size();
  }
  return rows;
}

}  // namespace

bool reads_the_machine(const RawInst& w) {
  const Form* f = sass::find_form(sm90(), w);
  if (f == nullptr) return false;
  // .CAST swaps or does not where the values agree. [measured H200]
  if (sass::print(sm90(), w, 0).find(".CAST") != std::string::npos) return true;
  // .TRYWAIT may wait; and loads behind SYNCS saw the older barrier in part of the warps. [measured H200]
  if (f->mnemonic.starts_with("SYNCS")) return true;
  // Drops lines of the L2: what memory holds then is not defined.
  if (sass::print(sm90(), w, 0).find("CCTL.RML2") != std::string::npos) return true;
  return in(f->mnemonic, {"S2R", "S2UR", "CS2R", "LEPC", "ULEPC", "QSPC", "ELECT"});
}

bool needs_code_address(const RawInst& w) {
  const uint16_t op = sass::opcode13(w);
  return op == 0x94a || op == 0xb4a || op == 0x943 || op == 0xb43;
}

bool values_are_compared(const Word& w) { return !has_objects(w.cls) && !reads_the_machine(w.inst); }

std::string text(const Word& w) { return sass::print(sm90(), w.inst, 0); }

std::string form_name(const RawInst& w) {
  const Form* f = sass::find_form(sm90(), w);
  return fmt::format("{} {:#x}", f != nullptr ? f->mnemonic : "unknown", sass::opcode13(w));
}

// Words of an opcode that has no row: those of its form's other opcodes, or one with nothing but its operands.
std::vector<RawInst> made_up(const Form& f, uint16_t opcode, const std::vector<RawInst>& rows) {
  constexpr size_t most = 2;
  std::vector<RawInst> like;
  for (const RawInst& row : rows)
    if (sass::find_form(sm90(), row) == &f) like.push_back(row);
  if (like.empty()) like.push_back({});
  std::vector<RawInst> made;
  for (size_t k = 0; k < std::min(most, like.size()); ++k) {
    RawInst w = like[k * (like.size() - 1) / std::max<size_t>(1, most - 1)];
    put(w, 11, 0, opcode & 0xfff);
    put(w, 91, 91, opcode >> 12);
    put(w, 63, 32, 0);
    made.push_back(w);
  }
  return made;
}

WordList word_list() {
  size_t compiled = 0;
  const std::vector<RawInst> rows = oracle_rows(compiled);
  WordList list;
  std::set<std::tuple<uint64_t, uint64_t, Class>> seen;
  std::set<uint16_t> own, with_words;
  std::set<std::pair<std::string, std::string>> refused;
  const auto refuse = [&](const RawInst& w, const std::string& why) {
    const std::string name = form_name(w);
    if (refused.emplace(name, why).second) list.not_checked.push_back({name, why});
  };
  // False when it is a word already, or moving a register made another form of it.
  const auto add = [&](const Form* f, const RawInst& w, Class c) {
    if (sass::find_form(sm90(), w) != f) return;
    if (seen.emplace(w.lo, w.hi, c).second) list.words.push_back({w, c});
    with_words.insert(sass::opcode13(w));
  };
  for (const Word& w : own_words()) own.insert(sass::opcode13(w.inst));
  for (size_t number = 0; number < rows.size(); ++number) {
    const RawInst& row = rows[number];
    const Form* f = sass::find_form(sm90(), row);
    if (f == nullptr) continue;  // listed in tests/unit/sass/oracle_test.cc
    if (own.contains(sass::opcode13(row))) continue;
    std::string why = why_not(*f);
    if (why.empty()) why = why_not_word(*f, row);
    if (!why.empty()) {
      refuse(row, why);
      continue;
    }
    const bool immediate =
        sass::alu_layout(sass::opcode13(row)).s == sass::SourceS::imm && f->space() == MemSpace::none;
    // Rows of compiled code and the first of each opcode come in all variants.
    const bool all = number < compiled || !with_words.contains(sass::opcode13(row));
    std::vector<Variant> wanted = {{}, {true, false, immediate && !all ? static_cast<int>(number % 3) : -1}};
    if (all && f->cls != OpClass::gmma) {  // the lanes of a warpgroup act as one
      wanted.push_back({true, true, -1});
      for (int k = 0; immediate && k < 3; ++k) wanted.push_back({true, false, k});
    }
    for (const Variant& v : wanted) {
      Mover m(*f, row, v);
      const Class c = class_of(*f, row);
      if (!m.move(c)) {
        refuse(row, "more registers than the window has");
        continue;
      }
      add(f, m.word(), c);
    }
  }
  for (const auto& own_list : {own_words(), texture_words()})
    for (const Word& w : own_list) add(sass::find_form(sm90(), w.inst), w.inst, w.cls);
  for (const Form& f : sass::all_forms()) {
    if ((f.archs & sass::g90) == 0) continue;
    for (const uint16_t opcode : f.opcodes) {
      if (opcode == 0) break;
      if (with_words.contains(opcode)) continue;
      for (const RawInst& w : made_up(f, opcode, rows)) {
        if (!why_not(f).empty()) continue;
        Mover m(f, w, {true, false, -1});
        const Class c = class_of(f, w);
        if (m.move(c)) add(&f, m.word(), c);
      }
    }
  }
  list.forms_with_words = with_words.size();
  for (const Form& f : sass::all_forms()) {
    if ((f.archs & sass::g90) == 0) continue;
    for (const uint16_t opcode : f.opcodes) {
      if (opcode == 0) break;
      ++list.forms;
      if (with_words.contains(opcode)) continue;
      const std::string name = fmt::format("{} {:#x}", f.mnemonic, opcode);
      if (std::none_of(list.not_checked.begin(), list.not_checked.end(),
                       [&](const NotChecked& n) { return n.form == name; }))
        list.not_checked.push_back(
            {name, why_not(f).empty() ? "tests/oracle has no word of it" : why_not(f)});
    }
  }
  return list;
}

}  // namespace xtrace::values
