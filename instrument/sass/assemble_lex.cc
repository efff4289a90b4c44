#include "instrument/sass/assemble_lex.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

namespace xtrace::sass {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }
bool is_word(char c) { return is_digit(c) || is_letter(c) || c == '?'; }

size_t skip_word(std::string_view s, size_t i) {
  while (i < s.size() && is_word(s[i])) ++i;
  return i;
}
size_t skip_digits(std::string_view s, size_t i) {
  while (i < s.size() && is_digit(s[i])) ++i;
  return i;
}

// A register name, or a literal.
void classify(const Arch& arch, Lexeme& l) {
  struct Prefix {
    std::string_view letters, zero;
    LexKind kind;
    int64_t zero_value;
  };
  const Prefix prefixes[] = {{"UR", "URZ", LexKind::ur, arch.urz},
                             {"UP", "UPT", LexKind::upred, 7},
                             {"R", "RZ", LexKind::gpr, 255},
                             {"P", "PT", LexKind::pred, 7},
                             {"B", "", LexKind::barrier, 0}};
  for (const Prefix& p : prefixes) {
    if (!l.text.starts_with(p.letters)) continue;
    if (l.text == p.zero) {
      l.kind = p.kind;
      l.value = p.zero_value;
      return;
    }
    const std::string_view rest = l.text.substr(p.letters.size());
    int64_t v = 0;
    const auto r = std::from_chars(rest.data(), rest.data() + rest.size(), v);
    if (rest.empty() || !is_digit(rest[0]) || r.ec != std::errc{} || r.ptr != rest.data() + rest.size())
      continue;
    l.kind = p.kind;
    l.value = v;
    return;
  }
}

int64_t parse_hex(std::string_view s) {
  const bool negative = s.starts_with('-');
  if (negative) s.remove_prefix(1);
  uint64_t v = 0;
  std::from_chars(s.data() + 2, s.data() + s.size(), v, 16);
  return static_cast<int64_t>(negative ? -v : v);
}

// End of a number at `i` ("0x1f", "1.5e+10"), or `i` when there is none there.
size_t skip_number(std::string_view s, size_t i, bool& hexadecimal) {
  hexadecimal = s.substr(i).starts_with("0x");
  if (hexadecimal) {
    const size_t end = skip_word(s, i + 2);
    return end == i + 2 ? i : end;
  }
  size_t end = skip_digits(s, i);
  if (end == i) return i;
  if (end + 1 < s.size() && s[end] == '.' && is_digit(s[end + 1])) end = skip_digits(s, end + 1);
  if (end + 2 < s.size() && s[end] == 'e' && (s[end + 1] == '+' || s[end + 1] == '-') && is_digit(s[end + 2]))
    end = skip_digits(s, end + 2);
  return end < s.size() && is_word(s[end]) ? i : end;  // "2D" is a name
}

bool names_no_number(std::string_view s) {
  return s.starts_with("INF") || s.starts_with("QNAN") || s.starts_with("SNAN");
}

uint16_t to_f16(double v) {
  const auto sign = static_cast<uint16_t>(std::signbit(v) ? 0x8000 : 0);
  if (std::isinf(v)) return sign | 0x7c00;
  if (std::isnan(v)) return sign | 0x7e00;
  const double a = std::fabs(v);
  if (a < std::ldexp(1, -14)) return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::ldexp(a, 24)));
  int exponent = 0;
  const double fraction = std::frexp(a, &exponent);  // [0.5, 1)
  if (exponent + 14 > 30) return sign | 0x7c00;
  return static_cast<uint16_t>(sign | (exponent + 14) << 10 |
                               (static_cast<int>(std::ldexp(fraction, 11)) & 1023));
}

}  // namespace

void lex(const Arch& arch, std::string_view text, std::vector<Lexeme>& out) {
  out.clear();
  const auto add = [&](LexKind kind, size_t begin, size_t end) -> Lexeme& {
    out.push_back(
        {kind, static_cast<uint32_t>(begin), static_cast<uint32_t>(end), 0, text.substr(begin, end - begin)});
    return out.back();
  };
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::string_view rest = text.substr(i);
    if (is_letter(c)) {
      const size_t end = skip_word(text, i);
      classify(arch, add(LexKind::literal, i, end));
      i = end;
      continue;
    }
    if (rest.starts_with(".64x") && rest.size() > 4 && is_digit(rest[4])) {  // .64xNxK
      add(LexKind::literal, i, i + 4);
      const size_t end = skip_digits(text, i + 4);
      Lexeme& n = add(LexKind::number, i + 4, end);
      std::from_chars(n.text.data(), n.text.data() + n.text.size(), n.value);
      const size_t tail = skip_word(text, end);
      if (tail != end) add(LexKind::literal, end, tail);
      i = tail;
      continue;
    }
    if (c == '.') {
      const size_t end = skip_word(text, i + 1);
      add(LexKind::literal, i, end);
      i = end;
      continue;
    }
    const size_t sign = c == '-' || c == '+' ? 1 : 0;
    if (sign == 1 && names_no_number(rest.substr(1))) {
      const size_t end = skip_word(text, i + 1);
      add(LexKind::floating, i, end);
      i = end;
      continue;
    }
    const bool in_list = i > 0 && (text[i - 1] == '{' || text[i - 1] == ',');
    bool hexadecimal = false;
    const size_t start = i + (c == '-' ? 1 : 0);
    if (const size_t end = skip_number(text, start, hexadecimal); end != start && !in_list) {
      Lexeme& l = add(hexadecimal ? LexKind::number : LexKind::floating, i, end);
      if (hexadecimal) l.value = parse_hex(l.text);
      i = end;
      continue;
    }
    const size_t end = is_digit(c) ? skip_word(text, i) : i + 1;
    add(LexKind::literal, i, end);
    i = end;
  }
}

bool same_shape(const Lexeme& a, const Lexeme& b) {
  return a.kind == b.kind && (a.kind != LexKind::literal || a.text == b.text);
}

unsigned common_start(std::string_view a, std::string_view b) {
  const auto at =
      std::mismatch(a.begin(), a.begin() + static_cast<long>(std::min(a.size(), b.size())), b.begin());
  return static_cast<unsigned>(at.first - a.begin());
}

FloatValue parse_float(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (text.substr(1).starts_with("QNAN"))
    return {negative ? 0xffc00000u : 0x7fc00000u, negative ? 0xfff80000u : 0x7ff80000u,
            static_cast<uint16_t>(negative ? 0xfe00 : 0x7e00)};
  if (text.substr(1).starts_with("SNAN"))
    return {negative ? 0xff810000u : 0x7f810000u, negative ? 0xfff00001u : 0x7ff00001u,
            static_cast<uint16_t>(negative ? 0xfc01 : 0x7c01)};
  const double v = text.substr(1).starts_with("INF") ? (negative ? -INFINITY : INFINITY)
                                                     : std::strtod(std::string(text).c_str(), nullptr);
  const float single = std::fabs(v) > std::numeric_limits<float>::max() ? (v < 0 ? -INFINITY : INFINITY)
                                                                        : static_cast<float>(v);
  return {std::bit_cast<uint32_t>(single), static_cast<uint32_t>(std::bit_cast<uint64_t>(v) >> 32),
          to_f16(v)};
}

}  // namespace xtrace::sass
