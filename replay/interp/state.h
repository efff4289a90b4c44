// Execution state of warps and CTAs.
//
// A warp is a set of paths: groups of lanes that execute together at one pc. A branch that its lanes do not
// agree on splits a path in two; BSYNC and WARPSYNC join paths again. Nothing else joins them.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/types.h"
#include "replay/interp/inst.h"

namespace xtrace::replay::interp {

enum class PathState : uint8_t {
  ready,
  at_convergence,
  at_warpsync,
  at_cta_barrier,
  at_warpgroup,
  at_cluster_barrier,
  at_mbarrier,       // SYNCS.PHASECHK.TRYWAIT
  at_register_pool,  // USETMAXREG.TRY_ALLOC
};

// What a path tries that others have to make possible; a predicate then tells whether it came about.
struct Try {
  uint32_t lanes = 0;   // whose predicate it is
  uint32_t what = 0;    // the barrier's offset in shared memory; registers a thread
  bool parity = false;  // of the phase that must be over
  uint8_t pred = pt;
};

struct Path {
  uint32_t mask = 0;
  uint32_t at = 0;  // index of the next instruction; of one that waits: where it goes on
  PathState state = PathState::ready;
  uint8_t barrier = 0;  // convergence barrier B0..B15, or CTA barrier 0..15
  uint32_t need = 0;    // lanes that must arrive before it goes on
  Try trying = {};
};

// Uniform registers UR0..UR62, and behind them UP0..UP6.
constexpr unsigned uniform_registers = 63, uniform_predicates = 7;
using UniformSet = std::bitset<uniform_registers + uniform_predicates>;
struct UniformChange {
  uint32_t which = 0, from = 0;
  uint32_t by = 0;  // index of the instruction
};

// B0..B15 as the hardware has them, one each for the warp, beside the masks that lanes have here (docs/isa.md, How lanes part
// and meet). Lanes that come to a BSYNC while others of the warp use its barrier for something else do not wait there, and nobody
// waits there for lanes that yield.
struct WarpBarriers {
  std::array<uint32_t, 16> held{};        // lanes that the barrier names
  std::array<uint32_t, 16> expecting{};   // lanes that joined it and did not meet there yet
  std::array<uint32_t, 16> lost{};        // of these: those that it did not name when others may have run, or that yielded
  std::array<uint32_t, 16> saved_lost{};  // the same, of a barrier that its lanes have saved and use again
  std::array<uint32_t, 16> safe{};        // that wait there, and did on hardware before others could run
  // Lanes that the hardware lets go first where their path parts, and that did not wait since: they do so before others do anything.
  uint32_t first = 0;
  // Lanes that met at a barrier that some had lost: until a WARPSYNC, or a BSYNC that they are all sure of, the hardware may
  // let them come one after the other.
  uint32_t apart = 0;
  // Lanes that yielded: others may have gone on from the BSYNC at which they meet here.
  uint32_t behind = 0;
  uint32_t watched = 0;                    // both
  UniformSet read, written;                // by lanes that are apart, the first time
  UniformSet read_behind, written_behind;  // by lanes that are behind; written since they yielded
  std::vector<UniformChange> changes;      // by lanes that are apart, of what was read before
  bool stopped = false;                    // ... and now they wait, end or yield: lanes that come later see them
  uint32_t met_at = 0;                     // index of the BSYNC
  uint8_t met_by = 0;                      // its barrier
  bool met_yielded = false;
};

// Rows of a warp's register file: R0..R(n-1), a row of zeros (RZ, URZ), a row that takes what is written to
// them, UR0..UR62, and two that constants through a handle come into.
struct RowLayout {
  uint32_t gprs = 0;
  int32_t zero() const { return static_cast<int32_t>(gprs); }
  int32_t sink() const { return static_cast<int32_t>(gprs) + 1; }
  int32_t ur(unsigned u) const { return static_cast<int32_t>(gprs + 2 + u); }
  int32_t handle(unsigned word) const { return static_cast<int32_t>(gprs + 2 + 63 + word); }
  uint32_t rows() const { return gprs + 2 + 63 + 2; }
};

struct Warp {
  std::vector<Row> rows;
  std::array<uint32_t, 16> preds{};  // P0..P6, PT, UP0..UP6, UPT as lane masks; uniform ones 0 or ~0
  std::array<std::array<uint32_t, lane_count>, 16>
      barriers{};  // B0..B15 as each lane sees them: participants
  WarpBarriers shared_barriers;
  std::vector<Path> paths;
  size_t current = 0;
  uint32_t back_branches = 0;  // taken while diverged: when another path's turn comes
  uint32_t live = 0;           // lanes that have not exited
  uint64_t clock = 0;
  std::array<uint64_t, 6> scoreboard{};  // clock at which it reads zero
  std::vector<std::byte> local;          // lane l at l * local bytes
  uint32_t number = 0;                   // in the CTA
  uint32_t global_number = 0;            // in the launch
  // What the last BAR.RED gave, for B2R.RESULT: lanes whose predicate holds, and lanes that took part.
  uint32_t reduced_count = 0, reduced = 0;
  uint32_t reduction = 3;  // POPC AND OR; 3: there was none
  // Lanes that arrived at the barrier of the cluster and have not waited, and the phase they arrived in.
  uint32_t cluster_arrived = 0;
  uint64_t cluster_phase = 0;
  uint32_t registers = 0;  // that a thread holds, in kernels that change it (Program::changes_registers)

  bool done() const { return live == 0; }
};

struct CtaBarrier {
  uint32_t arrived = 0;   // lanes
  uint32_t expected = 0;  // lanes; 0: all that live
  uint32_t count = 0;     // BAR.RED: lanes whose predicate holds
  uint32_t reduced = 0;   // BAR.RED: lanes that took part
};

// CTAs that run together and reach each other's shared memory.
struct Cluster {
  std::vector<std::span<std::byte>> shared;  // by rank; empty when the CTA has ended
  uint32_t live = 0;                         // lanes that have not exited
  uint32_t arrived = 0;                      // lanes, in this phase
  uint64_t phase = 0;                        // of the barrier: how often it was complete
};

struct Cta {
  Dim3 index;
  uint32_t linear = 0, sm = 0;
  std::vector<Warp> warps;
  std::vector<std::byte> shared;
  std::array<CtaBarrier, 16> barriers{};
  uint64_t start_clock = 0;
  std::shared_ptr<Cluster> cluster;  // nullptr: the launch has none
  uint32_t rank = 0;                 // in the cluster
  uint64_t event_clock = 0;          // when a barrier in shared memory changed last
  uint32_t free_registers = 0;       // a thread, that warps have given away

  bool done() const {
    for (const Warp& w : warps)
      if (!w.done()) return false;
    return true;
  }
};

}  // namespace xtrace::replay::interp
