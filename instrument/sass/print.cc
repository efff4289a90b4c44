#include "instrument/sass/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "instrument/sass/printer.h"

namespace xtrace::sass {
namespace {

// Sorted by name, built at the first use: a text names a few of these for every instruction.
template <typename T>
const T* find_name(const std::vector<T>& sorted, std::string_view name) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), name,
                                   [](const T& t, std::string_view n) { return t.name < n; });
  return at != sorted.end() && at->name == name ? &*at : nullptr;
}
template <typename T>
std::vector<T> sorted_by_name(std::vector<T> all) {
  std::sort(all.begin(), all.end(), [](const T& a, const T& b) { return a.name < b.name; });
  return all;
}

const Token* find_token(std::string_view name) {
  static const std::vector<Token> sorted = [] {
    std::vector<Token> all;
    for (const auto tokens : {arithmetic_tokens(), matrix_tokens(), memory_tokens(), texture_tokens(), control_tokens()})
      all.insert(all.end(), tokens.begin(), tokens.end());
    return sorted_by_name(std::move(all));
  }();
  return find_name(sorted, name);
}

const NameTable* find_table(std::string_view name) {
  static const std::vector<NameTable> sorted =
      sorted_by_name(std::vector(std::begin(name_tables), std::end(name_tables)));
  return find_name(sorted, name);
}

// "80" or "75:72" -> high and low bit.
struct Range {
  unsigned high = 0, low = 0;
};
unsigned parse_number(std::string_view s) {
  unsigned v = 0;
  const auto r = std::from_chars(s.data(), s.data() + s.size(), v);
  XT_CHECK(r.ec == std::errc{} && r.ptr == s.data() + s.size(), "bad number in a text of forms.def");
  return v;
}
Range parse_range(std::string_view s) {
  const size_t colon = s.find(':');
  if (colon == std::string_view::npos) {
    const unsigned b = parse_number(s);
    return {b, b};
  }
  return {parse_number(s.substr(0, colon)), parse_number(s.substr(colon + 1))};
}

}  // namespace

void Printer::put_name(std::string_view table, unsigned value) {
  const NameTable* t = find_table(table);
  XT_CHECK(t != nullptr, "a text of forms.def names an unknown table");
  if (value < t->values.size()) {
    out_ += t->values[value];
  } else {
    out_ += fmt::format(".INVALID{}", value);
  }
}

// Not format_to() into out_: that instantiates the formatting of every type here, for 2 s of compile time.
void Printer::hex(uint64_t v) { out_ += fmt::format("{:#x}", v); }
void Printer::signed_hex(int64_t v) {
  if (v < 0) out_ += '-';
  hex(v < 0 ? -static_cast<uint64_t>(v) : static_cast<uint64_t>(v));
}

void Printer::gpr(unsigned index) {
  if (index == 255) {
    out_ += "RZ";
  } else {
    out_ += fmt::format("R{}", index);
  }
}
void Printer::ur(unsigned index) {
  if (index == arch_.urz) {
    out_ += "URZ";
  } else {
    out_ += fmt::format("UR{}", index);
  }
}
void Printer::pred(unsigned index, bool negate, bool uniform) {
  if (negate) out_ += '!';
  if (uniform) out_ += 'U';
  if (index == pt) {
    out_ += "PT";
  } else {
    out_ += fmt::format("P{}", index);
  }
}

void Printer::guard() {
  const unsigned index = field(14, 12);
  const bool negate = flag(15);
  if (index == pt && !negate) return;
  out_ += '@';
  pred(index, negate, form_.guard_is_uniform());
  out_ += ' ';
}

std::string Printer::run() {
  guard();
  render(form_.text);
  while (!out_.empty() && out_.back() == ' ') out_.pop_back();
  return std::move(out_);
}

void Printer::render(std::string_view text) {
  while (!text.empty()) {
    const char c = text.front();
    if (c == '<' || c == '{') {
      const size_t end = text.find(c == '<' ? '>' : '}');
      XT_CHECK(end != std::string_view::npos, "unclosed bracket in a text of forms.def");
      const std::string_view inside = text.substr(1, end - 1);
      text.remove_prefix(end + 1);
      if (c == '<') {
        group(inside);
      } else {
        token(inside);
      }
      continue;
    }
    out_ += c;
    text.remove_prefix(1);
  }
}

void Printer::group(std::string_view text) {
  const size_t at = text.rfind('@');
  XT_CHECK(at != std::string_view::npos, "a condition lacks its bits in a text of forms.def");
  const std::string_view body = text.substr(0, at);
  std::string_view condition = text.substr(at + 1);
  unsigned hidden = 0;
  if (const size_t bang = condition.find('!'); bang != std::string_view::npos) {
    hidden = parse_number(condition.substr(bang + 1));
    condition = condition.substr(0, bang);
  }
  const Range r = parse_range(condition);
  group_value_ = get_bits(w_, bits(r.high, r.low));
  if (body.starts_with('#')) return put_name(body.substr(1), static_cast<unsigned>(group_value_));
  if (group_value_ != hidden) render(body);
}

void Printer::token(std::string_view name) {
  if (name == "x") return hex(group_value_);
  if (name.starts_with("x@")) {
    const Range r = parse_range(name.substr(2));
    return hex(get_bits(w_, bits(r.high, r.low)));
  }
  if (const Token* t = find_token(name)) return t->print(*this);
  XT_CHECK(operand(name), "unknown token in a text of forms.def");
}

void Printer::modified(unsigned low, bool uniform, char modifier) {
  // Sign and absolute bits by place: A 72, 73; [63:32] 63, 62; [71:64] 75, 74.
  const unsigned sign = low == 24 ? 72 : low == 32 ? 63 : 75;
  const unsigned absolute = low == 24 ? 73 : low == 32 ? 62 : 74;
  if ((modifier == '-' || modifier == '|') && flag(sign)) out_ += '-';
  if (modifier == '~' && flag(sign)) out_ += '~';
  const bool bars = modifier == '|' && flag(absolute);
  if (bars) out_ += '|';
  if (uniform) {
    ur_at(low);
  } else {
    gpr_at(low);
  }
  if (bars) out_ += '|';
}

void Printer::immediate(std::string_view style) {
  const uint32_t v = static_cast<uint32_t>(get_bits(w_, bits(63, 32)));
  if (style == "f") {
    out_ += print_f32(v);
  } else if (style == "d") {
    out_ += print_f64_high(v);
  } else if (style == "s" || (style.size() > 1 && style[0] == 's' && flag(parse_number(style.substr(1))))) {
    signed_hex(static_cast<int32_t>(v));
  } else {
    hex(v);
  }
}

void Printer::constant(bool bindless, std::string_view between) {
  const int64_t offset = sign_extend(field(53, 40), 14) * 4;
  if (bindless) {
    out_ += "cx[";
    ur_at(32);
    out_ += ']';
  } else {
    out_ += fmt::format("c[{:#x}]", field(58, 54));
  }
  out_ += between;
  out_ += '[';
  signed_hex(offset);
  out_ += ']';
}

void Printer::source(char modifier, std::string_view style) {
  switch (layout_.s) {
    case SourceS::reg:
      return modified(32, false, modifier);
    case SourceS::ur:
      return modified(32, true, modifier);
    case SourceS::imm:
      return immediate(style);
    case SourceS::constant:
    case SourceS::constant_bindless: {
      if (modifier != 0 && flag(63)) out_ += modifier == '~' ? '~' : '-';
      const bool bars = modifier == '|' && flag(62);
      if (bars) out_ += '|';
      constant(layout_.s == SourceS::constant_bindless);
      if (bars) out_ += '|';
      return;
    }
  }
}

// An operand name of form.h with its suffixes.
bool Printer::operand(std::string_view name) {
  struct Place {
    std::string_view name;
    char kind;  // g: vector register, u: uniform register, B C S: by operand form, b c s: the uniform ones,
                // p, q: predicates
    unsigned low;
  };
  static constexpr Place places[] = {
      {"UPu", 'q', 81}, {"UPv", 'q', 84}, {"UPp", 'q', 87}, {"UPq", 'q', 77}, {"UPr", 'q', 68},
      {"Rd", 'g', 16},  {"Ra", 'g', 24},  {"Rb", 'g', 32},  {"Rc", 'g', 64},  {"Ud", 'u', 16},
      {"Ua", 'u', 24},  {"Ub", 'u', 32},  {"Uc", 'u', 64},  {"Ut", 'u', 40},  {"Uf", 'u', 48},
      {"UA", 'u', 24},  {"UB", 'b', 0},   {"UC", 'c', 0},   {"US", 's', 0},   {"Pu", 'p', 81},
      {"Pv", 'p', 84},  {"Pp", 'p', 87},  {"Pq", 'p', 77},  {"Pr", 'p', 68},  {"A", 'g', 24},
      {"B", 'B', 0},    {"C", 'C', 0},    {"S", 'S', 0},
  };
  const Place* place = nullptr;
  for (const Place& p : places) {
    if (!name.starts_with(p.name)) continue;
    place = &p;
    break;
  }
  if (place == nullptr) return false;
  std::string_view rest = name.substr(place->name.size());
  if (rest.starts_with(':')) rest.remove_prefix(1);

  if (place->kind == 'p' || place->kind == 'q') {
    const unsigned index = field(place->low + 2, place->low);
    const bool is_source = place->low != 81 && place->low != 84;
    const bool negate = is_source && flag(place->low + 3);
    const bool optional = rest == "?" || rest == "!";
    const bool shown = !optional || index != pt || (rest == "!" && arch_.sm >= 100);
    if (!shown) return true;
    pred(index, negate, place->kind == 'q');
    if (optional) out_ += ", ";
    return true;
  }

  char modifier = 0;
  if (!rest.empty() && std::string_view("-|~^+").find(rest[0]) != std::string_view::npos) {
    modifier = rest[0];
    if (modifier == '^') modifier = flag(74) ? '~' : '-';
    if (modifier == '+') modifier = layout_.s_is_c ? '\0' : flag(74) ? '~' : '-';
    rest.remove_prefix(1);
  }
  switch (place->kind) {
    case 'g':
      modified(place->low, false, modifier);
      break;
    case 'u':
      modified(place->low, true, modifier);
      break;
    case 'B':
    case 'b':
      if (layout_.s_is_c) {
        modified(64, place->kind == 'b', modifier);
      } else {
        source(modifier, rest);
      }
      break;
    case 'C':
    case 'c':
      if (layout_.s_is_c) {
        source(modifier, rest);
      } else {
        modified(64, place->kind == 'c', modifier);
      }
      break;
    default:
      source(modifier, rest);
      break;
  }
  return true;
}

std::string print(const Arch& arch, const RawInst& w, uint32_t pc) {
  const Form* form = find_form(arch, w);
  if (form == nullptr) return fmt::format(".word {:#018x}_{:016x}", w.hi, w.lo);
  return Printer(arch, w, pc, *form).run();
}

std::string print_control(const RawInst& w) {
  const Control c = get_control(w);
  const auto barrier = [](uint8_t b) {
    return b == Control::no_barrier ? std::string("-") : fmt::format("{}", b);
  };
  std::string s =
      fmt::format("stall={} {} wr={} rd={} wait={:#x}", c.stall, c.keep_issuing ? "keep" : "yield",
                  barrier(c.write_barrier), barrier(c.read_barrier), c.wait_mask);
  if (c.reuse != 0) {
    s += " reuse=";
    for (unsigned i = 0; i < 3; ++i)
      if ((c.reuse >> i & 1) != 0) s += static_cast<char>('A' + i);
  }
  return s;
}

}  // namespace xtrace::sass
