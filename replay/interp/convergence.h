// What the one B0..B15 of a warp hold on hardware, and which lanes may come through a BSYNC one after the other there that
// meet here. Where that could change a uniform register the launch is refused.
#pragma once

#include "replay/interp/step.h"

namespace xtrace::replay::interp {

// BSSY, BREAK, BMOV.CLEAR, and BMOV to the barrier, by `lanes`.
void join_shared(Warp& w, uint32_t lanes, unsigned barrier);
void leave_shared(Warp& w, uint32_t lanes, unsigned barrier);
void clear_shared(Warp& w, uint32_t lanes, unsigned barrier);
void write_shared(Warp& w, uint32_t lanes, unsigned barrier, uint32_t named);
// A path parts: `taken` of its lanes branch. Lanes part in more than two ways: `lanes`.
void parted(Warp& w, uint32_t lanes, uint32_t taken);
// Lanes stop at a BSYNC; whether they wait is not known yet.
void come_to_barrier(Warp& w, uint32_t lanes, unsigned barrier);
// Lanes wait, end or yield: others of the warp may come to a BSYNC now.
void others_may_run(Warp& w, uint32_t lanes);
// `lanes` go on together from where `path` waits, a BSYNC or a WARPSYNC.
void met(Warp& w, const Path& path, uint32_t lanes);
// Lanes that came one after the other waited for each other.
inline void together(Warp& w, uint32_t lanes) { w.shared_barriers.apart &= ~lanes; }

// Executes an instruction for a path of which lanes may be apart. A fault when it changes what they read before: those that
// come later would read something else.
void execute_apart(Step& s, const Inst& i);

}  // namespace xtrace::replay::interp
