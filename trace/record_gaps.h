// Whether a warp did something between two records that left none: then neither ends where the other begins.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/warp_trace.h"

namespace xtrace::trace {

class RecordGaps {
 public:
  explicit RecordGaps(const wire::AddressMap& map);
  // What the warp executed behind record i of `block` and `inst` is record i + 1, if anything is. Where other parts record some blocks
  // that needs all lanes: others may go on in between.
  bool none_behind(const WarpTrace& trace, uint32_t i) const {
    return !may_follow_[trace.index[i]] && (!other_parts_ || trace.mask[i] == ~0u);
  }

 private:
  std::vector<bool> may_follow_;   // by block: it may lead to an unrecorded one
  bool other_parts_ = false;
};

}  // namespace xtrace::trace
