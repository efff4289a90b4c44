#include "trace/implied_points.h"

#include <map>
#include <tuple>

namespace xtrace::trace {
namespace {

struct Teller {
  uint32_t point = 0, at = 0;   // which of its scalars or columns
};

constexpr uint32_t nobody = ~0u;

// f(point, value, its number among the scalars or columns of its point, who tells it; null: nobody) of each value that is left out, and g(point,
// the point in front of it in its block, as far as it is there; `nobody`: none) of each point that is there and belongs to its block's executions.
template <typename F, typename G>
void each_told(const wire::AddressMap& map, F f, G g) {
  using Register = std::tuple<wire::Value::Kind, uint8_t, bool>;
  std::map<Register, Teller> tellers;
  uint32_t front = nobody;
  for (uint32_t n = 0; n < map.points.size(); ++n) {
    const wire::Point& p = map.points[n];
    if (n == 0 || p.block != map.points[n - 1].block || p.pc < map.points[n - 1].pc) {
      tellers.clear();
      front = nobody;
    }
    const bool belongs = p.is_present() && !p.is_behind(map.blocks[p.block]);
    if (belongs) g(n, front);
    PointShape shape;
    for (const wire::Value& v : p.values) {
      const uint32_t at = v.is_column() ? shape.columns++ : shape.scalars++;
      const auto teller = tellers.find({v.kind, v.index, v.negated});
      if (!v.is_recorded()) f(n, v, at, belongs && v.is_register() && teller != tellers.end() && teller->second.point != n ? &teller->second : nullptr);
      else if (belongs && v.is_register()) tellers[{v.kind, v.index, v.negated}] = {n, at};
    }
    if (belongs) front = n;
  }
}

}  // namespace

Status check_implied(const wire::AddressMap& map) {
  Status bad;
  std::vector<bool> follows(map.points.size(), false);
  each_told(
      map,
      [&](uint32_t n, const wire::Value&, uint32_t, const Teller* teller) {
        if (teller == nullptr) bad = bad_input("address map: point {} leaves out a value that no point in front of it in its block tells", n);
      },
      [&](uint32_t n, uint32_t front) { follows[n] = front != nobody; });
  for (uint32_t n = 0; n < map.points.size(); ++n) {
    const wire::Point& p = map.points[n];
    if (!p.implied) continue;
    bool left_out = follows[n] && p.record_bytes == 0;
    for (const wire::Value& v : p.values) left_out &= !v.is_recorded();
    if (!left_out) bad = bad_input("address map: point {} has no record, and points in front of it do not tell all of it", n);
  }
  return bad;
}

ImpliedPoints::ImpliedPoints(const wire::AddressMap& map) : points_(map.points.size()), kept_(map.points.size()) {
  uint32_t run = 0;
  for (uint32_t n = 0; n < map.points.size(); ++n) {
    points_[n].run = ++run;   // by itself, unless it belongs to its block
    points_[n].shape = shape_of(map.points[n]);
  }
  each_told(
      map,
      [&](uint32_t n, const wire::Value& v, uint32_t at, const Teller* teller) {
        points_[n].sources.push_back({teller->point, teller->at, at, v.is_column()});
        points_[teller->point].tells = true;
      },
      [&](uint32_t n, uint32_t front) {
        if (front == nobody) return;
        points_[n].run = points_[front].run;
        if (map.points[n].implied) points_[front].next = n;
      });
}

void ImpliedPoints::begin() {
  ++execution_;
  run_ = last_ = 0;
}

bool ImpliedPoints::complete(PointEvent& event) const {
  for (const Source& s : points_[event.point].sources) {
    const Kept& told = kept_[s.point];
    if (told.execution != execution_) return false;
    if (s.column) event.columns[s.to] = told.event.columns[s.from];
    else event.scalars[s.to] = told.event.scalars[s.from];
  }
  return true;
}

void ImpliedPoints::keep(const PointEvent& event) {
  if (!points_[event.point].tells) return;
  kept_[event.point].execution = execution_;
  kept_[event.point].event = event;
}

Result<bool> ImpliedPoints::visit(PointEvent& event, PointVisitor& visitor, uint64_t& visited) {
  const uint32_t run = points_[event.point].run;
  if (run != run_ || event.point <= last_) ++execution_;
  run_ = run;
  last_ = event.point;
  if (!complete(event)) return false;
  keep(event);
  XT_TRY_STATUS(visitor.event(event));
  ++visited;
  implied_.active = event.active;
  for (uint32_t n = points_[event.point].next; n != 0; n = points_[n].next) {
    implied_.point = last_ = n;
    implied_.scalars.assign(points_[n].shape.scalars, 0);
    implied_.columns.resize(points_[n].shape.columns);
    if (!complete(implied_)) return false;
    XT_TRY_STATUS(visitor.event(implied_));
    ++visited;
  }
  return true;
}

}  // namespace xtrace::trace
