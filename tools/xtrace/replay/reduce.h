// A configuration that diverges, bisected to few places: the smallest set of instructions, probed alone, with which it still
// does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace xtrace::cli {

// What one trial showed: empty when the replay was as it should be, else what was wrong with it. No instructions: without any probe.
using Trial = std::function<Result<std::string>(const std::vector<uint32_t>& pcs)>;

struct Reduction {
  std::vector<uint32_t> pcs;   // no one of them can be left out
  std::string what;            // what the last trial with just these showed
  uint32_t trials = 0;
  bool unprobed = false;       // it does so without any probe: the set is empty
};

// Delta debugging. No instructions, and nothing in `what`, when the whole set does not diverge. Deterministic trials are taken for granted: the result is
// tried once more, and an error says so when it does not diverge again.
Result<Reduction> reduce(std::vector<uint32_t> pcs, const Trial& trial);

// "pc:0x10 or pc:0x40", for --at.
std::string places_text(const std::vector<uint32_t>& pcs);

}  // namespace xtrace::cli
