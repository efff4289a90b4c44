// `range`: clocks where lanes enter a region and where they leave it. A point stands on a way in or out: behind the
// instruction that falls through, or in front of the instruction where it leads. Others may pass there as well: lanes that
// are inside already and enter again, or that are outside and leave, are left out by whoever reads the records.
#include <algorithm>

#include "instrument/points.h"

namespace xtrace::instrument {
namespace {

using Kind = wire::Value::Kind;
using Role = wire::Point::Role;

constexpr BitRange guard_field = bits(14, 12);
constexpr unsigned guard_not = 15;
constexpr uint8_t always = 7;

class Region {
 public:
  Region(const PointContext& c, const Rule& rule) : c_(c), inside_(c.code.insts.size(), false), from_(c.code.insts.size()) {
    for (InstIndex i = 0; i < inside_.size(); ++i)
      inside_[i] = c.code.reachable[i] && (rule.places.empty() || rule.places[i]);
    fill_blocks();
    fill_functions();
    for (InstIndex i = 0; i < inside_.size(); ++i)
      if (c.code.reachable[i])
        for (InstIndex s : c.code.successors(i)) from_[s].push_back(i);
  }

  void add(uint32_t site, std::vector<PointPlan>& points) {
    site_ = site;
    for (InstIndex i = 0; i < inside_.size(); ++i) {
      if (!c_.code.reachable[i]) continue;
      crossing(i, inside_[i], points);
      if (inside_[i] && c_.code.insts[i].fx.flow == sass::Flow::exit) leaves_by_exit(i, points);
    }
  }

 private:
  // The compiler mixes instructions of neighbouring lines: a block belongs to the region from its first instruction to its last.
  void fill_blocks() {
    for (const ProbeBlock& b : c_.blocks.blocks) {
      InstIndex first = b.last() + 1, last = 0;
      for (InstIndex i = b.first; i <= b.last(); ++i)
        if (inside_[i]) first = std::min(first, i), last = i;
      for (InstIndex i = first; i <= last; ++i) inside_[i] = true;
    }
  }
  // What is called from the region alone is part of it.
  void fill_functions() {
    for (bool more = true; more;) {
      more = false;
      for (const Function& f : c_.code.functions) {
        if (f.calls_to_it.empty() || inside_[f.entry]) continue;
        if (!std::all_of(f.calls_to_it.begin(), f.calls_to_it.end(), [&](InstIndex i) { return bool{inside_[i]}; })) continue;
        std::vector<InstIndex> work{f.entry};
        while (!work.empty()) {
          const InstIndex i = work.back();
          work.pop_back();
          if (inside_[i]) continue;
          inside_[i] = more = true;
          if (c_.code.insts[i].fx.flow == sass::Flow::ret) continue;
          for (InstIndex s : c_.code.successors(i)) work.push_back(s);
        }
      }
    }
  }

  void add_point(InstIndex i, bool after, Role role, std::vector<wire::Value> values, std::vector<PointPlan>& points) {
    points.push_back(point_at(i, after, std::move(values)));
    points.back().point.role = role;
    points.back().point.site = site_;
  }

  // A point for those that come to i from the other side.
  void crossing(InstIndex i, bool enters, std::vector<PointPlan>& points) {
    const Role role = enters ? Role::begin : Role::end;
    const auto& from = from_[i];
    const auto other = [&](InstIndex p) { return inside_[p] != inside_[i]; };
    const bool entry = i == 0 && enters;
    if (!entry && std::none_of(from.begin(), from.end(), other)) return;
    const std::vector<wire::Value> values{{Kind::clock}, {Kind::time}};
    const bool all = std::all_of(from.begin(), from.end(), other);
    // Only by falling through: those that jump here pass by.
    const bool falls = !entry && i > 0 && std::all_of(from.begin(), from.end(), [&](InstIndex p) { return !other(p) || p == i - 1; });
    const sass::Effects* before = i > 0 ? &c_.code.insts[i - 1].fx : nullptr;
    if (!all && falls && before->falls_through && !(before->target && *before->target == c_.code.pc(i)))
      add_point(i - 1, true, role, values, points);
    else
      add_point(i, false, role, values, points);
  }

  void leaves_by_exit(InstIndex i, std::vector<PointPlan>& points) {
    const auto guard = static_cast<uint8_t>(get_bits(c_.code.insts[i].raw, guard_field));
    std::vector<wire::Value> values{{Kind::clock}, {Kind::time}};
    if (guard != always) values.push_back({Kind::lanes, guard, get_bits(c_.code.insts[i].raw, bit(guard_not)) != 0});
    add_point(i, false, Role::end, std::move(values), points);
  }

  const PointContext& c_;
  std::vector<bool> inside_;
  std::vector<std::vector<InstIndex>> from_;
  uint32_t site_ = 0;
};

}  // namespace

Result<std::vector<PointPlan>> range_points(const PointContext& c) {
  std::vector<PointPlan> points;
  std::vector<Rule> rules = c.scope.asked.range;
  if (rules.empty() && !c.scope.places.empty()) rules.push_back({c.scope.places, {}, {}, "at"});
  if (rules.empty())
    return with_hint(unsupported("range was told no region"), "add --range \"line:sgemm.cu:15-20\", or --at");
  for (uint32_t r = 0; r < rules.size(); ++r) Region(c, rules[r]).add(r, points);
  for (PointPlan& p : points) p.site_at = 0;   // a region is whole or not there
  return points;
}

}  // namespace xtrace::instrument
