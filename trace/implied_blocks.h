// The blocks without records that lanes may go through behind one with a record, and which of them lead where. A gathered block stands
// among the blocks with records: it is where ways end and begin. Behind a block with a record that returns, ways are told by where it
// returns to. A loop whose rounds are counted is the last block on its way, which ends where lanes leave it. Through a region in which lanes number
// their ways several lead to one place, each by a number of its own, and a block may be on several of them.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "trace/wire/address_map.h"

namespace xtrace::trace {

class ImpliedBlocks {
 public:
  static constexpr uint32_t none = ~0u;
  // Where a way ends: a block with a record; none: a lane has no more. `number`: by which of several ways, through a region in which they are
  // numbered, or by a counted loop; 0: by no such way.
  struct End {
    uint32_t block = none, number = 0;
    auto operator<=>(const End&) const = default;
  };
  static constexpr uint32_t by_a_loop = ~0u;
  static End end_at(uint32_t block, bool by_loop) { return {block, by_loop ? by_a_loop : 0}; }

  struct Step {
    uint32_t block = none, before = none;   // before: the step that lanes come from; none: the recorded block
  };
  struct Ways {
    std::vector<Step> steps;   // each behind the one before it
    std::map<End, uint32_t> last_to;   // by end: the last step on the way
    std::vector<uint32_t> gathered;    // of the blocks where ways end
    uint32_t to(End next) const {
      const auto found = last_to.find(next);
      return found == last_to.end() ? none : found->second;
    }
  };

  explicit ImpliedBlocks(const wire::AddressMap& map);
  bool any() const { return any_; }
  // Some block with a record returns, and some block has none.
  bool returning() const { return any_ && !returning_.empty(); }
  const Ways& behind(uint32_t block, uint32_t returns_to = none) const;
  // From there lanes come to `next` without another record.
  bool leads(uint32_t block, End next) const;
  // The counted loop by which lanes come from there to `next`; none: no way leads through one.
  uint32_t loop_on_the_way(uint32_t block, uint32_t next) const;

 private:
  void finish(const wire::AddressMap& map, Ways& ways);

  std::vector<Ways> ways_;
  std::map<std::pair<uint32_t, uint32_t>, Ways> returning_;   // by a block with a record that returns, and where to
  bool any_ = false;
};

}  // namespace xtrace::trace
