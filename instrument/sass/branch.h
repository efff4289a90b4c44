// Branch target fields: which bits, which scale, relative to what. Private to the room.
#pragma once

#include <optional>

#include "instrument/sass/form.h"

namespace xtrace::sass {

// The target of a word whose form has one, as a byte offset in the section.
std::optional<int64_t> branch_target(const Arch& arch, const Form& form, const RawInst& w, uint32_t pc);

// The immediate of the branch field in bytes, whatever it is relative to (BRX, RET, CALL through a register).
int64_t branch_immediate(const Arch& arch, const RawInst& w);

}  // namespace xtrace::sass
