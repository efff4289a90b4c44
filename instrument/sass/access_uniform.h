// Accesses that an instruction makes once for the warp (access.h).
#pragma once

#include <optional>
#include <variant>

#include "instrument/sass/access.h"

namespace xtrace::sass {

// Nothing where the word is none of these.
std::optional<std::variant<Access, NotCovered>> uniform_access(const Arch& arch, const RawInst& w);

}  // namespace xtrace::sass
