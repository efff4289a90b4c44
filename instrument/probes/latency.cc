// `latency`: a clock in front of an instruction, one behind it (issue to issue), and one when its results have arrived.
#include "instrument/points.h"

namespace xtrace::instrument {

Result<std::vector<PointPlan>> latency_points(const PointContext& c) {
  using Kind = wire::Value::Kind;
  std::vector<PointPlan> points;
  for (InstIndex i = 0; i < c.code.insts.size(); ++i) {
    const sass::Effects& fx = c.code.insts[i].fx;
    if (!c.code.reachable[i] || !c.scope.covers(i)) continue;
    // Lanes leave and rejoin there: sync, branch and range are for these.
    if (fx.flow != sass::Flow::next || !fx.falls_through || fx.may_switch_path) continue;
    std::vector<wire::Value> values{{Kind::clock_before}, {Kind::clock}};
    if (sass::get_control(c.code.insts[i].raw).write_barrier < 6) values.push_back({Kind::clock_ready});
    points.push_back(point_at(i, true, std::move(values)));
  }
  number_sites(points);
  return points;
}

}  // namespace xtrace::instrument
