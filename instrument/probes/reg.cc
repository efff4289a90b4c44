// `reg` and `custom`: values at chosen points, as somebody wrote them down (Asked).
#include "instrument/arrivals.h"
#include "instrument/points.h"
#include "instrument/sass/access.h"

namespace xtrace::instrument {
namespace {

using Kind = wire::Value::Kind;

// A register that no instruction mentions holds nothing.
Status check_used(const Code& code, const std::vector<wire::Value>& values) {
  sass::RegEffects used;
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    if (!code.reachable[i]) continue;
    for (const sass::RegEffects* e : {&code.insts[i].fx.use, &code.insts[i].fx.def}) {
      used.gpr |= e->gpr;
      used.ur |= e->ur;
      used.pred |= e->pred;
    }
  }
  for (const wire::Value& v : values) {
    if (v.kind == Kind::vector && !used.gpr.test(v.index))
      return unsupported("no instruction of kernel {} mentions R{}", code.kernel, v.index);
    if (v.kind == Kind::uniform && !used.ur.test(v.index))
      return unsupported("no instruction of kernel {} mentions UR{}", code.kernel, v.index);
    if (v.kind == Kind::lanes && !(used.pred >> v.index & 1))
      return unsupported("no instruction of kernel {} mentions P{}", code.kernel, v.index);
  }
  return {};
}

// A register whose value nobody reads any more may be lent to a probe: it is recorded where it is live, and where it is known
// to have arrived.
std::vector<wire::Value> known(const PointContext& c, const Arrivals& arrivals, InstIndex i, bool behind,
                               const std::vector<wire::Value>& values) {
  const LiveSet& live = c.liveness.before(i + behind);
  std::vector<wire::Value> out;
  for (const wire::Value& v : values) {
    using File = Arrivals::File;
    const File file = v.kind == Kind::uniform ? File::uniform : v.kind == Kind::lanes ? File::predicate : File::vector;
    const bool reg = v.kind == Kind::vector || v.kind == Kind::uniform || v.kind == Kind::lanes;
    const bool dead = (v.kind == Kind::vector && !live.gpr.test(v.index)) || (v.kind == Kind::uniform && !live.ur.test(v.index)) ||
                      (v.kind == Kind::lanes && !(live.pred >> v.index & 1));
    if (!dead && !(reg && arrivals.needs(i, behind, file, v.index).never)) out.push_back(v);
  }
  return out;
}

// The vector registers that an access to memory takes its data from, or that it puts them into; none where no lane has any (bulk copies).
std::vector<wire::Value> data_of(const Code& code, InstIndex i, bool behind) {
  const auto found = sass::accesses(*code.arch, code.insts[i].raw);
  const auto* all = std::get_if<std::vector<sass::Access>>(&found);
  if (all == nullptr || all->empty() || all->front().form != sass::Access::Form::lanes) return {};
  auto registers = behind ? code.insts[i].fx.def.gpr : code.insts[i].fx.use.gpr;
  if (!behind)
    for (const sass::Access& a : *all)
      for (uint8_t r : {a.low, a.high})
        if (r != sass::Access::none) registers.reset(r);
  std::vector<wire::Value> out;
  for (uint32_t r = 0; r < sass::Access::none; ++r)
    if (registers.test(r)) out.push_back({Kind::vector, static_cast<uint8_t>(r)});
  return out;
}

// What was asked for by name, and the data that are not among it.
std::vector<wire::Value> with_data(const std::vector<wire::Value>& named, bool data, const Code& code, InstIndex i, bool behind) {
  std::vector<wire::Value> values = named;
  for (const wire::Value& v : data ? data_of(code, i, behind) : std::vector<wire::Value>())
    if (std::find(named.begin(), named.end(), v) == named.end()) values.push_back(v);
  return values;
}

Result<std::vector<PointPlan>> points_of(const PointContext& c, const std::vector<Rule>& rules) {
  std::vector<PointPlan> points;
  const Arrivals arrivals(c.code);
  for (const Rule& rule : rules) {
    XT_TRY_STATUS(check_used(c.code, rule.before));
    XT_TRY_STATUS(check_used(c.code, rule.behind));
    for (InstIndex i = 0; i < c.code.insts.size(); ++i) {
      if (!c.code.reachable[i] || !c.scope.covers(i) || (!rule.places.empty() && !rule.places[i])) continue;
      std::vector<wire::Value> before = known(c, arrivals, i, false, with_data(rule.before, rule.data_before, c.code, i, false));
      if (!before.empty()) points.push_back(point_at(i, false, std::move(before)));
      if (rule.behind.empty() && !rule.data_behind) continue;
      if (!c.code.insts[i].fx.falls_through) {
        if (rule.behind.empty()) continue;
        return unsupported("nothing is executed behind {}", where(c.code, i));
      }
      std::vector<wire::Value> behind = known(c, arrivals, i, true, with_data(rule.behind, rule.data_behind, c.code, i, true));
      if (!behind.empty()) points.push_back(point_at(i, true, std::move(behind)));
    }
  }
  number_sites(points);
  return points;
}

}  // namespace

Result<std::vector<PointPlan>> reg_points(const PointContext& c) {
  if (c.scope.asked.reg.empty()) return with_hint(unsupported("reg was told no registers"), "add --regs R4,UR6,P0");
  return points_of(c, c.scope.asked.reg);
}

Result<std::vector<PointPlan>> custom_points(const PointContext& c) {
  if (c.scope.asked.custom.empty())
    return with_hint(unsupported("custom was told nothing"), "add --custom \"at op:LDG record clock, R4\"");
  return points_of(c, c.scope.asked.custom);
}

}  // namespace xtrace::instrument
