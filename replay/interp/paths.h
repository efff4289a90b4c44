// How the lanes of a warp part and meet, and how warps meet at CTA barriers.
#pragma once

#include "replay/interp/step.h"

namespace xtrace::replay::interp {

inline Path& current_path(Warp& w) { return w.paths[w.current]; }

// Lanes `taken` of the current path go to instruction `target`, the others to the next one. Which side goes
// on first is not the hardware's order: the side that falls through, so that a lane which leaves a spin loop
// gets on.
void branch(Step& s, uint32_t taken, uint32_t target);
// Every lane of `lanes` to its own target; the others fall through.
void branch_each(Step& s, uint32_t lanes, const uint32_t (&target)[lane_count]);
// Lanes end.
void exit_lanes(Step& s, uint32_t lanes);

// BSSY: the lanes become the participants of the barrier. BREAK: they leave it. BSYNC: they wait for those
// that did not.
void join_barrier(Step& s, uint32_t lanes, unsigned barrier);
void leave_barrier(Step& s, uint32_t lanes, unsigned barrier);
void wait_barrier(Step& s, uint32_t lanes, unsigned barrier);
// WARPSYNC: the lanes wait until all of `need` that live have come.
void wait_warpsync(Step& s, uint32_t lanes, uint32_t need);
// The same, each lane for its own mask: those of one mask become a path.
void wait_exclusively(Step& s, uint32_t lanes, const uint32_t* masks);

// BAR.SYNC (wait) and BAR.ARV. `threads`: how many make the barrier complete; 0 = all that live.
void cta_barrier(Step& s, uint32_t lanes, unsigned barrier, uint32_t threads, bool wait);

// WARPGROUP.ARRIVE: the lanes wait for all that live of the four warps. [vendor code: by two in a row cuBLAS orders stores of
// four warps before the copy that one of them makes of what they stored]
void wait_for_warpgroup(Step& s, uint32_t lanes);

// UCGABAR_ARV, UCGABAR_WAIT: the barrier of the cluster, by the lanes of the current path.
void arrive_at_cluster(Step& s);
void wait_for_cluster(Step& s);
// Paths that wait for a phase of the cluster's barrier which is over go on.
void wake_for_cluster(Cta& cta);

// The current path waits for what it tries. wake_trying: paths for which it came about go on; with `give_up`
// all do, told that it did not. True: some did.
void wait_trying(Step& s, PathState state, const Try& trying);
bool wake_trying(Cta& cta, bool give_up);
// USETMAXREG: the warp gets or gives registers, if the CTA has them to give.
bool take_registers(Cta& cta, Warp& w, uint32_t registers);

// Makes another path current when the current one can not go on, or when `rotate`; when none can, lanes at a BSYNC
// that wait for lanes at a WARPSYNC go on. False: no path can.
bool select_path(Warp& w, bool rotate);

}  // namespace xtrace::replay::interp
