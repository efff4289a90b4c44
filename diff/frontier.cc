#include "diff/frontier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace xtrace::diff {
namespace {

std::string name_of_point(const ReplayReport& r, const FrontierPoint& p) {
  const ConfigReport& c = r.configs[p.config];
  return c.probe + " " + c.sample;
}

}  // namespace

std::vector<FrontierPoint> frontier(const ReplayReport& report, double budget) {
  std::vector<FrontierPoint> points;
  for (size_t i = 0; i < report.configs.size(); ++i) {
    const ConfigReport& c = report.configs[i];
    if (!c.refused.empty() || !c.semantics || !c.timing || !c.timing->measured || c.events == 0) continue;
    FrontierPoint p;
    p.config = i;
    p.detail = c.events;
    p.ratio = c.timing->ratio;
    p.interval = c.timing->interval;
    // A dense trace is not trusted for its intervals; what is asked here is whether the kernel kept its time.
    TimingEvidence whole = *c.timing;
    whole.dense = false;
    p.trusted = c.judgement.overall == Verdict::trusted && judge(*c.semantics, whole, c.space, budget).timing == Verdict::trusted;
    points.push_back(p);
  }
  std::stable_sort(points.begin(), points.end(), [](auto& a, auto& b) { return a.detail < b.detail; });
  for (FrontierPoint& p : points)
    p.on_frontier = std::none_of(points.begin(), points.end(), [&](const FrontierPoint& other) {
      return (other.detail > p.detail && other.ratio <= p.ratio) || (other.detail == p.detail && other.ratio < p.ratio);
    });
  return points;
}

const FrontierPoint* richest(const std::vector<FrontierPoint>& points) {
  const auto last = std::find_if(points.rbegin(), points.rend(), [](const FrontierPoint& p) { return p.trusted; });
  return last == points.rend() ? nullptr : &*last;
}

std::string frontier_text(const ReplayReport& report, const std::vector<FrontierPoint>& points, double budget) {
  const FrontierPoint* best = richest(points);
  std::string out = fmt::format("  detail against disturbance, budget {:.3f} (* on the frontier, > the richest that is trusted)\n", budget);
  for (const FrontierPoint& p : points)
    out += fmt::format("  {} {:<18} {:>12} events  {:.4f} [{:.4f} {:.4f}]  {}\n", &p == best ? '>' : p.on_frontier ? '*' : ' ',
                       name_of_point(report, p), p.detail, p.ratio, p.interval.low, p.interval.high,
                       p.trusted ? "trusted" : "not within the budget, or not trusted");
  if (best == nullptr) out += "  no configuration is trusted within the budget\n";
  return out;
}

std::string frontier_json(const ReplayReport& report, const std::vector<FrontierPoint>& points, double budget) {
  using Json = nlohmann::ordered_json;
  const FrontierPoint* best = richest(points);
  Json o{{"schema", "xtrace-frontier"}, {"schema_version", 1}, {"launch", report.launch}, {"kernel", report.kernel}, {"budget", budget}};
  o["richest"] = best == nullptr ? Json(nullptr) : Json(name_of_point(report, *best));
  o["points"] = Json::array();
  for (const FrontierPoint& p : points) {
    const auto bound = [](double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); };
    const ConfigReport& c = report.configs[p.config];
    o["points"].push_back({{"probe", c.probe},
                           {"sample", c.sample},
                           {"events", p.detail},
                           {"ratio", p.ratio},
                           {"ratio_low", bound(p.interval.low)},
                           {"ratio_high", bound(p.interval.high)},
                           {"trusted", p.trusted},
                           {"on_frontier", p.on_frontier}});
  }
  return json_text(o, 1);
}

std::string frontier_svg(const ReplayReport& report, const std::vector<FrontierPoint>& points, double budget) {
  constexpr double width = 720, height = 420, left = 70, right = 30, top = 40, bottom = 60;
  double least = 1e300, most = 1, low = 1, high = budget;
  for (const FrontierPoint& p : points) {
    least = std::min(least, static_cast<double>(p.detail));
    most = std::max(most, static_cast<double>(p.detail));
    const bool bar = p.interval.finite();
    low = std::min(low, bar ? p.interval.low : p.ratio);
    high = std::max(high, bar ? p.interval.high : p.ratio);
  }
  least = std::min(least, most);
  const double margin = 0.05 * (high - low) + 0.002;
  low -= margin;
  high += margin;
  const double decades = std::max(0.5, std::log10(most / least));
  const auto x = [&](double detail) { return left + 20 + (width - left - right - 90) * std::log10(detail / least) / decades; };
  const auto y = [&](double ratio) { return height - bottom - (height - top - bottom) * (ratio - low) / (high - low); };
  std::string s = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"22\">launch {3}: events of one launch against time, ratio to the clean kernel</text>\n"
      "<path d=\"M{2} {4}V{5}H{6}\" fill=\"none\" stroke=\"black\"/>\n",
      width, height, left, report.launch, top, height - bottom, width - right);
  for (int k = 0; k <= 4; ++k) {
    const double r = low + (high - low) * k / 4;
    s += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3f}</text>\n", left - 6, y(r) + 4, r);
  }
  s += fmt::format("<path d=\"M{} {:.1f}H{}\" stroke=\"#c00\" stroke-dasharray=\"6 4\"/>\n", left, y(budget), width - right);
  s += fmt::format("<text x=\"{}\" y=\"{:.1f}\" fill=\"#c00\" text-anchor=\"end\">budget</text>\n", width - right, y(budget) - 5);
  const FrontierPoint* best = richest(points);
  for (const FrontierPoint& p : points) {
    const double px = x(static_cast<double>(p.detail));
    const char* colour = p.trusted ? "#087" : "#888";
    if (p.interval.finite())
      s += fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"{}\"/>\n", px, y(p.interval.low), y(p.interval.high), colour);
    s += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", px, y(p.ratio), &p == best ? 6 : 4, colour);
    s += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", px + 8, y(p.ratio) - 6, name_of_point(report, p));
  }
  s += fmt::format("<text x=\"{}\" y=\"{}\">events, {:.0f} to {:.0f}, logarithmic</text>\n</svg>\n", left, height - 20, least, most);
  return s;
}

}  // namespace xtrace::diff
