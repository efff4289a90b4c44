// Pointers into module variables. The loader chooses where a variable lies, so a recorded pointer to one is
// only right when the variable comes back to its recorded address; this finds whether anything depends on
// that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "replay/backend.h"

namespace xtrace::replay {

// Where a word was found that points into a range.
struct PointerHit {
  std::optional<size_t> region;  // none: in the parameter block
  uint64_t offset = 0;           // in the region or the parameter block
  uint64_t value = 0;
  bool operator==(const PointerHit&) const = default;
};

// For every region of the launch: the first aligned 8-byte word, in the parameters or in any region's
// `before`, or else its `after`, whose value lies in that region's recorded range, if the region is a module variable; nothing for
// other regions. One pass over both; none when the launch has no module variables.
std::vector<std::optional<PointerHit>> pointers_to_variables(const LaunchImage& launch);

}  // namespace xtrace::replay
