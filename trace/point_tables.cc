#include "trace/point_tables.h"

#include <fmt/format.h>

#include <algorithm>

namespace xtrace::trace {
namespace {

using Kind = wire::Value::Kind;
using Row = std::vector<Cell>;

// The point that stands for a site: its first.
const wire::Point* point_of(const wire::AddressMap& map, uint32_t site) {
  for (const wire::Point& p : map.points)
    if (p.site == site) return &p;
  return nullptr;
}

uint64_t executions_of(const PointTableSources& from, uint32_t site) {
  for (size_t k = 0; k < from.map->points.size(); ++k)
    if (from.map->points[k].site == site) return from.analysis->points()[k].executions;
  return 0;
}

// f(site, its point, its statistics) of every site that was executed.
template <typename F>
void each_site(const PointTableSources& from, F f) {
  std::vector<uint32_t> order(from.analysis->sites().size());
  for (uint32_t s = 0; s < order.size(); ++s) order[s] = s;
  std::vector<uint32_t> pcs;
  for (uint32_t s : order) {
    const wire::Point* p = point_of(*from.map, s);
    pcs.push_back(p == nullptr ? 0 : p->pc);
  }
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return pcs[a] < pcs[b]; });
  for (uint32_t s : order)
    if (const wire::Point* p = point_of(*from.map, s); p != nullptr && executions_of(from, s) != 0) f(s, *p, from.analysis->sites()[s]);
}

Cell median(const Distribution& d) { return d.count() == 0 ? Cell{} : Cell{d.median()}; }
Cell quantile(const Distribution& d, double q) { return d.count() == 0 ? Cell{} : Cell{d.quantile(q)}; }
Cell largest(const Distribution& d) { return d.count() == 0 ? Cell{} : Cell{d.max()}; }

}  // namespace

std::string name_of(const wire::Value& v) {
  switch (v.kind) {
    case Kind::clock: return "clock";
    case Kind::clock_before: return "clock_before";
    case Kind::clock_ready: return "clock_ready";
    case Kind::time: return "time";
    case Kind::lanes: return fmt::format("{}P{}", v.negated ? "!" : "", v.index);
    case Kind::uniform: return fmt::format("UR{}", v.index);
    case Kind::vector: return fmt::format("R{}", v.index);
    case Kind::target: return "target";
  }
  return {};
}

Sheet branch_table(const PointTableSources& from) {
  Sheet sheet{{"pc", "block", "executions", "taken_lanes", "not_taken_lanes", "divergent", "targets", "source", "sass"}, {}};
  each_site(from, [&](uint32_t, const wire::Point& p, const SiteStats& s) {
    std::string targets;
    for (const auto& [pc, lanes] : s.targets) targets += fmt::format("{}{:#x}:{}", targets.empty() ? "" : " ", pc, lanes);
    sheet.rows.push_back({Hex{p.pc}, uint64_t{p.block}, s.executions, s.taken, s.not_taken, s.divergent,
                          targets.empty() ? Cell{} : Cell{targets}, from.source(p.pc), from.sass(p.pc)});
  });
  return sheet;
}

Sheet value_table(const PointTableSources& from) {
  constexpr size_t shown = 8;
  Sheet sheet{{"pc", "side", "value", "executions", "lanes", "min", "max", "distinct", "values", "source", "sass"}, {}};
  for (size_t k = 0; k < from.map->points.size(); ++k) {
    const wire::Point& p = from.map->points[k];
    const PointStats& stats = from.analysis->points()[k];
    if (stats.executions == 0) continue;
    for (size_t n = 0; n < p.values.size(); ++n) {
      const wire::Value& v = p.values[n];
      const ValueStats& s = stats.values[n];
      Row row{Hex{p.pc}, std::string(p.after ? "behind" : "before"), name_of(v), stats.executions, stats.lanes};
      if (s.samples == 0) {
        row.insert(row.end(), {Cell{}, Cell{}, Cell{}, Cell{}});
      } else {
        const auto number = [&](uint64_t x) { return v.kind == Kind::lanes ? Cell{x} : Cell{Hex{x}}; };
        std::string values;
        for (const auto& [value, samples] : s.distinct)
          if (s.distinct.size() <= shown) {
            values += fmt::format("{}{}:{}", values.empty() ? "" : " ", v.kind == Kind::lanes ? fmt::format("{}", value) : fmt::format("{:#x}", value), samples);
          }
        row.insert(row.end(), {number(s.min), number(s.max),
                               s.more ? Cell{fmt::format(">{}", ValueStats::most_distinct)} : Cell{uint64_t{s.distinct.size()}},
                               values.empty() ? Cell{} : Cell{values}});
      }
      row.insert(row.end(), {from.source(p.pc), from.sass(p.pc)});
      sheet.rows.push_back(std::move(row));
    }
  }
  return sheet;
}

Sheet sync_table(const PointTableSources& from) {
  Sheet sheet{{"pc", "block", "executions", "waits", "ungraded_sum", "ungraded_median", "ungraded_max", "episodes", "skew_median", "skew_max",
               "last_warp", "last_share", "source", "sass"}, {}};
  each_site(from, [&](uint32_t site, const wire::Point& p, const SiteStats& s) {
    Row row{Hex{p.pc}, uint64_t{p.block}, executions_of(from, site), s.cycles.count(), s.sum_cycles, median(s.cycles), largest(s.cycles)};
    if (s.skew.count() == 0) {
      row.insert(row.end(), {Cell{}, Cell{}, Cell{}, Cell{}, Cell{}});
    } else {
      const auto most = std::max_element(s.last.begin(), s.last.end(), [](auto& a, auto& b) { return a.second < b.second; });
      row.insert(row.end(), {s.skew.count(), median(s.skew), largest(s.skew), uint64_t{most->first},
                             static_cast<double>(most->second) * 100 / static_cast<double>(s.skew.count())});
    }
    row.insert(row.end(), {from.source(p.pc), from.sass(p.pc)});
    sheet.rows.push_back(std::move(row));
  });
  return sheet;
}

Sheet range_table(const PointTableSources& from) {
  Sheet sheet{{"region", "sm", "count", "unmatched", "median_cycles", "p95_cycles", "max_cycles", "median_ns", "p95_ns"}, {}};
  for (uint32_t site = 0; site < from.analysis->sites().size(); ++site) {
    const SiteStats& s = from.analysis->sites()[site];
    const std::string name = site < from.names.size() ? from.names[site] : fmt::format("{}", site);
    sheet.rows.push_back({name, std::string("all"), s.cycles.count(), s.unmatched, median(s.cycles), quantile(s.cycles, 0.95),
                          largest(s.cycles), median(s.nanoseconds), quantile(s.nanoseconds, 0.95)});
    for (const auto& [sm, cycles] : s.by_sm)
      sheet.rows.push_back({name, fmt::format("{}", sm), cycles.count(), Cell{}, median(cycles), quantile(cycles, 0.95),
                            largest(cycles), Cell{}, Cell{}});
  }
  return sheet;
}

Sheet latency_table(const PointTableSources& from) {
  Sheet sheet{{"pc", "block", "executions", "ungraded_issue_median", "ungraded_ready_median", "ungraded_ready_p95", "source", "sass"}, {}};
  each_site(from, [&](uint32_t site, const wire::Point& p, const SiteStats& s) {
    const bool answers = s.issue.count() != 0;   // else the only interval is from issue to issue
    sheet.rows.push_back({Hex{p.pc}, uint64_t{p.block}, executions_of(from, site), median(answers ? s.issue : s.cycles),
                          answers ? median(s.cycles) : Cell{}, answers ? quantile(s.cycles, 0.95) : Cell{}, from.source(p.pc),
                          from.sass(p.pc)});
  });
  return sheet;
}

}  // namespace xtrace::trace
