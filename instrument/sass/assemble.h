// Text to instruction: the inverse of print(), for tests and for the templates of probes.
//
// There is no grammar of its own. The assembler walks the text of forms.def that the printer walks: letters,
// names of names.def and conditions are matched where the template has them; an operand or a special token is
// solved by asking the printer what it prints, and changing the bits of the word until that is what the text
// says. So whatever a token prints, an address or a list of barriers, is accepted, and a word is returned
// only when the printer gives the same text back.
//
// Bits that the text does not show:
//   - a condition that shows nothing, and an empty name of a table, say their own value (MOV's lane mask 15);
//   - a register that the form reads or writes and the text does not show is RZ or URZ, a predicate PT, a
//   carry that is
//     not added !PT;
//   - constant bits that no field explains are in `unshown` of assemble.cc, by mnemonic; all others are zero;
//   - the control word is the one of encode.h (stall 1, keep issuing, no barriers) unless the text names one.
#pragma once

#include <string_view>

#include "base/status.h"
#include "instrument/sass/arch.h"
#include "instrument/sass/inst.h"

namespace xtrace::sass {

// "[@[!]P] MNEMONIC operands [stall=N keep|yield wr=B rd=B wait=0xM [reuse=ABC]]": what print() and
// print_control() print. `pc` is the byte offset in the section, for branch targets.
//
// bad_input with the column (from 1), what was expected and what was found. Modes of a special token that the
// search misses are refused the same way; docs/isa.md lists the texts that are known. Takes about a
// millisecond, a text that is refused up to some hundred.
Result<RawInst> assemble(const Arch& arch, std::string_view text, int64_t pc);

}  // namespace xtrace::sass
