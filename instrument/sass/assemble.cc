#include "instrument/sass/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "instrument/sass/assemble_parts.h"
#include "instrument/sass/assemble_solve.h"
#include "instrument/sass/form.h"
#include "instrument/sass/print.h"
#include "instrument/sass/printer.h"

namespace xtrace::sass {
namespace {

constexpr BitRange guard_field = bits(15, 12);

// Constant bits that neither text nor effects explain. [vendor code, tests/oracle]
struct Unshown {
  std::string_view mnemonic;
  BitRange field;
  uint64_t value;
  uint64_t value_64 = value;  // of the 64-bit form of a conversion
  uint16_t opcode = 0;        // of this alone
};
constexpr Unshown unshown[] = {
    {"IMAD", bits(83, 81), pt},  {"UIMAD", bits(83, 81), pt},    {"F2I", bits(86, 84), 2},
    {"I2F", bits(77, 75), 2},    {"FRND", bits(77, 75), 2},      {"FRND", bits(86, 84), 2, 3},
    {"I2FP", bits(77, 75), 2},   {"I2FP", bits(86, 84), 2},      {"LDGSTS", bits(86, 84), 1},
    {"CCTL", bits(31, 24), 255}, {"SYNCS.PHASECHK", bit(70), 1}, {"ARRIVES", bit(70), 1},
    {"SYNCS.EXCH", bit(72), 1},  {"ATOMS", bits(90, 87), 11},    {"BRA", bits(33, 32), 1, 1, 0x1547},
};

// Conversions have an opcode for 32 bits and one for 64, with the same text: whether the word is what its
// opcode is for.
bool is_64_bit_conversion(const Form& f) {
  return std::ranges::any_of(f.defs, [](const Slot& s) { return s.rule == WidthRule::d76; });
}
bool is_natural(const Form& f, const RawInst& w) {
  const bool has_64 = get_bits(w, bits(76, 75)) == 3 || get_bits(w, bits(85, 84)) == 3;
  if (is_64_bit_conversion(f)) return has_64;
  return f.cls != OpClass::xu || f.text.find("{part}") == std::string_view::npos || !has_64;
}

// --- errors ---

// The furthest that any form got, and what was expected there.
struct Failure {
  size_t at = 0;
  std::set<std::string> expected;

  void note(size_t where, std::string what) {
    if (where < at) return;
    if (where > at) expected.clear();
    at = where;
    expected.insert(std::move(what));
  }
};

// --- walking a text ---

unsigned parse_decimal(std::string_view s) {
  unsigned v = 0;
  std::from_chars(s.data(), s.data() + s.size(), v);
  return v;
}
BitRange parse_range(std::string_view s) {
  const size_t colon = s.find(':');
  if (colon == std::string_view::npos) return bit(parse_decimal(s));
  return bits(parse_decimal(s), parse_decimal(s.substr(colon + 1)));
}

// What remains of a template: a text, then that of the enclosing ones.
struct Rest {
  std::string_view text;
  const Rest* next = nullptr;
  std::optional<BitRange> group;  // bits of the condition that the text stands in
  uint64_t hidden = 0;            // their value that would not show it
};

class Walk {
 public:
  Walk(const Arch& arch, const Form& form, std::string_view text, uint32_t pc, bool exhaustive,
       Failure& failure)
      : arch_(arch),
        form_(form),
        text_(text),
        padded_(std::string(text) + ' '),
        pc_(pc),
        exhaustive_(exhaustive),
        failure_(failure) {}

  std::optional<RawInst> run(const RawInst& start) {
    const Rest whole{form_.text, nullptr, {}, 0};
    Draft d{start, {}};
    const auto always = [&](const auto& slots) {  // PT until the text says otherwise
      for (const Slot& s : slots)
        if (s.kind == SlotKind::pred || s.kind == SlotKind::upred)
          set_bits(d.word, bits(s.low + 2u, s.low), pt);
    };
    always(form_.defs);
    always(form_.uses);
    if (step(&whole, 0, d, {})) return result_;
    return std::nullopt;
  }

 private:
  // Special tokens among the modifiers whose names depend on the operands behind them: solved at the end.
  struct Later {
    std::string_view piece;
    size_t begin, end;
  };
  using Postponed = std::vector<Later>;

  // What is expected behind a postponed token says little: the token may be what is wrong.
  void note(size_t at, std::string what) {
    if (!postponed_) failure_.note(at, std::move(what));
  }
  bool step(const Rest* rest, size_t at, Draft d, Postponed later);
  bool group(const Rest& rest, std::string_view inside, size_t at, const Draft& d, const Postponed& later);
  bool element(const Rest& rest, std::string_view piece, size_t at, const Draft& d, const Postponed& later);
  bool number(const Rest& rest, BitRange field, size_t at, Draft d, const Postponed& later);
  bool finish(Draft d, const Postponed& later);
  void settle_unshown(Draft& d) const;
  void clear_undecided(Draft& d) const;
  bool prints_the_same(const RawInst& w) const;
  std::string what_is(std::string_view piece, const RawInst& w) const;

  const Arch& arch_;
  const Form& form_;
  const std::string_view text_;  // without guard and control word
  const std::string padded_;     // with a blank that elements may print at the end
  const uint32_t pc_;
  const bool exhaustive_;  // search of special tokens, see Solver
  Failure& failure_;
  bool postponed_ = false;
  RawInst result_;
};

// Sets a field unless a bit of it is decided otherwise.
bool agree(Draft& d, BitRange r, uint64_t value) {
  const uint64_t known = get_bits(d.known, r);
  if (((get_bits(d.word, r) ^ value) & known) != 0) return false;
  d.set(r, value);
  return true;
}

bool Walk::step(const Rest* rest, size_t at, Draft d, Postponed later) {
  while (rest != nullptr && rest->text.empty()) {
    if (rest->group) {  // shown, so not the value that hides it
      const BitRange r = *rest->group;
      if (get_bits(d.word, r) == rest->hidden) {
        unsigned b = r.low;
        while (b < static_cast<unsigned>(r.low + r.width) && d.is_known(b)) ++b;
        if (b == static_cast<unsigned>(r.low + r.width)) return false;
        set_bits(d.word, bit(b), get_bits(d.word, bit(b)) ^ 1);
      }
    }
    rest = rest->next;
  }
  if (rest == nullptr) {
    if (at == text_.size()) return finish(d, later);
    note(at, "the end of the text");
    return false;
  }
  const std::string_view t = rest->text;
  const char c = t.front();
  if (c == '<' || c == '{') {
    const size_t end = t.find(c == '<' ? '>' : '}');
    const Rest behind{t.substr(end + 1), rest->next, rest->group, rest->hidden};
    if (c == '<') return group(behind, t.substr(1, end - 1), at, d, later);
    return element(behind, t.substr(0, end + 1), at, d, later);
  }
  const size_t length = std::min(t.find_first_of("<{"), t.size());
  std::string_view literal = t.substr(0, length);
  // Blanks at the end are not printed.
  if (text_.size() - at < literal.size() && literal.back() == ' ' && literal.size() - 1 == text_.size() - at)
    literal.remove_suffix(1);
  if (!text_.substr(at).starts_with(literal)) {
    const size_t agreed = literal.starts_with('.') ? 0 : common_start(text_.substr(at), literal);
    note(at + agreed, fmt::format("'{}'", literal.substr(agreed)));
    return false;
  }
  const Rest behind{t.substr(length), rest->next, rest->group, rest->hidden};
  return step(&behind, at + literal.size(), d, std::move(later));
}

bool Walk::group(const Rest& rest, std::string_view inside, size_t at, const Draft& d,
                 const Postponed& later) {
  const size_t sign = inside.rfind('@');
  const std::string_view body = inside.substr(0, sign);
  std::string_view condition = inside.substr(sign + 1);
  uint64_t hidden = 0;
  if (const size_t bang = condition.find('!'); bang != std::string_view::npos) {
    hidden = parse_decimal(condition.substr(bang + 1));
    condition = condition.substr(0, bang);
  }
  const BitRange r = parse_range(condition);

  if (body.starts_with('#')) {
    const auto table = std::ranges::find(name_tables, body.substr(1), &NameTable::name);
    std::vector<unsigned> fits;
    for (unsigned v = 0; v < table->values.size() && v <= low_mask(r.width); ++v)
      if (text_.substr(at).starts_with(table->values[v])) fits.push_back(v);
    std::ranges::stable_sort(fits, std::ranges::greater{},
                             [&](unsigned v) { return table->values[v].size(); });
    for (const unsigned v : fits) {
      Draft with = d;
      if (agree(with, r, v) && step(&rest, at + table->values[v].size(), with, later)) return true;
    }
    if (fits.empty())
      note(at, fmt::format("a modifier like '{}'", [&] {
             for (const std::string_view v : table->values)
               if (!v.empty()) return v;
             return std::string_view();
           }()));
    return false;
  }

  {  // shown
    Draft with = d;
    if (r.width != 1 || agree(with, r, hidden ^ 1)) {
      const Rest within{body, &rest, r, hidden};
      if (step(&within, at, with, later)) return true;
    }
  }
  Draft without = d;
  return agree(without, r, hidden) && step(&rest, at, without, later);
}

bool Walk::number(const Rest& rest, BitRange field, size_t at, Draft d, const Postponed& later) {
  const std::string_view t = text_.substr(at);
  uint64_t v = 0;
  const auto r = t.starts_with("0x") ? std::from_chars(t.data() + 2, t.data() + t.size(), v, 16)
                                     : std::from_chars_result{t.data(), std::errc::invalid_argument};
  if (r.ec != std::errc{}) {
    note(at, "a number like 0x1");
    return false;
  }
  if (v > low_mask(field.width)) {
    note(at, fmt::format("a number of at most {:#x}", low_mask(field.width)));
    return false;
  }
  return agree(d, field, v) && step(&rest, at + static_cast<size_t>(r.ptr - t.data()), d, later);
}

// An operand is described by its kind, a special token by what it prints.
std::string Walk::what_is(std::string_view piece, const RawInst& w) const {
  const std::string example = Solver(arch_, form_, piece, pc_, false).print(w);
  const std::string_view name = piece.substr(1, piece.size() - 2);
  const AluLayout layout = alu_layout(opcode13(w));
  const bool is_s =
      name[0] == 'S' || name.starts_with("US") ||
      ((name[0] == 'B' || name.starts_with("UB")) && !name.starts_with("Bd") && !layout.s_is_c) ||
      ((name[0] == 'C' || name.starts_with("UC")) && layout.s_is_c);
  if (is_s) {
    switch (layout.s) {
      case SourceS::imm:
        return fmt::format("an immediate like {}", example);
      case SourceS::constant:
      case SourceS::constant_bindless:
        return fmt::format("a constant like {}", example);
      default:
        break;
    }
  }
  std::vector<Lexeme> lexemes;
  lex(arch_, example, lexemes);
  for (const Lexeme& l : lexemes) {
    if (lexemes.size() > 3) break;
    if (l.kind == LexKind::gpr) return "a register R0..R254 or RZ";
    if (l.kind == LexKind::ur) return "a uniform register like UR4";
    if (l.kind == LexKind::pred) return "a predicate P0..P6 or PT";
    if (l.kind == LexKind::upred) return "a uniform predicate UP0..UP6 or UPT";
  }
  if (example.empty() || example[0] == '.') return fmt::format("a modifier of {}", form_.mnemonic);
  return fmt::format("an operand like {}", example);
}

bool Walk::element(const Rest& rest, std::string_view piece, size_t at, const Draft& d,
                   const Postponed& later) {
  const std::string_view name = piece.substr(1, piece.size() - 2);
  if (name == "x") return number(rest, *rest.group, at, d, later);
  if (name.starts_with("x@")) return number(rest, parse_range(name.substr(2)), at, d, later);

  // Operands of form.h begin with a capital letter and stand for one place; all else may have many modes.
  const bool thorough = name[0] < 'A' || name[0] > 'Z' || name.starts_with("Pnz") ||
                        name.starts_with("Pldg") || name.starts_with("UPmma") || name == "Prelu" ||
                        name == "Pbar" || name == "Ua1";
  Solver solver(arch_, form_, piece, pc_, thorough, exhaustive_);
  const std::vector<Solution> solutions = solver.solve(d, std::string_view(padded_).substr(at));
  for (const Solution& s : solutions)
    if (step(&rest, std::min(at + s.length, text_.size()), s.draft, later)) return true;
  if (thorough && !solutions.empty() &&
      text_.substr(std::min(at + solutions[0].length, text_.size())).starts_with('.'))
    note(at + solutions[0].length, fmt::format("a modifier of {}", form_.mnemonic));

  const bool optional = !solutions.empty();
  if (!optional && solver.misfit)
    note(at + *solver.misfit, "a value that its field can hold");
  else if (!optional || solver.reached > 0)
    note(std::min(at + solver.reached, text_.size()), what_is(piece, d.word));
  // A name among the modifiers that operands decide: take what is there, solve it when they are known.
  const size_t space = std::min(text_.find(' '), text_.size());
  if (thorough && at <= space && later.empty() && text_.substr(at, 1) != " ") {
    Postponed more = later;
    more.push_back({piece, at, space});
    postponed_ = true;
    const bool found = step(&rest, space, d, std::move(more));
    postponed_ = false;
    if (found) return true;
  }
  return false;
}

bool Walk::prints_the_same(const RawInst& w) const {
  Printer p(arch_, w, pc_, form_);
  p.render(form_.text);
  std::string s = p.take();
  while (!s.empty() && s.back() == ' ') s.pop_back();
  return s == text_;
}

// Bits that solving left behind and the text does not need.
void Walk::clear_undecided(Draft& d) const {
  for (unsigned b = 16; b <= 104; ++b) {
    if (b == 91 || d.is_known(b) || get_bits(d.word, bit(b)) == 0) continue;
    RawInst w = d.word;
    set_bits(w, bit(b), 0);
    if (prints_the_same(w)) d.word = w;
  }
}

// Registers and predicates of the effects that no element of the text decided.
void Walk::settle_unshown(Draft& d) const {
  clear_undecided(d);
  const auto settle = [&](const Slot& slot, bool is_use) {
    if (slot_width(arch_, d.word, slot) == 0) return;
    BitRange r;
    uint64_t value = 0;
    const AluLayout layout = alu_layout(opcode13(d.word));
    switch (slot.kind) {
      case SlotKind::gpr:
        r = bits(slot.low + 7u, slot.low), value = 255;
        break;
      case SlotKind::ur:
        r = bits(slot.low + arch_.ur_bits - 1u, slot.low), value = arch_.urz;
        break;
      case SlotKind::alu_c:
      case SlotKind::uniform_c:
        if (layout.s_is_c) return;
        r = bits(71, 64), value = slot.kind == SlotKind::alu_c ? 255 : arch_.urz;
        break;
      case SlotKind::pred:
      case SlotKind::upred: {
        // "<, {Pp}@74>": a carry.
        const bool carry = is_use && form_.text.find("@74>") != std::string_view::npos &&
                           form_.text.find(slot.low == 77 ? "Pq}@74" : "Pp}") != std::string_view::npos;
        r = is_use ? bits(slot.low + 3u, slot.low) : bits(slot.low + 2u, slot.low);
        value = carry ? 15 : pt;
        break;
      }
      default:
        return;
    }
    if (r.width == 0 || get_bits(d.known, r) != 0) return;
    RawInst w = d.word;
    set_bits(w, r, value);
    if (!prints_the_same(w)) return;
    d.word = w;
    set_bits(d.known, r, low_mask(r.width));
  };
  for (const Slot& s : form_.defs) settle(s, false);
  for (const Slot& s : form_.uses) settle(s, true);
  for (const Unshown& u : unshown) {
    if (u.mnemonic != form_.mnemonic || get_bits(d.word, u.field) != 0) continue;
    if (u.opcode != 0 && u.opcode != opcode13(d.word)) continue;
    RawInst w = d.word;
    set_bits(w, u.field, is_64_bit_conversion(form_) ? u.value_64 : u.value);
    if (prints_the_same(w)) d.word = w;
  }
}

bool Walk::finish(Draft d, const Postponed& later) {
  for (const Later& l : later) {
    Solver solver(arch_, form_, l.piece, pc_, true, exhaustive_);
    const std::vector<Solution> solutions = solver.solve(d, std::string_view(padded_).substr(l.begin));
    const auto whole = std::ranges::find(solutions, l.end - l.begin, &Solution::length);
    if (whole == solutions.end()) {
      note(l.begin, what_is(l.piece, d.word));
      return false;
    }
    d = whole->draft;
  }
  if (!prints_the_same(d.word)) return false;
  settle_unshown(d);
  result_ = d.word;
  return true;
}

// True when the text can be one of the form: it begins like the text of the form does.
bool may_be(const Form& f, std::string_view body) {
  const size_t letters = std::min(f.text.find_first_of("<{"), f.text.size());
  if (letters == 0) return body.starts_with(f.mnemonic.substr(0, f.mnemonic.find('.')));
  const std::string_view start = f.text.substr(0, letters);
  const size_t name = std::min(start.find(' '), start.size());
  return body.starts_with(start.substr(0, name)) &&
         (name < letters || body.size() == letters || f.text[letters] == '{' ||
          std::string_view(". ").find(body[letters]) != std::string_view::npos);
}

// False when the opcode takes an operand from where the text has none: tried last.
bool likely(const Form& f, uint16_t opcode, std::string_view body) {
  const auto moves = [](const Slot& s) {
    return s.kind == SlotKind::alu_b || s.kind == SlotKind::alu_c || s.kind == SlotKind::alu_s;
  };
  if (std::ranges::none_of(f.uses, moves)) return true;
  switch (alu_layout(opcode).s) {
    case SourceS::constant:
      return body.find("c[") != std::string_view::npos;
    case SourceS::constant_bindless:
      return body.find("cx[") != std::string_view::npos;
    case SourceS::ur:
      return body.find("UR") != std::string_view::npos;
    default:
      return true;
  }
}

}  // namespace

Result<RawInst> assemble(const Arch& arch, std::string_view text, int64_t pc) {
  if (pc < 0 || pc > std::numeric_limits<uint32_t>::max())
    return bad_input("expected an offset in a section of 0 to {:#x} bytes, found {}",
                     std::numeric_limits<uint32_t>::max(), pc);
  XT_TRY(const Parts parts, parse_parts(text));
  Failure failure;
  bool named = false;
  const Form* wrong_guard = nullptr;
  std::optional<RawInst> second;
  for (const bool exhaustive : {false, true}) {
    for (const Form& f : all_forms()) {
      if ((f.archs >> arch_group(arch) & 1) == 0 || !may_be(f, parts.body)) continue;
      named = true;
      if (parts.guarded && (parts.guard & 7) != pt && parts.guard_is_uniform != f.guard_is_uniform()) {
        wrong_guard = &f;
        continue;
      }
      for (const uint16_t opcode : f.opcodes) {
        if (opcode == 0) break;
        RawInst w{uint64_t{opcode} & 0xfff, uint64_t{opcode} >> 12 << 27};
        set_bits(w, guard_field, parts.guard);
        if (find_form(arch, w) != &f || (!exhaustive && !likely(f, opcode, parts.body))) continue;
        Walk walk(arch, f, parts.body, static_cast<uint32_t>(pc), exhaustive, failure);
        std::optional<RawInst> found = walk.run(w);
        if (!found) continue;
        set_control(*found, parts.control);
        if (is_natural(f, *found)) return *found;
        if (!second) second = found;
      }
    }
    if (second) break;
  }
  if (second) return *second;
  if (!named)
    return bad_input("column {}: expected a mnemonic of {}, found {}", parts.column + 1, arch.name,
                     found_at(parts.body, 0));
  if (wrong_guard != nullptr && failure.expected.empty())
    return bad_input("column {}: expected a guard like {}, which {} takes, found {}", text.find('@') + 1,
                     wrong_guard->guard_is_uniform() ? "@UP0" : "@P0", wrong_guard->mnemonic,
                     found_at(text, text.find('@')));
  std::string expected;
  for (const std::string& e : failure.expected) expected += (expected.empty() ? "" : " or ") + e;
  if (expected.empty())
    return unsupported("'{}' can not be assembled: no word that prints so was found", parts.body);
  return bad_input("column {}: expected {}, found {}", parts.column + failure.at + 1, expected,
                   found_at(parts.body, failure.at));
}

}  // namespace xtrace::sass
