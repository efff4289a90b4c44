// What the one B0..B15 of a warp hold on hardware, and which lanes may come through a BSYNC one after the other there that
// meet here. Where one of them reads a uniform register that another has changed the launch is refused.
#pragma once

#include <functional>
#include <optional>

#include "replay/interp/step.h"

namespace xtrace::replay::interp {

// BSSY, BREAK, BMOV.CLEAR, and BMOV to the barrier, by `lanes`.
void join_shared(Warp& w, uint32_t lanes, unsigned barrier);
void leave_shared(Warp& w, uint32_t lanes, unsigned barrier);
void clear_shared(Warp& w, uint32_t lanes, unsigned barrier);
void write_shared(Warp& w, uint32_t lanes, unsigned barrier, uint32_t named);
// A path of `lanes` parts in two: `taken`, and those that fall through.
void parted(Warp& w, uint32_t lanes, uint32_t taken);
// Lanes stop at a BSYNC; whether they wait is not known yet.
void come_to_barrier(Warp& w, uint32_t lanes, unsigned barrier);
// Lanes wait, end or yield: others of the warp may come to a BSYNC now.
void others_may_run(Warp& w, uint32_t lanes);
// Lanes yield: others of the warp do not wait for them at a BSYNC.
void yielded(Warp& w, uint32_t lanes);
// `lanes` go on together from where `path` waits, a BSYNC or a WARPSYNC.
void met(Warp& w, const Path& path, uint32_t lanes);
// Lanes that came one after the other waited for each other.
void together(Warp& w, uint32_t lanes);

// Executes an instruction (`execute`: where its guard holds) for a path of which lanes may be apart, or behind.
void execute_watched(Step& s, const Inst& i, const std::function<void()>& execute);
// Lanes that are apart have stopped: what they changed of what they read before, if it has not its old value again. Lanes that
// come later read something else there.
std::optional<UniformChange> lasting_change(const Step& s);
Fault apart_fault(const Warp& w, const UniformChange& change);

}  // namespace xtrace::replay::interp
