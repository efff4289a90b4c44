// Adds the waits that stores of probes need: a register that a probe's store has yet to read may be written, by whatever
// comes next on any path, only after a wait on the store's scoreboard. The waits go on the instructions that write, so
// probes need not think about them, and nobody waits for longer than the data requires.
#pragma once

#include "instrument/relocate.h"

namespace xtrace::instrument {

// `entry`: what stands in front of the kernel and may leave stores behind.
void add_waits(const Code& code, Insertions& insertions, Sequence& entry);

}  // namespace xtrace::instrument
