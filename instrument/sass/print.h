// SASS text in nvdisasm's notation, without control bits: "@!P0 LDG.E R0, desc[UR4][R2.64]".
#pragma once

#include <string>

#include "instrument/sass/arch.h"
#include "instrument/sass/inst.h"

namespace xtrace::sass {

// Branch targets are printed as absolute offsets in the section ("BRA 0x190"). An unknown word prints as
// ".word 0x<hi>_<lo>". Forms whose modifiers are not all modelled print the modelled part.
std::string print(const Arch& arch, const RawInst& w, uint32_t pc);
// "stall=5 keep wr=0 rd=- wait=0x3 reuse=AB"
std::string print_control(const RawInst& w);

}  // namespace xtrace::sass
