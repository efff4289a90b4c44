// `branch`: which lanes take a conditional branch. The predicates say it in front of the branch; where a uniform register or
// predicate decides, for the whole warp, whoever comes out behind it has not taken it. Of an indirect branch the target
// register goes out.
#include "instrument/points.h"

namespace xtrace::instrument {
namespace {

using Kind = wire::Value::Kind;

constexpr BitRange guard_field = bits(14, 12), operand_field = bits(89, 87), target_register = bits(31, 24);
constexpr unsigned guard_not = 15, operand_not = 90;
constexpr uint8_t always = 7;

// The predicate in a field, when it can keep lanes back. `never`: it keeps all of them back.
void add_predicate(const sass::RawInst& w, BitRange field, unsigned negation, std::vector<wire::Value>& values, bool& never) {
  const auto p = static_cast<uint8_t>(get_bits(w, field));
  const bool negated = get_bits(w, bit(negation)) != 0;
  if (p != always) values.push_back({Kind::lanes, p, negated});
  never |= p == always && negated;
}

}  // namespace

Result<std::vector<PointPlan>> branch_points(const PointContext& c) {
  using sass::Flow;
  std::vector<PointPlan> points;
  uint32_t site = 0;
  for (InstIndex i = 0; i < c.code.insts.size(); ++i) {
    const sass::Effects& fx = c.code.insts[i].fx;
    if (!c.code.reachable[i] || !c.scope.covers(i) || fx.flow == Flow::next || fx.flow == Flow::kill) continue;
    const sass::RawInst& w = c.code.insts[i].raw;
    std::vector<wire::Value> values;
    bool never = false;
    add_predicate(w, guard_field, guard_not, values, never);
    add_predicate(w, operand_field, operand_not, values, never);
    if (fx.flow == Flow::branch_indirect && fx.use.gpr.any())
      values.push_back({Kind::target, static_cast<uint8_t>(get_bits(w, target_register))});
    const bool by_warp = fx.flow == Flow::branch && (fx.use.upred != 0 || fx.use.ur.any());
    if (never || (values.empty() && !by_warp)) continue;
    points.push_back(point_at(i, false, std::move(values)));
    points.back().point.site = site;
    if (by_warp) {
      points.back().point.role = wire::Point::Role::begin;
      points.push_back(point_at(i, true, {}));
      points.back().point.role = wire::Point::Role::end;
      points.back().point.site = site;
    }
    ++site;
  }
  return points;
}

}  // namespace xtrace::instrument
