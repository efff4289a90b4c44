// Which warps are traced. The code by which a warp finds out stands in the untouched copy of the kernel, and warps that are not
// traced just go on there:
//
//   entry of the kernel   S2R R, SR_CTAID...       where the kernel has no such load of its own, in front of its others
//                         ...                      what the kernel does by itself
//   its first wait        IMAD R, R, ...           for the same results
//                         ...
//                         ISETP P, ...
//                         ...
//                      @P BRA traced               in front of the first instruction that could not be executed twice, or earlier
//
// Traced warps begin the kernel anew, in the other copy: what they have executed of it wrote registers and did nothing else.
#pragma once

#include "instrument/instrument.h"
#include "instrument/relocate.h"
#include "instrument/scratch.h"

namespace xtrace::instrument {

struct Decision {
  explicit Decision(size_t instructions) : insertions(instructions) {}
  // In front of everything; where it holds the branch, the kernel's first instruction is jumped to, or registers are few.
  Sequence front;
  Insertions insertions;             // of the untouched copy
  std::optional<InstIndex> branch;   // the last word in front of this instruction is the branch; else that of `front` is
  uint8_t outstanding = 0;           // scoreboards that the kernel may have taken until then
};

// Instructions at the kernel's entry that may be executed twice: straight, of registers alone, and of nothing that they have not
// written before. Gives how many.
InstIndex repeatable_entry(const Code& code, const Blocks& blocks);
// Registers whose results nobody is told of (the stack pointer, mostly, of kernels that have no stack): what was begun there may arrive
// at any time later.
sass::RegSet unsettled_registers(const Code& code, InstIndex repeatable);

Decision build_decision(const Code& code, const Blocks& blocks, const LaunchShape& shape, const Plan& plan, Scratch& scratch);

}  // namespace xtrace::instrument
