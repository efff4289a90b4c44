// Module variables at chosen addresses. The loader chooses where a variable lies; memory and other code may hold its recorded address. In
// the edited cubin, whatever refers to the variable has that address itself, and no relocation is left; what the loader sets aside
// for the variable is not used.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace xtrace::cubin {

struct PinnedVariable {
  std::string name;
  uint64_t address = 0;
};

// unsupported: there is no variable of the name, or several, something refers to it in a way that is not known here, or it
// holds the address of a function; by name.
Result<Bytes> with_pinned_variables(ByteView cubin, std::span<const PinnedVariable> variables);

}  // namespace xtrace::cubin
