#include "trace/point_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "trace/aggregate.h"

namespace xtrace::trace {
namespace {

using Kind = wire::Value::Kind;
using Role = wire::Point::Role;

uint64_t popcount(uint32_t mask) { return static_cast<uint64_t>(std::popcount(mask)); }

}  // namespace

void ValueStats::add(uint64_t value) {
  ++samples;
  min = std::min(min, value);
  max = std::max(max, value);
  sum += value;
  if (const auto at = distinct.find(value); at != distinct.end())
    ++at->second;
  else if (distinct.size() < most_distinct)
    distinct.emplace(value, 1);
  else
    more = true;
}

void PointAnalysis::Open::clear() {
  begun.clear();
  lane.fill(-1);
}

PointAnalysis::PointAnalysis(const wire::AddressMap& map, std::vector<bool> barriers)
    : map_(map), barriers_(std::move(barriers)), points_(map.points.size()), blocks_(map.blocks.size()),
      counts_block_(map.blocks.size(), false), counter_of_(map.blocks.size(), ~0u) {
  uint32_t sites = 0;
  for (uint32_t k = 0; k < map.points.size(); ++k) {
    const wire::Point& p = map.points[k];
    points_[k].values.resize(p.values.size());
    sites = std::max(sites, p.site + 1);
    // Behind the last instruction of a block others may come out than went in.
    if (!p.is_present() || counts_block_[p.block] || p.is_behind(map.blocks[p.block])) continue;
    counts_block_[p.block] = true;
    counter_of_[p.block] = k;
  }
  barriers_.resize(sites, false);
  sites_.resize(sites);
  open_.resize(sites);
}

void PointAnalysis::impossible(std::string what) {
  if (impossible_++ == 0) first_ = std::move(what);
}

Status PointAnalysis::begin(const PointWarp& warp) {
  if (cta_ != warp.cta) close_cta();
  cta_ = warp.cta;
  warp_ = warp;
  for (Open& o : open_) o.clear();
  return {};
}

Status PointAnalysis::event(const PointEvent& e) {
  const wire::Point& point = map_.points[e.point];
  PointStats& stats = points_[e.point];
  ++stats.executions;
  stats.lanes += popcount(e.active);
  if (counter_of_[point.block] == e.point) {
    blocks_[point.block].warps += 1;
    blocks_[point.block].lanes += popcount(e.active);
  }
  ++checked_;
  if (e.active == 0) impossible(fmt::format("warp {}: no lane at {:#x}", warp_.warp, point.pc));
  size_t scalar = 0, column = 0;
  for (size_t k = 0; k < point.values.size(); ++k) {
    const wire::Value& v = point.values[k];
    if (v.is_column()) {
      const LaneValues& lanes = e.columns[column++];
      for (uint32_t m = e.active; m != 0; m &= m - 1) stats.values[k].add(lanes[static_cast<unsigned>(std::countr_zero(m))]);
      continue;
    }
    const uint64_t value = e.scalars[scalar++];
    if (v.kind == Kind::uniform) stats.values[k].add(value);
    if (v.kind == Kind::lanes) stats.values[k].add(popcount(static_cast<uint32_t>(value)));
  }
  branch(point, e);
  return passage(point, e);
}

// Lanes that go where the branch leads: all predicates of the point hold.
void PointAnalysis::branch(const wire::Point& point, const PointEvent& e) {
  SiteStats& s = sites_[point.site];
  if (point.after) {   // they came out behind a branch that is taken by whole warps
    s.not_taken += popcount(e.active);
    s.taken -= std::min(s.taken, popcount(e.active));
    return;
  }
  uint32_t taken = e.active;
  size_t scalar = 0, column = 0;
  std::map<uint64_t, uint32_t> targets;
  for (const wire::Value& v : point.values) {
    if (v.is_column()) {
      const LaneValues& lanes = e.columns[column++];
      if (v.kind != Kind::target) continue;
      for (uint32_t m = taken; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        targets[lanes[lane]] |= 1u << lane;
      }
      continue;
    }
    const uint64_t value = e.scalars[scalar++];
    if (v.kind == Kind::lanes) taken &= static_cast<uint32_t>(value);
  }
  ++s.executions;
  s.taken += popcount(taken);
  s.not_taken += popcount(e.active & ~taken);
  for (const auto& [pc, lanes] : targets)
    s.targets[static_cast<uint32_t>(pc)] += popcount(lanes);
  s.divergent += (taken != 0 && taken != e.active) || targets.size() > 1;
}

Status PointAnalysis::passage(const wire::Point& point, const PointEvent& e) {
  std::optional<uint64_t> first, clock, ready;
  std::optional<uint32_t> time;
  uint32_t lanes = e.active;
  size_t scalar = 0;
  for (const wire::Value& v : point.values) {
    if (v.is_column()) break;
    const uint64_t value = e.scalars[scalar++];
    if (v.kind == Kind::clock_before) first = value;
    if (v.kind == Kind::clock) clock = value;
    if (v.kind == Kind::clock_ready) ready = value;
    if (v.kind == Kind::time) time = static_cast<uint32_t>(value);
    if (v.kind == Kind::lanes) lanes &= static_cast<uint32_t>(value);
  }
  const std::optional<uint64_t> last = ready ? ready : clock;
  if (barriers_[point.site] && (first || point.role == Role::begin)) {
    auto& all = arrivals_[point.site];
    if (all.empty() || all.back().warp != warp_.warp_in_cta) all.push_back({warp_.warp_in_cta, {}});
    all.back().clocks.push_back(first ? *first : *clock);
  }
  if (first && last) {
    if (clock && ready) sites_[point.site].issue.add(*clock - std::min(*first, *clock));
    return interval(point, e.active, *first, *last, std::nullopt);
  }
  if (!last) return {};
  Open& open = open_[point.site];
  if (point.role == Role::begin) {
    const auto number = static_cast<int32_t>(open.begun.size());
    bool any = false;
    for (uint32_t m = lanes; m != 0; m &= m - 1) {
      int32_t& lane = open.lane[static_cast<unsigned>(std::countr_zero(m))];
      // Whoever is inside already has not come in here.
      if (lane >= 0) continue;
      lane = number;
      any = true;
    }
    if (any) open.begun.push_back({*last, time.value_or(0)});
  } else if (point.role == Role::end) {
    std::map<int32_t, uint32_t> groups;
    for (uint32_t m = lanes; m != 0; m &= m - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(m));
      if (open.lane[lane] >= 0) groups[open.lane[lane]] |= 1u << lane;
      open.lane[lane] = -1;
    }
    for (const auto& [number, mask] : groups) {
      const Begun& b = open.begun[static_cast<size_t>(number)];
      std::optional<uint32_t> ns;
      if (time) ns = *time - b.time;
      XT_TRY_STATUS(interval(point, mask, b.clock, *last, ns));
    }
  }
  return {};
}

Status PointAnalysis::interval(const wire::Point& point, uint32_t mask, uint64_t begin, uint64_t end, std::optional<uint32_t> ns) {
  ++checked_;
  if (end < begin) {
    impossible(fmt::format("warp {}: the clock goes from {} back to {} at {:#x}", warp_.warp, begin, end, point.pc));
    return {};
  }
  SiteStats& s = sites_[point.site];
  s.cycles.add(end - begin);
  s.sum_cycles += static_cast<double>(end - begin);
  s.by_sm[warp_.sm].add(end - begin);
  if (ns) s.nanoseconds.add(*ns);
  return on_interval ? on_interval(warp_, {point.site, mask, begin, end}) : Status{};
}

Status PointAnalysis::end(const PointWarp& warp) {
  for (size_t s = 0; s < open_.size(); ++s) {
    std::set<int32_t> left(open_[s].lane.begin(), open_[s].lane.end());
    left.erase(-1);
    sites_[s].unmatched += left.size();
  }
  return on_end ? on_end(warp) : Status{};
}

void PointAnalysis::finish() { close_cta(); }

void PointAnalysis::close_cta() {
  for (auto& [site, warps] : arrivals_) {
    SiteStats& s = sites_[site];
    const size_t episodes = warps.front().clocks.size();
    if (std::any_of(warps.begin(), warps.end(), [&](const Arrivals& a) { return a.clocks.size() != episodes; })) {
      ++s.irregular_ctas;
      continue;
    }
    for (size_t n = 0; n < episodes; ++n) {
      const auto by_clock = [n](const Arrivals& a, const Arrivals& b) { return a.clocks[n] < b.clocks[n]; };
      const auto [first, last] = std::minmax_element(warps.begin(), warps.end(), by_clock);
      s.skew.add(last->clocks[n] - first->clocks[n]);
      ++s.last[last->warp];
    }
  }
  arrivals_.clear();
}

}  // namespace xtrace::trace
