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
#include "tests/values/resources.h"

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
constexpr unsigned descriptor_ur = 36, guard_pred = 3;

bool in(std::string_view m, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), m) != list.end();
}

// The uniform register of an address is a memory descriptor and no part of it.
bool has_descriptor(const RawInst& w) { return sass::print(sm90(), w, 0).find("desc[") != std::string::npos; }

// Empty when the form can be executed alone.
std::string why_not(const Form& f, const RawInst& w) {
  const std::string_view m = f.mnemonic;
  if (in(m, {"BAR", "B2R", "R2B"})) return "acts on barriers of the CTA";
  if (in(m, {"BMOV", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "YIELD", "NANOSLEEP", "ENDCOLLECTIVE"}))
    return "acts on the paths of a warp, not on registers";
  if (f.flow() != sass::Flow::next) return "control leaves the place";
  if (f.cls == OpClass::gmma || m == "WARPGROUP")
    return "a warpgroup executes it, on descriptors of shared memory";
  if (f.cls == OpClass::tma || m.starts_with("UCGABAR"))
    return "works on descriptors of bulk copies, clusters or the SM";
  if (m.starts_with("SYNCS") || in(m, {"ARRIVES", "STAS", "REDAS"})) return "needs an mbarrier or a cluster";
  if (f.space() == MemSpace::texture || f.space() == MemSpace::surface) return "needs a texture or a surface";
  if (m == "LDGMC") return "needs a multicast object of several GPUs";
  if (m == "LDGSTS") return "asynchronous copy to shared memory";
  if (in(m, {"PREEXIT", "ACQBULK", "PMTRIG", "IDE", "RPCMOV", "CSMTEST", "DEPBAR", "LDGDEPBAR", "CCTLL"}))
    return "acts on the state of the machine, not on registers";
  if (in(m, {"SCATTER", "BMMA", "VHMNMX"})) return "no compiler emits it and its operands are not known";
  const sass::AluLayout layout = sass::alu_layout(sass::opcode13(w));
  if (layout.s == sass::SourceS::constant_bindless)
    for (const Slot& s : f.uses)
      if (s.kind == SlotKind::alu_b || s.kind == SlotKind::alu_c || s.kind == SlotKind::alu_s)
        return "a constant through a handle";
  if (m == "ULDC" && in(fmt::format("{:#x}", sass::opcode13(w)), {"0x1ab9", "0x18b8"}))
    return "a constant through a handle";
  if (m == "LDC" && sass::opcode13(w) == 0x1582) return "a constant through a handle";
  return {};
}

// Why this word of a form that can be executed can not.
std::string why_not_word(const Form& f, const RawInst& w) {
  const bool global = f.space() == MemSpace::global || f.space() == MemSpace::generic ||
                      f.mnemonic == "CCTL" || f.mnemonic == "QSPC";
  if (global && get(w, 72, 72) == 0 && sass::opcode13(w) != 0x197e && sass::opcode13(w) != 0x197f)
    return "a 32-bit global address: faults where addresses have 64 bits";
  if (f.space() == MemSpace::local && (sass::opcode13(w) & 0x1000) != 0 && !has_descriptor(w))
    return "a local address with a uniform register: leaves the frame";
  const std::string t = sass::print(sm90(), w, 0);
  const auto says = [&](std::string_view part) { return t.find(part) != std::string::npos; };
  if (says("BF16_V2") && (says(".FTZ") || says(".FMZ") || says(".SAT")))
    return "a modifier that BF16 does not have: an illegal instruction";
  if (says("HFMA2") && says(".F32")) return "HFMA2.F32: an illegal instruction";
  if (global)
    for (const Slot& s : f.uses)
      if (s.kind == SlotKind::gpr && s.low == 24 && sass::slot_width(sm90(), w, s) == 1 && has_descriptor(w))
        return "a 32-bit global address: faults where addresses have 64 bits";
  return {};
}

Class class_of(const Form& f, const RawInst& w) {
  switch (f.space()) {
    case MemSpace::shared:
      return Class::shared;
    case MemSpace::local:
      return Class::local;
    case MemSpace::constant:
      return Class::constant;
    case MemSpace::global:
    case MemSpace::generic:
      break;
    default:
      if (f.mnemonic != "CCTL" && f.mnemonic != "QSPC") return Class::plain;
  }
  bool descriptor = true;
  for (const Slot& s : f.uses)
    if (s.kind == SlotKind::ur && s.rule == WidthRule::desc && !has_descriptor(w)) descriptor = false;
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
    if (get(w_, low + 7, low) != 255 || v_.all) put(w_, low + 7, low, gpr_at(low));
    return true;
  }
  void ur(unsigned low) {
    if (get(w_, low + 5, low) != 63 || v_.all) put(w_, low + 5, low, ur_at(low));
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
        return false;
    }
    return false;
  }
  bool slot(const Slot& s) {
    switch (s.kind) {
      case SlotKind::gpr:
        return gpr(s.low, s);
      case SlotKind::ur:
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
        return;
      case Class::vector64:
      case Class::uniform:
        if (op == 0x197e || op == 0x197f) return;
        if (op == 0x980 || op == 0x385)
          put(w_, 63, 32, immediate_offset);
        else
          put(w_, 63, 40, immediate_offset);
        return;
      case Class::shared:
        put(w_, 63, 40, shared_base + immediate_offset);
        return;
      case Class::local:
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
  return in(f->mnemonic, {"S2R", "S2UR", "CS2R", "LEPC", "ULEPC", "QSPC", "ELECT"});
}

std::string text(const Word& w) { return sass::print(sm90(), w.inst, 0); }

std::string form_name(const RawInst& w) {
  const Form* f = sass::find_form(sm90(), w);
  return fmt::format("{} {:#x}", f != nullptr ? f->mnemonic : "unknown", sass::opcode13(w));
}

WordList word_list() {
  size_t compiled = 0;
  const std::vector<RawInst> rows = oracle_rows(compiled);
  WordList list;
  std::set<std::tuple<uint64_t, uint64_t, Class>> seen;
  std::set<uint16_t> with_words;
  std::set<std::pair<std::string, std::string>> refused;
  const auto refuse = [&](const RawInst& w, const std::string& why) {
    const std::string name = form_name(w);
    if (refused.emplace(name, why).second) list.not_checked.push_back({name, why});
  };
  for (size_t number = 0; number < rows.size(); ++number) {
    const RawInst& row = rows[number];
    const Form* f = sass::find_form(sm90(), row);
    if (f == nullptr) continue;  // listed in tests/unit/sass/oracle_test.cc
    if (const std::string why = why_not(*f, row); !why.empty()) {
      refuse(row, why);
      continue;
    }
    if (const std::string why = why_not_word(*f, row); !why.empty()) {
      refuse(row, why);
      continue;
    }
    const bool immediate =
        sass::alu_layout(sass::opcode13(row)).s == sass::SourceS::imm && f->space() == MemSpace::none;
    // Rows of compiled code and the first of each opcode come in all variants.
    const bool all = number < compiled || !with_words.contains(sass::opcode13(row));
    std::vector<Variant> wanted = {{}, {true, false, immediate && !all ? static_cast<int>(number % 3) : -1}};
    if (all) {
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
      const RawInst w = m.word();
      // Moving a register must not make another form of it.
      if (sass::find_form(sm90(), w) != f) continue;
      if (seen.emplace(w.lo, w.hi, c).second) list.words.push_back({w, c});
      with_words.insert(sass::opcode13(w));
    }
  }
  list.forms_with_words = with_words.size();
  for (const Form& f : sass::all_forms()) {
    if ((f.archs & sass::g90) == 0) continue;
    for (const uint16_t opcode : f.opcodes) {
      if (opcode == 0) break;
      ++list.forms;
      if (with_words.contains(opcode)) continue;
      const RawInst w{opcode & 0xfffu, static_cast<uint64_t>(opcode >> 12) << 27};
      const std::string name = fmt::format("{} {:#x}", f.mnemonic, opcode);
      if (std::none_of(list.not_checked.begin(), list.not_checked.end(),
                       [&](const NotChecked& n) { return n.form == name; }))
        list.not_checked.push_back(
            {name, why_not(f, w).empty() ? "tests/oracle has no word of it" : why_not(f, w)});
    }
  }
  return list;
}

}  // namespace xtrace::values
