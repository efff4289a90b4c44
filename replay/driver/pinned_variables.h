// Module variables to which the launch's memory points. They can not lie where the loader puts them: they become placed memory at their
// recorded addresses, and the code that is loaded refers to them there (instrument/cubin/pinned_variables.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "instrument/cubin/pinned_variables.h"
#include "replay/backend.h"
#include "replay/pointer_scan.h"

namespace xtrace::replay {

struct PinnedVariables {
  std::vector<cubin::PinnedVariable> variables;
  std::vector<size_t> regions;   // parallel: index into record.regions
  std::string why_not;           // of the first one that could not be pinned; empty: none
};

// Those with a hit that the launch's code can be made to refer to. Not `__constant__` variables, which kernels read from their bank, nor
// what overlaps placed memory.
PinnedVariables find_pinned_variables(const LaunchImage& launch, const std::vector<std::optional<PointerHit>>& hits);

}  // namespace xtrace::replay
