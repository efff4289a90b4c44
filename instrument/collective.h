// WARPSYNC.COLLECTIVE meets lanes at other ones: those that came last execute what follows theirs for all, up to ENDCOLLECTIVE, and
// there the others go to their own targets [measured H200: docs/isa.md, How lanes part and meet]. So lanes may come from each of them to
// what stands behind every one, and from each ENDCOLLECTIVE to every target.
#pragma once

#include <vector>

#include "instrument/code.h"

namespace xtrace::instrument {

struct Collective {
  InstIndex at = 0, target = 0;
};
// The reachable ones, in order of code.
std::vector<Collective> find_collectives(const Code& code);

}  // namespace xtrace::instrument
