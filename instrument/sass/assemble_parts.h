// What stands around the instruction in a text: the guard in front, the control word behind. Private to the room.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "instrument/sass/inst.h"

namespace xtrace::sass {

struct Parts {
  std::string_view body;  // mnemonic and operands
  size_t column = 0;      // of the body, from 0
  bool guarded = false, guard_is_uniform = false;
  uint8_t guard = 7;  // with the negation in bit 3; PT
  Control control{.stall = 1};
};

// A text of "@guard body stall=... ...". Errors name the column.
Result<Parts> parse_parts(std::string_view text);

// What an error shows of the text at `at`: a word, in quotes.
std::string found_at(std::string_view text, size_t at);

}  // namespace xtrace::sass
