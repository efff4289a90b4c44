#include "replay/interp/paths.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "replay/interp/convergence.h"
#include "replay/interp/value/mbarrier.h"

namespace xtrace::replay::interp {
namespace {

uint32_t waiting(const Warp& w, PathState state, unsigned barrier) {
  uint32_t lanes = 0;
  for (const Path& p : w.paths)
    if (p.state == state && p.barrier == barrier) lanes |= p.mask;
  return lanes;
}

uint32_t needed(const Warp& w, const Path& p) {
  if (p.state == PathState::at_warpsync) return p.need;
  uint32_t need = 0;
  for (uint32_t m = p.mask; m != 0; m &= m - 1) need |= w.barriers[p.barrier][first_lane(m)];
  return need;
}

// Lanes that wait together with a path: for its lanes too. A function that saves a convergence barrier and uses
// it again waits for its own lanes there, while others wait in its caller.
uint32_t waiting_with(const Warp& w, const Path& path) {
  uint32_t lanes = 0;
  for (const Path& p : w.paths) {
    if (p.state != path.state || p.barrier != path.barrier) continue;
    for (uint32_t m = p.mask; m != 0; m &= m - 1) {
      const unsigned l = first_lane(m);
      const uint32_t for_whom = p.state == PathState::at_warpsync ? p.need : w.barriers[p.barrier][l];
      if (((for_whom | p.mask) & path.mask) == path.mask) lanes |= 1u << l;
    }
  }
  return lanes;
}

// The paths of `lanes` go on, joined where they meet at one instruction; the one with the lowest lane is
// next.
void go_on(Warp& w, uint32_t lanes) {
  for (size_t a = 0; a < w.paths.size(); ++a) {
    if ((w.paths[a].mask & lanes) == 0) continue;
    w.paths[a].state = PathState::ready;
    w.paths[a].need = 0;
    for (size_t b = w.paths.size() - 1; b > a; --b) {
      if ((w.paths[b].mask & lanes) == 0 || w.paths[b].at != w.paths[a].at) continue;
      w.paths[a].mask |= w.paths[b].mask;
      w.paths.erase(w.paths.begin() + static_cast<std::ptrdiff_t>(b));
    }
  }
  for (size_t k = 0; k < w.paths.size(); ++k)
    if ((w.paths[k].mask >> first_lane(lanes) & 1) != 0) w.current = k;
}

// Whatever need not wait any more goes on.
void resolve(Warp& w) {
  for (bool again = true; again;) {
    again = false;
    for (size_t k = 0; k < w.paths.size(); ++k) {
      const Path& p = w.paths[k];
      if (p.state != PathState::at_convergence && p.state != PathState::at_warpsync) continue;
      const uint32_t need = needed(w, p) | p.mask, here = waiting_with(w, p);
      if ((need & w.live & ~here) != 0) continue;
      met(w, p, need & here);
      go_on(w, need & here);
      again = true;
      break;
    }
  }
}

// Lanes that wait at a BSYNC for others of which all wait at a WARPSYNC go on without them, and those do not wait there
// later: compilers let lanes go to a WARPSYNC.ALL without BREAK. [measured H200 2026-11-30: a random kernel ends that
// hangs otherwise, and the paths of others] The hardware does so at once; here the lanes wait until nothing else of the
// warp can go on, for they meet more often so.
bool pass_warpsync(Warp& w) {
  uint32_t away = 0;
  for (const Path& p : w.paths)
    if (p.state == PathState::at_warpsync) away |= p.mask;
  if (away == 0) return false;
  for (const Path& p : w.paths) {
    if (p.state != PathState::at_convergence) continue;
    const uint32_t need = needed(w, p) | p.mask, here = waiting_with(w, p), missing = need & w.live & ~here;
    if ((missing & ~away) != 0) continue;
    auto& participants = w.barriers[p.barrier];
    for (uint32_t m = missing; m != 0; m &= m - 1) participants[first_lane(m)] &= ~here;
    met(w, p, need & here);
    go_on(w, need & here);
    return true;
  }
  return false;
}

// Lanes of the current path stop in front of `at`; the rest of the path falls through.
void park(Step& s, uint32_t lanes, const Path& parked) {
  Path& p = current_path(*s.warp);
  p.mask &= ~lanes;
  if (p.mask == 0) {
    p = parked;
    s.next = Next::moved;
  } else {
    p.at += 1;
    s.warp->paths.push_back(parked);
    s.next = Next::moved;
  }
}

uint32_t live_lanes(const Cta& cta) {
  uint32_t n = 0;
  for (const Warp& w : cta.warps) n += static_cast<uint32_t>(std::popcount(w.live));
  return n;
}

void release_cta(Cta& cta, unsigned barrier) {
  uint64_t clock = 0;
  for (const Warp& w : cta.warps)
    if (waiting(w, PathState::at_cta_barrier, barrier) != 0) clock = std::max(clock, w.clock);
  for (Warp& w : cta.warps) {
    const uint32_t lanes = waiting(w, PathState::at_cta_barrier, barrier);
    if (lanes == 0) continue;
    w.clock = clock;
    w.reduced_count = cta.barriers[barrier].count;
    w.reduced = cta.barriers[barrier].reduced;
    go_on(w, lanes);
  }
  cta.barriers[barrier] = {};
}

void check_cta_barriers(Cta& cta) {
  for (unsigned b = 0; b < cta.barriers.size(); ++b) {
    const CtaBarrier& barrier = cta.barriers[b];
    if (barrier.arrived == 0) continue;
    if (barrier.arrived >= (barrier.expected != 0 ? barrier.expected : live_lanes(cta))) release_cta(cta, b);
  }
}

constexpr size_t warpgroup_warps = 4;
std::span<Warp> warpgroup_of(Cta& cta, size_t warp) {
  const size_t first = std::min(warp / warpgroup_warps * warpgroup_warps, cta.warps.size());
  return std::span(cta.warps).subspan(first, std::min(warpgroup_warps, cta.warps.size() - first));
}
void check_warpgroup(std::span<Warp> warps) {
  uint64_t clock = 0;
  for (const Warp& w : warps) {
    if (waiting(w, PathState::at_warpgroup, 0) != w.live) return;
    clock = std::max(clock, w.clock);
  }
  for (Warp& w : warps) {
    if (w.live == 0) continue;
    w.clock = clock;
    go_on(w, w.live);
  }
}

void check_cluster_barrier(Cta& cta) {
  Cluster* c = cta.cluster.get();
  if (c == nullptr || c->arrived == 0 || c->arrived < c->live) return;
  c->arrived = 0;
  ++c->phase;
}

}  // namespace

void branch(Step& s, uint32_t taken, uint32_t target) {
  Path& p = current_path(*s.warp);
  if (taken == 0) return;
  const bool back = target <= p.at;
  if (taken == p.mask) {
    p.at = target;
  } else {
    parted(*s.warp, p.mask, taken);
    p.mask &= ~taken;
    p.at += 1;
    s.warp->paths.push_back({taken, target, PathState::ready, 0, 0});
  }
  s.next = Next::moved;
  s.yield = back;
}

void branch_each(Step& s, uint32_t lanes, const uint32_t (&target)[lane_count]) {
  while (lanes != 0) {
    const uint32_t to = target[first_lane(lanes)];
    uint32_t same = 0;
    for (uint32_t m = lanes; m != 0; m &= m - 1)
      if (target[first_lane(m)] == to) same |= 1u << first_lane(m);
    lanes &= ~same;
    Path& p = current_path(*s.warp);
    if (same == p.mask) {
      s.yield |= to <= p.at;
      p.at = to;
      s.next = Next::moved;
      return;
    }
    s.warp->shared_barriers.first &= ~p.mask;
    p.mask &= ~same;
    s.warp->paths.push_back({same, to, PathState::ready, 0, 0});
  }
}

void exit_lanes(Step& s, uint32_t lanes) {
  Warp& w = *s.warp;
  if ((w.cluster_arrived & lanes) != 0)
    return s.fail(ErrorKind::unsupported,
                  "lanes that end between arriving at the cluster's barrier and waiting");
  if (s.cta->cluster) s.cta->cluster->live -= static_cast<uint32_t>(std::popcount(lanes & w.live));
  w.live &= ~lanes;
  Path& p = current_path(w);
  p.mask &= ~lanes;
  p.at += 1;
  s.next = Next::moved;
  if (p.mask == 0) {
    w.paths.erase(w.paths.begin() + static_cast<std::ptrdiff_t>(w.current));
    if (w.current >= w.paths.size()) w.current = 0;
    others_may_run(w, lanes);
  }
  resolve(w);
  check_cta_barriers(*s.cta);
  check_warpgroup(warpgroup_of(*s.cta, w.number));
  check_cluster_barrier(*s.cta);
}

void arrive_at_cluster(Step& s) {
  Cluster* cluster = s.cta->cluster.get();
  if (cluster == nullptr)
    return s.fail(ErrorKind::unsupported, "the barrier of a cluster, in a launch without clusters");
  Warp& w = *s.warp;
  if ((w.cluster_arrived & s.active) != 0)
    return s.fail(ErrorKind::device, "lanes that arrive twice at the cluster's barrier");
  w.cluster_arrived |= s.active;
  w.cluster_phase = cluster->phase;
  cluster->arrived += static_cast<uint32_t>(std::popcount(s.active));
  check_cluster_barrier(*s.cta);
}
void wait_for_cluster(Step& s) {
  Warp& w = *s.warp;
  if ((s.active & ~w.cluster_arrived) != 0)
    return s.fail(ErrorKind::device, "lanes that wait at the cluster's barrier without having arrived");
  w.cluster_arrived &= ~s.active;
  if (s.cta->cluster->phase == w.cluster_phase)
    park(s, s.active, {s.active, current_path(w).at + 1, PathState::at_cluster_barrier, 0, 0});
}
void wake_for_cluster(Cta& cta) {
  for (Warp& w : cta.warps)
    for (Path& p : w.paths)
      if (p.state == PathState::at_cluster_barrier && w.cluster_phase != cta.cluster->phase)
        p.state = PathState::ready;
}

void wait_trying(Step& s, PathState state, const Try& trying) {
  Path& p = current_path(*s.warp);
  p.at += 1;
  p.state = state;
  p.trying = trying;
  s.next = Next::moved;
  others_may_run(*s.warp, p.mask);
}

bool take_registers(Cta& cta, Warp& w, uint32_t registers) {
  if (registers > w.registers + cta.free_registers) return false;
  cta.free_registers += w.registers - registers;
  w.registers = registers;
  return true;
}

bool wake_trying(Cta& cta, bool give_up) {
  bool some = false;
  for (Warp& w : cta.warps)
    for (Path& p : w.paths) {
      bool came = false;
      if (p.state == PathState::at_mbarrier) {
        uint64_t state;
        std::memcpy(&state, cta.shared.data() + p.trying.what, sizeof state);
        came = value::parity(state) != p.trying.parity;
      } else if (p.state == PathState::at_register_pool) {
        came = take_registers(cta, w, p.trying.what);
      } else {
        continue;
      }
      if (!came && !give_up) continue;
      uint32_t& pred = w.preds[p.trying.pred];
      if (p.trying.pred != pt && p.trying.pred != upt)
        pred = came ? pred | p.trying.lanes : pred & ~p.trying.lanes;
      p.state = PathState::ready;
      w.clock = std::max(w.clock, cta.event_clock);
      some = true;
    }
  return some;
}

void join_barrier(Step& s, uint32_t lanes, unsigned barrier) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) s.warp->barriers[barrier][first_lane(m)] = lanes;
  join_shared(*s.warp, lanes, barrier);
}

void leave_barrier(Step& s, uint32_t lanes, unsigned barrier) {
  leave_shared(*s.warp, lanes, barrier);
  // Those that they would have met; lanes that meet there in another function are not theirs.
  auto& participants = s.warp->barriers[barrier];
  uint32_t met = lanes;
  for (uint32_t m = lanes; m != 0; m &= m - 1) met |= participants[first_lane(m)];
  for (; met != 0; met &= met - 1) participants[first_lane(met)] &= ~lanes;
  const uint32_t at = current_path(*s.warp).at, mask = current_path(*s.warp).mask;
  current_path(*s.warp).at = at + 1;
  s.next = Next::moved;
  resolve(*s.warp);
  // The path that leaves goes on first.
  for (size_t k = 0; k < s.warp->paths.size(); ++k)
    if ((s.warp->paths[k].mask & mask) != 0 && s.warp->paths[k].state == PathState::ready)
      s.warp->current = k;
}

void wait_barrier(Step& s, uint32_t lanes, unsigned barrier) {
  come_to_barrier(*s.warp, lanes, barrier);
  park(s, lanes,
       {lanes, current_path(*s.warp).at + 1, PathState::at_convergence, static_cast<uint8_t>(barrier), 0});
  resolve(*s.warp);
  if ((waiting(*s.warp, PathState::at_convergence, barrier) & lanes) != 0) others_may_run(*s.warp, lanes);
}

void wait_warpsync(Step& s, uint32_t lanes, uint32_t need) {
  park(s, lanes, {lanes, current_path(*s.warp).at + 1, PathState::at_warpsync, 0, need});
  resolve(*s.warp);
  if ((waiting(*s.warp, PathState::at_warpsync, 0) & lanes) != 0) others_may_run(*s.warp, lanes);
}

void wait_exclusively(Step& s, uint32_t lanes, const uint32_t* masks) {
  Warp& w = *s.warp;
  const Path whole = current_path(w);
  w.paths.erase(w.paths.begin() + static_cast<std::ptrdiff_t>(w.current));
  if (const uint32_t rest = whole.mask & ~lanes; rest != 0)
    w.paths.push_back({rest, whole.at + 1, PathState::ready, 0, 0});
  while (lanes != 0) {
    const uint32_t need = masks[first_lane(lanes)];
    uint32_t group = 0;
    for (uint32_t m = lanes; m != 0; m &= m - 1)
      if (masks[first_lane(m)] == need) group |= 1u << first_lane(m);
    lanes &= ~group;
    w.paths.push_back({group, whole.at + 1, PathState::at_warpsync, 0, need});
  }
  w.current = 0;
  s.next = Next::moved;
  resolve(w);
  others_may_run(w, w.live);
}

void cta_barrier(Step& s, uint32_t lanes, unsigned barrier, uint32_t threads, bool wait) {
  CtaBarrier& b = s.cta->barriers[barrier];
  // A warp counts whole, even when it never had 32 threads, against an explicit number of threads.
  const bool whole = lanes == s.warp->live && threads != 0;
  b.arrived += whole ? lane_count : static_cast<uint32_t>(std::popcount(lanes));
  b.expected = threads;
  if (wait)
    park(s, lanes,
         {lanes, current_path(*s.warp).at + 1, PathState::at_cta_barrier, static_cast<uint8_t>(barrier), 0});
  if (wait) others_may_run(*s.warp, lanes);
  check_cta_barriers(*s.cta);
}

void wait_for_warpgroup(Step& s, uint32_t lanes) {
  park(s, lanes, {lanes, current_path(*s.warp).at + 1, PathState::at_warpgroup, 0, 0});
  check_warpgroup(warpgroup_of(*s.cta, s.warp->number));
}

bool select_path(Warp& w, bool rotate) {
  const auto select = [&](size_t first) {
    const size_t n = w.paths.size();
    for (size_t k = first; k < n + first; ++k) {
      const size_t at = (w.current + k) % n;
      if (w.paths[at].state != PathState::ready) continue;
      w.current = at;
      return true;
    }
    return false;
  };
  return select(rotate ? 1 : 0) || (pass_warpsync(w) && select(0));
}

}  // namespace xtrace::replay::interp
