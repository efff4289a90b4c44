// Lexemes of instruction text: what the assembler compares. Private to the room.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "instrument/sass/arch.h"

namespace xtrace::sass {

enum class LexKind : uint8_t {
  literal,  // equal when the letters are
  gpr,      // the others differ by value only: R5, RZ
  ur,
  pred,
  upred,
  barrier,
  number,    // 0x10, -0x10; N of .64xNxK
  floating,  // 1.5, +INF
};

struct Lexeme {
  LexKind kind = LexKind::literal;
  uint32_t begin = 0, end = 0;
  int64_t value = 0;      // of a register or number; RZ, URZ and PT count as the indices that they are
  std::string_view text;  // without the blanks around it
};

// Replaces `out` by the lexemes of `text`; views of it.
void lex(const Arch& arch, std::string_view text, std::vector<Lexeme>& out);

// True when they may be instances of one another.
bool same_shape(const Lexeme& a, const Lexeme& b);
// Length of the common start of two literals.
unsigned common_start(std::string_view a, std::string_view b);

// Values of the field [63:32] or of a half of it that may print as this floating-point text.
struct FloatValue {
  uint32_t f32 = 0, f64_high = 0;
  uint16_t f16 = 0;
};
FloatValue parse_float(std::string_view text);

}  // namespace xtrace::sass
