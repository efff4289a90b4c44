#include "tools/xtrace/replay/search.h"

#include "base/file.h"
#include "diff/frontier.h"

namespace xtrace::cli {

Status choose_richest(diff::ReplayReport& report, const ReplayOptions& options, const std::string& stem) {
  const std::vector<diff::FrontierPoint> points = diff::frontier(report, options.budget);
  report.searched = true;
  if (const diff::FrontierPoint* best = diff::richest(points)) report.chosen = best->config;
  report.frontier_text = diff::frontier_text(report, points, options.budget);
  report.frontier_json = diff::frontier_json(report, points, options.budget);
  std::error_code ec;
  std::filesystem::create_directories(options.traces, ec);
  if (ec) return environment("can not create {}: {}", options.traces.string(), ec.message());
  const std::filesystem::path plot = options.traces / (stem + "-frontier.svg");
  XT_TRY_STATUS(write_file(plot, diff::frontier_svg(report, points, options.budget)));
  report.frontier_text += "  plot: " + plot.string() + "\n";
  return {};
}

}  // namespace xtrace::cli
