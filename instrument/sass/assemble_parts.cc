#include "instrument/sass/assemble_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "instrument/sass/printer.h"

namespace xtrace::sass {
namespace {

Status parse_guard(std::string_view text, Parts& p) {
  size_t i = p.column;
  if (!text.substr(i).starts_with('@')) return {};
  p.guarded = true;
  ++i;
  const bool negate = text.substr(i).starts_with('!');
  if (negate) ++i;
  p.guard_is_uniform = text.substr(i).starts_with('U');
  if (p.guard_is_uniform) ++i;
  const std::string_view name = text.substr(i, 2);
  const bool number = name.size() == 2 && name[0] == 'P' && name[1] >= '0' && name[1] <= '6';
  if ((!number && name != "PT") || (text.size() > i + 2 && text[i + 2] != ' '))
    return bad_input("column {}: expected a guard like @P0 or @!UP2, found {}", p.column + 1,
                     found_at(text, p.column));
  p.guard = static_cast<uint8_t>((number ? name[1] - '0' : static_cast<int>(pt)) | (negate ? 8 : 0));
  p.column = std::min(text.find_first_not_of(' ', i + 2), text.size());
  return {};
}

// The annotation of print_control, from `i` on.
Status parse_control(std::string_view text, size_t i, Control& c) {
  c = Control{.stall = 1};
  const auto fail = [&](std::string_view expected) {
    return bad_input("column {}: expected {}, found {}", i + 1, expected, found_at(text, i));
  };
  const auto take_number = [&](unsigned most, uint8_t& out) {
    const bool hexadecimal = text.substr(i).starts_with("0x");
    unsigned v = 0;
    const char* begin = text.data() + i + (hexadecimal ? 2 : 0);
    const auto r = std::from_chars(begin, text.data() + text.size(), v, hexadecimal ? 16 : 10);
    if (r.ec != std::errc{} || v > most) return false;
    i = static_cast<size_t>(r.ptr - text.data());
    out = static_cast<uint8_t>(v);
    return true;
  };
  while ((i = std::min(text.find_first_not_of(' ', i), text.size())) < text.size()) {
    const std::string_view rest = text.substr(i);
    const size_t sign = rest.find('=');
    const std::string_view key = rest.substr(0, std::min(sign, rest.find(' ')));
    if (key == "keep" || key == "yield") {
      c.keep_issuing = key == "keep";
      i += key.size();
      continue;
    }
    if (sign == std::string_view::npos ||
        (key != "stall" && key != "wr" && key != "rd" && key != "wait" && key != "reuse"))
      return fail("stall=, keep, yield, wr=, rd=, wait= or reuse=");
    i += key.size() + 1;
    if (key == "stall") {
      if (!take_number(15, c.stall)) return fail("a stall of 0 to 15 cycles");
    } else if (key == "wait") {
      if (!take_number(63, c.wait_mask)) return fail("a mask of scoreboards of at most 0x3f");
    } else if (key == "reuse") {
      for (; i < text.size() && text[i] >= 'A' && text[i] <= 'C'; ++i)
        c.reuse = static_cast<uint8_t>(c.reuse | 1u << (text[i] - 'A'));
      if (c.reuse == 0) return fail("operands A, B or C");
    } else {
      uint8_t& barrier = key == "wr" ? c.write_barrier : c.read_barrier;
      if (text.substr(i).starts_with('-')) {
        ++i;
      } else if (!take_number(5, barrier)) {
        return fail("a scoreboard 0 to 5, or -");
      }
    }
    if (i < text.size() && text[i] != ' ') return fail("a blank");
  }
  return {};
}

}  // namespace

Result<Parts> parse_parts(std::string_view text) {
  Parts p;
  p.column = std::min(text.find_first_not_of(' '), text.size());
  XT_TRY_STATUS(parse_guard(text, p));
  size_t end = text.size();
  if (const size_t stall = text.find(" stall="); stall != std::string_view::npos) {
    XT_TRY_STATUS(parse_control(text, stall + 1, p.control));
    end = stall;
  }
  if (p.column > end) p.column = end;
  p.body = text.substr(p.column, end - p.column);
  while (!p.body.empty() && p.body.back() == ' ') p.body.remove_suffix(1);
  return p;
}

std::string found_at(std::string_view text, size_t at) {
  if (at >= text.size()) return "the end of the text";
  size_t end = text.find_first_of(" ,", at);
  if (end == at) end = at + 1;
  return fmt::format("'{}'", text.substr(at, end == std::string_view::npos ? end : end - at));
}

}  // namespace xtrace::sass
