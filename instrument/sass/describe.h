// The fields of one instruction word, labelled: for people who read a word bit by bit, and for tests that
// want to know which bits the form table explains.
#pragma once

#include <string>
#include <vector>

#include "instrument/sass/arch.h"
#include "instrument/sass/inst.h"

namespace xtrace::sass {

struct WordField {
  unsigned high = 0, low = 0;  // [high:low], inclusive
  uint64_t value = 0;
  std::string name;     // "guard", "Ra", "modifier", "wait"
  std::string meaning;  // "P0", "R2:R3 read", ".FTZ"
};

// High bits first, no two overlapping, every bit in one of them: what no form explains is named "-" (all
// zero) or "?". Bits that a text token reads by itself (the operation of an MUFU, the order of a load) are
// covered by the token's text only: they come as "?" fields and the text says what they mean.
std::vector<WordField> describe_word(const Arch& arch, const RawInst& w);

}  // namespace xtrace::sass
