#include "trace/record_gaps.h"

#include <algorithm>

namespace xtrace::trace {

RecordGaps::RecordGaps(const wire::AddressMap& map) {
  for (const wire::Block& b : map.blocks) other_parts_ |= b.other_part;
  for (const wire::Block& b : map.blocks)
    may_follow_.push_back((other_parts_ && b.indirect) || std::any_of(b.successors.begin(), b.successors.end(), [&](uint32_t s) {
                            return s < map.blocks.size() && map.blocks[s].unrecorded;
                          }));
}

}  // namespace xtrace::trace
