#include "tools/xtrace/check/table.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "tools/xtrace/kernel_name.h"
#include "tools/xtrace/table.h"

namespace xtrace::check {
namespace {

using diff::Verdict;

std::string change(const Change& c) {
  return c.before == c.after ? fmt::format("{}", c.after) : fmt::format("{}>{}", c.before, c.after);
}

std::string timing(const Row& r) {
  if (!r.timing) return "not judged";
  const Time& t = *r.metrics->time;
  if (!std::isfinite(t.low) || !std::isfinite(t.high)) return fmt::format("{:.3f} [few rounds]", t.ratio);
  return fmt::format("{:.3f} [{:.3f} {:.3f}]", t.ratio, t.low, t.high);
}

std::vector<std::string> cells(const Row& r) {
  std::vector<std::string> c{r.bundle,
                             fmt::format("{}", r.launch),
                             r.kernel_text.empty() ? r.kernel : r.kernel_text,
                             r.probe,
                             r.sample,
                             std::string(diff::name_of(r.verdict()))};
  if (!r.metrics) {
    c.insert(c.end(), {"refused", "-", "-", "-", "-", "-"});
    return c;
  }
  const Metrics& m = *r.metrics;
  const double growth = m.code_bytes.before == 0 ? 0
                                                 : static_cast<double>(m.code_bytes.after) /
                                                       static_cast<double>(m.code_bytes.before);
  c.insert(c.end(),
           {std::string(diff::name_of(r.semantics)), timing(r), change(m.registers), change(m.occupancy),
            growth == 0 ? "-" : fmt::format("{:.2f}", growth), fmt::format("{}", m.records)});
  return c;
}

std::string line(const std::string& place, const Finding& f) {
  constexpr char sign[] = {' ', '?', '-'};
  return fmt::format("  {} {}: {}: {}\n", sign[static_cast<size_t>(f.verdict)], place, f.code, f.text);
}

}  // namespace

std::string render_table(const CheckRun& run, size_t width) {
  using cli::Align;
  cli::Table table({{"bundle"},
                    {"launch", Align::right},
                    {"kernel", Align::left, cli::shorten_kernel},
                    {"probe"},
                    {"sample"},
                    {"verdict"},
                    {"semantics"},
                    {"time"},
                    {"registers", Align::right},
                    {"CTAs/SM", Align::right},
                    {"code", Align::right},
                    {"records", Align::right}});
  for (const Row& r : run.rows) table.add_row(cells(r));
  std::string out;
  if (run.environment) out += cli::printable(text_of(*run.environment)) + "\n\n";
  if (!table.empty()) out += table.render(width);

  std::string findings;
  for (const Row& r : run.rows)
    for (const Finding& f : r.findings) findings += line(where(r), f);
  for (const Finding& f : run.findings) findings += line("check", f);
  if (!findings.empty()) out += "\n" + findings;

  std::map<std::string, size_t> why;
  for (const Row& r : run.rows)
    if (r.metrics && !r.timing) ++why[r.timing_why];
  if (!why.empty()) out += "\n";
  for (const auto& [reason, rows] : why)
    out += fmt::format("timing was not judged in {} of {} rows: {}\n", rows, run.rows.size(), reason);
  size_t counts[3] = {};
  for (const Row& r : run.rows) ++counts[static_cast<size_t>(r.verdict())];
  out += fmt::format("\nverdict: {} ({} trusted, {} not trusted, {} inconclusive, {} errors)\n",
                     diff::name_of(run.verdict()), counts[0], counts[2], counts[1], run.errors.size());
  return out;
}

}  // namespace xtrace::check
