// The instruction words under test: every word of sm_90 in tests/oracle/, with its operands moved into the
// window of states.h; those of own_words.h; and for opcodes without either, words made of what is known of the form.
#pragma once

#include <string>
#include <vector>

#include "instrument/sass/inst.h"
#include "tests/values/states.h"

namespace xtrace::values {

struct Word {
  sass::RawInst inst;  // without control bits
  Class cls = Class::plain;
  bool operator==(const Word&) const = default;
};

// What of a form is not executed, and why.
struct NotChecked {
  std::string form;  // "BRA 0x947"
  std::string reason;
};

struct WordList {
  std::vector<Word> words;              // no two alike; those of compiled code first
  std::vector<NotChecked> not_checked;  // one for each form and reason
  size_t forms = 0;  // opcodes of sm_90 in the table, and how many of them have a word here
  size_t forms_with_words = 0;
};

WordList word_list();

// True for instructions whose result is a matter of machine, place or time and not of their operands: their
// effects are checked, their values are not.
bool reads_the_machine(const sass::RawInst& w);
// False for these, and for accesses of textures and surfaces, whose results are a matter of filters and of what was stored before.
bool values_are_compared(const Word& w);
// True for an absolute target, which is known when the code is loaded.
bool needs_code_address(const sass::RawInst& w);

std::string text(const Word& w);                // SASS, without control bits
std::string form_name(const sass::RawInst& w);  // "FADD 0x221"

}  // namespace xtrace::values
