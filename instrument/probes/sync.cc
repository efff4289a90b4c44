// `sync`: when lanes come to a barrier or a wait, and when they go on.
#include <algorithm>
#include <array>

#include "instrument/points.h"

namespace xtrace::instrument {
namespace {

using Kind = wire::Value::Kind;

// Everything a warp waits at, or arrives at for others.
bool synchronises(std::string_view mnemonic) {
  constexpr std::array<std::string_view, 10> names = {"BAR",      "SYNCS.PHASECHK", "SYNCS.ARRIVE", "WARPSYNC",  "BSYNC",
                                                      "DEPBAR",   "UCGABAR_ARV",    "UCGABAR_WAIT", "WARPGROUP", "MEMBAR"};
  return std::find(names.begin(), names.end(), mnemonic) != names.end();
}

}  // namespace

Result<std::vector<PointPlan>> sync_points(const PointContext& c) {
  std::vector<PointPlan> points;
  uint32_t site = 0;
  for (InstIndex i = 0; i < c.code.insts.size(); ++i) {
    const CodeInst& inst = c.code.insts[i];
    if (!c.code.reachable[i] || !c.scope.covers(i) || !inst.fx.falls_through) continue;
    if (!synchronises(inst.fx.mnemonic)) continue;
    // Where the answer comes by scoreboard, the wait is over when it is there.
    const bool answers = sass::get_control(inst.raw).write_barrier < 6;
    add_passage(c, i, site++, {{answers ? Kind::clock_ready : Kind::clock}}, points);
  }
  return points;
}

}  // namespace xtrace::instrument
