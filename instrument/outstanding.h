// What the original code may have outstanding on each scoreboard: whoever waits on it waits for that as well.
#pragma once

#include <vector>

#include "instrument/code.h"

namespace xtrace::instrument {

class Outstanding {
 public:
  explicit Outstanding(const Code& code);

  // Immediately before instruction i (bit masks): scoreboards of loads from memory and atomics, a trip to memory; and of anything else.
  uint8_t memory(InstIndex i) const { return in_[i].memory; }
  uint8_t other(InstIndex i) const { return in_[i].other; }
  // Cycles, about, that a wait on the scoreboard takes there.
  uint32_t wait_cycles(InstIndex i, unsigned scoreboard) const;

 private:
  struct Set {
    uint8_t memory = 0, other = 0;
    bool operator==(const Set&) const = default;
  };
  std::vector<Set> in_;
};

}  // namespace xtrace::instrument
