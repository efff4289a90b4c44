// Chooses the scoreboard by which each store of a probe tells that it has read its registers. Whoever writes these registers
// next waits on it (waits.h), and with it for all that the kernel has outstanding there: on the scoreboard of a load under way
// that is a trip to memory. So: one on which the next writer finds nothing outstanding, or the kernel waits earlier anyway.
#pragma once

#include "instrument/relocate.h"

namespace xtrace::instrument {

// Before add_waits(). `usable`: scoreboards that may be shared (bit mask). Stores keep the one they have unless another costs
// less.
void choose_read_barriers(const Code& code, uint8_t usable, Insertions& insertions);

}  // namespace xtrace::instrument
