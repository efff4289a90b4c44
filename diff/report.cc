#include "diff/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/json.h"

namespace xtrace::diff {
namespace {

using Json = nlohmann::ordered_json;

// What xtrace has written itself.
Json own_json(const std::string& text) {
  Json value = parse_ordered_json(text);
  XT_CHECK(!value.is_discarded(), "JSON of our own");
  return value;
}

constexpr size_t columns = 120;

// Breaks `text` at spaces so that no line exceeds the width, words longer than it excepted.
void append_wrapped(std::string& out, const std::string& first_indent, const std::string& next_indent,
                    const std::string& text) {
  std::string line = first_indent;
  bool empty = true, broken = false;   // broken: by the text itself, in front of a hint
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find_first_of(" \n", at);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(at, end - at);
    if (!word.empty()) {
      if (!empty && (broken || line.size() + 1 + word.size() > columns)) {
        out += line + '\n';
        line = next_indent;
        empty = true;
      }
      if (!empty) line += ' ';
      line += word;
      empty = broken = false;
    }
    broken = broken || (end < text.size() && text[end] == '\n');
    at = end + 1;
  }
  out += line + '\n';
}

// A table: lines are cut at the width.
void append_table(std::string& out, const std::string& lines) {
  constexpr size_t indent = 4;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    out += std::string(indent, ' ') + lines.substr(at, std::min(end - at, columns - indent)) + "\n";
    at = end + 1;
  }
}

std::string human_bytes(uint64_t n) {
  if (n < 10'000) return fmt::format("{} B", n);
  const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  double v = static_cast<double>(n) / 1024;
  int u = 0;
  for (; v >= 1000 && u < 3; ++u) v /= 1024;
  return fmt::format("{:.{}f} {}", v, v < 10 ? 1 : 0, units[u]);
}
std::string human_count(uint64_t n) {
  if (n < 100'000) return fmt::format("{}", n);
  const double v = static_cast<double>(n);
  if (v < 1e7) return fmt::format("{:.0f} k", v / 1e3);
  if (v < 1e10) return fmt::format("{:.1f} M", v / 1e6);
  return fmt::format("{:.1f} G", v / 1e9);
}
std::string change(uint64_t before, uint64_t after) {
  return before == after ? fmt::format("{}", after) : fmt::format("{}>{}", before, after);
}
std::string ratio_text(const std::optional<TimingEvidence>& t) {
  if (!t || !t->measured || t->rounds == 0) return "-";
  if (!t->interval.finite()) return fmt::format("{:.3f} [few rounds]", t->ratio);
  return fmt::format("{:.3f} [{:.3f} {:.3f}]", t->ratio, t->interval.low, t->interval.high);
}
std::string added_text(const std::optional<Floor>& f) {
  return f ? fmt::format("{:.3f} {:<7} {:.3f}", f->added, f->bound, f->in_turn) : "-";
}
// What each part of a rotation costs.
void append_rotation(std::string& out, const Rotation& r) {
  out += fmt::format("\n  {} {} rotated, by part:\n", r.probe, r.sample);
  size_t width = 6;
  for (const RotatedPart& p : r.parts) width = std::max(width, p.sample.size());
  const auto row = [&](const std::string& part, const std::string& records, const std::string& ratio, const std::string& added) {
    out += fmt::format("    {:<{}} {:>9}  {:<22} {}\n", part, width, records, ratio, added);
  };
  row("part", "records", "ratio [95 %]", "floor, all in turn");
  for (const RotatedPart& p : r.parts) row(p.sample, human_count(p.records), ratio_text(p.timing), added_text(p.floor));
  row("median", "", ratio_text(r.timing), added_text(r.floor));
}
char mark(Verdict v) { return v == Verdict::trusted ? '+' : v == Verdict::not_trusted ? '-' : '?'; }

std::string conditions_text(const TimingConditions& t) {
  const auto some = [](uint32_t n, const char* one, const char* more) { return fmt::format("{} {}", n, n == 1 ? one : more); };
  std::string s = fmt::format("timing: {} in {:.1f} s; samples of {} of {:.1f} us", some(t.processes, "process", "processes"),
                              t.seconds, some(t.launches_per_sample, "launch", "launches"), t.sample_microseconds);
  if (t.tick_microseconds > 0) s += fmt::format(" ({:.0f} ticks)", t.sample_microseconds / t.tick_microseconds);
  s += fmt::format(", the L2 {}", t.caches);
  if (t.clock_mhz > 0) s += fmt::format("; SM clock {:.0f} MHz", t.clock_mhz);
  if (t.clean_again.interval.finite())
    s += fmt::format("; clean against clean {:.4f} [{:.4f} {:.4f}], second against first {:.4f}", t.clean_again.ratio,
                     t.clean_again.interval.low, t.clean_again.interval.high, 1 + t.order_effect);
  return s;
}

Json number(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }

Json json_of(const SampleStats& s) {
  return {{"count", s.count}, {"min_us", s.min},     {"q1_us", s.q1},     {"median_us", s.median},
          {"q3_us", s.q3},    {"max_us", s.max},     {"mean_us", s.mean}, {"outliers", s.outliers},
          {"drift", s.drift}, {"bimodal", s.bimodal}};
}

Json json_of(const TimingConditions& t) {
  return {{"processes", t.processes},
          {"launches_per_sample", t.launches_per_sample},
          {"sample_us", t.sample_microseconds},
          {"tick_us", t.tick_microseconds},
          {"clock_mhz", t.clock_mhz},
          {"caches", t.caches},
          {"seconds", t.seconds},
          {"order_effect", t.order_effect},
          {"clean_again", {{"ratio", t.clean_again.ratio},
                           {"ratio_low", number(t.clean_again.interval.low)},
                           {"ratio_high", number(t.clean_again.interval.high)},
                           {"rounds", t.clean_again.rounds}}}};
}

Json json_of(const Shares& s) {
  return {{"of", s.of}, {"within_2", s.within_2}, {"within_5", s.within_5}, {"within_10", s.within_10}};
}

Json json_of(const IntervalFidelity& f) {
  Json rows = Json::array();
  for (const IntervalRow& r : f.rows)
    rows.push_back({{"pc", r.pc},
                    {"cycles", r.cycles},
                    {"error", r.error},
                    {"converged", r.converged},
                    {"measured", r.measured ? Json(*r.measured) : Json(nullptr)},
                    {"dense", r.dense ? Json(*r.dense) : Json(nullptr)},
                    {"executions", r.executions}});
  const Convergence c = convergence(f);
  const auto dense_cycles = dense_sum(f);
  const bool sums = f.lifetime_cycles > 0;
  return {{"sites", rows},
          {"error_bars", json_of(error_bars(f))},
          {"table", json_of(of_table(f))},
          {"dense", json_of(of_dense(f))},
          {"sum_cycles", sums ? Json(f.sum_cycles) : Json(nullptr)},
          {"lifetime_cycles", sums ? Json(f.lifetime_cycles) : Json(nullptr)},
          {"median_warp", sums ? Json(f.median_warp) : Json(nullptr)},
          {"dense_sum_cycles", sums && dense_cycles ? Json(*dense_cycles) : Json(nullptr)},
          {"long", {{"of", c.of}, {"converged", c.converged}}},
          {"inserted_cycles", f.inserted_cycles},
          {"records_lost", f.records_lost},
          {"too_long", f.too_long},
          {"seconds", f.seconds}};
}

Json json_of(const std::optional<Floor>& f) {
  if (!f) return nullptr;
  return {{"ratio", f->ratio},       {"added", f->added},       {"bound", f->bound},          {"in_turn", f->in_turn}, {"bytes_us", f->bytes_us},
          {"issue_us", f->issue_us}, {"stores_us", f->store_us}, {"latency_us", f->latency_us}, {"fills_us", f->fill_us},
          {"lines_us", f->line_us}};
}

// The ratio of a part, or of the median part; nulls where it was not measured.
Json ratio_json(const std::optional<TimingEvidence>& t) {
  const bool known = t && t->measured && t->rounds != 0;
  return {{"ratio", known ? Json(t->ratio) : Json(nullptr)},
          {"ratio_low", known ? number(t->interval.low) : Json(nullptr)},
          {"ratio_high", known ? number(t->interval.high) : Json(nullptr)},
          {"rounds", known ? t->rounds : 0}};
}
Json json_of(const Rotation& r) {
  Json o{{"probe", r.probe}, {"sample", r.sample}, {"parts", Json::array()}};
  for (const RotatedPart& p : r.parts) {
    Json part{{"sample", p.sample}, {"records", p.records}};
    part.update(ratio_json(p.timing));
    part["floor"] = json_of(p.floor);
    o["parts"].push_back(std::move(part));
  }
  o.update(ratio_json(r.timing));
  o["floor"] = json_of(r.floor);
  return o;
}

Json json_of(const ConfigReport& c) {
  Json o;
  o["probe"] = c.probe;
  o["sample"] = c.sample;
  o["refused"] = c.refused.empty() ? Json(nullptr) : Json(c.refused);
  if (!c.refused.empty()) return o;
  o["verdict"] = name_of(c.judgement.overall);
  o["aspects"] = {{"semantics", name_of(c.judgement.semantics)},
                  {"timing", name_of(c.judgement.timing)},
                  {"space", name_of(c.judgement.space)}};
  o["reasons"] = Json::array();
  for (const Reason& r : c.judgement.reasons)
    o["reasons"].push_back({{"code", r.info().code},
                            {"aspect", name_of(r.info().aspect)},
                            {"effect", name_of(r.info().effect)},
                            {"numbers", r.numbers}});
  o["timing"] = nullptr;
  if (c.timing) {
    const TimingEvidence& t = *c.timing;
    o["timing"] = {{"measured", t.measured},
                   {"graded", t.claims_time && !t.dense},
                   {"median_us", c.microseconds},
                   {"ratio", t.ratio},
                   {"ratio_low", number(t.interval.low)},
                   {"ratio_high", number(t.interval.high)},
                   {"rounds", t.rounds},
                   {"processes", t.processes},
                   {"process_spread", t.process_spread},
                   {"pairs", t.pairs},
                   {"throttled", t.throttled},
                   {"sample_ticks", t.sample_ticks},
                   {"budget", c.budget},
                   {"noise_floor", t.noise_floor ? Json(*t.noise_floor) : Json(nullptr)}};
  }
  o["floor"] = json_of(c.floor);
  o["space"] = nullptr;
  if (c.space) {
    const SpatialEvidence& s = *c.space;
    auto pair = [](uint64_t before, uint64_t after) { return Json{{"before", before}, {"after", after}}; };
    o["space"] = {{"registers", pair(s.registers_before, s.registers_after)},
                  {"ctas_per_sm", pair(s.ctas_per_sm_before, s.ctas_per_sm_after)},
                  {"local_bytes", pair(s.local_bytes_before, s.local_bytes_after)},
                  {"shared_bytes", pair(s.shared_bytes_before, s.shared_bytes_after)},
                  {"code_bytes", pair(s.code_bytes_before, s.code_bytes_after)},
                  {"trace_bytes", s.trace_bytes},
                  {"whole_sectors", s.whole_sectors},
                  {"kernel_bytes", s.kernel_bytes}};
  }
  o["intervals"] = c.intervals ? json_of(*c.intervals) : Json(nullptr);
  o["records"] = c.records;
  o["losses"] = Json::array();
  for (const LossCount& l : c.losses)
    o["losses"].push_back(
        {{"name", l.name}, {"severity", l.severity}, {"count", l.count}, {"bytes", l.bytes}});
  o["artefacts"] = Json::array();
  for (const Artefact& a : c.artefacts) o["artefacts"].push_back({{"kind", a.kind}, {"path", a.path}});
  o["table"] = c.table_json.empty() ? Json(nullptr) : own_json(c.table_json);
  o["not_covered"] = c.not_covered;
  return o;
}

}  // namespace

Verdict ReplayReport::verdict() const {
  if (searched) return chosen ? configs.at(*chosen).judgement.overall : Verdict::inconclusive;
  std::vector<Verdict> all;
  for (const ConfigReport& c : configs)
    if (c.refused.empty()) all.push_back(c.judgement.overall);
  return worst_of(all);
}

std::string render_text(const ReplayReport& r) {
  std::string out;
  append_wrapped(out, "", "  ",
                 fmt::format("launch {} of {}: {}", r.launch, r.bundle,
                             r.kernel_text.empty() ? r.kernel : r.kernel_text));
  append_wrapped(out, "  ", "    ",
                 fmt::format("grid {}x{}x{}, block {}x{}x{}; {} on {}, driver {}", r.grid.x, r.grid.y,
                             r.grid.z, r.block.x, r.block.y, r.block.z, r.backend, r.device, r.driver));
  std::string clean =
      fmt::format("clean: {} replays; {} in memory, {} written, {} unstable", r.clean_replays,
                  human_bytes(r.memory_bytes), human_bytes(r.written_bytes), human_bytes(r.unstable_bytes));
  if (r.clean_time) {
    clean += fmt::format("; {:.2f} us [{:.2f} {:.2f}] in {} samples", r.clean_time->median, r.clean_time->q1,
                         r.clean_time->q3, r.clean_time->count);
    if (r.noise_floor) clean += fmt::format(", noise floor {:.2f}%", 100 * *r.noise_floor);
  }
  append_wrapped(out, "  ", "    ", clean);
  if (r.timing) append_wrapped(out, "  ", "    ", conditions_text(*r.timing));
  if (!r.at.empty()) append_wrapped(out, "  ", "    ", "limited to: " + r.at);

  size_t probe_width = 6, sample_width = 9;
  for (const ConfigReport& c : r.configs) {
    probe_width = std::max(probe_width, c.probe.size());
    sample_width = std::max(sample_width, c.sample.size());
  }
  const auto first_columns = [&](std::string_view probe, std::string_view sample) {
    return fmt::format("  {:<{}} {:<{}} ", probe, probe_width, sample, sample_width);
  };
  out += fmt::format("\n{}{:<12} {:<3} {:<22} {:>9} {:>9} {:>7} {:>7} {:>13} {:>7}\n", first_columns("probe", "sample"),
                     "verdict", "stp", "ratio [95 %]", "registers", "CTAs/SM", "local", "records",
                     "code", "trace");
  for (const ConfigReport& c : r.configs) {
    if (!c.refused.empty()) {
      append_wrapped(out, first_columns(c.probe, c.sample) + "refused: ", "      ", c.refused);
      continue;
    }
    const SpatialEvidence s = c.space.value_or(SpatialEvidence{});
    const std::string marks{mark(c.judgement.semantics), mark(c.judgement.timing), mark(c.judgement.space)};
    std::string line =
        fmt::format("{}{:<12} {:<3} {:<22} {:>9} {:>9} {:>7} {:>7} {:>13} {:>7}", first_columns(c.probe, c.sample),
                    name_of(c.judgement.overall), marks, ratio_text(c.timing),
                    c.space ? change(s.registers_before, s.registers_after) : "-",
                    c.space ? change(s.ctas_per_sm_before, s.ctas_per_sm_after) : "-",
                    c.space ? change(s.local_bytes_before, s.local_bytes_after) : "-", human_count(c.records),
                    c.space ? change(s.code_bytes_before, s.code_bytes_after) : "-",
                    c.space ? human_bytes(s.trace_bytes) : "-");
    out += line + '\n';
  }
  out += "  (s semantics, t timing, p space: + trusted, - not trusted, ? inconclusive)\n";
  for (const Rotation& rotation : r.rotations) append_rotation(out, rotation);

  for (const ConfigReport& c : r.configs) {
    if (!c.refused.empty()) continue;
    out += fmt::format("\n  {} {}: {}\n", c.probe, c.sample, name_of(c.judgement.overall));
    for (const Reason& reason : c.judgement.reasons) {
      constexpr char sign[] = {'+', '?', '-', ' '};
      std::string text = fmt::format("{}", reason.info().code);
      text += reason.numbers.empty() ? "" : ": " + reason.numbers;
      append_wrapped(out, fmt::format("    {} ", sign[static_cast<size_t>(reason.info().effect)]), "        ",
                     text);
    }
    if (c.intervals && !c.intervals->rows.empty())
      append_wrapped(out, "      ", "        ", "intervals: " + text_of(*c.intervals));
    if (c.floor)
      append_wrapped(out, "      ", "        ",
                     fmt::format("floor of the ratio: {:.3f}; {:.3f} if {} overlap with nothing, {:.3f} all in turn (bytes {:.2f} us, issue "
                                 "{:.2f} us, stores {:.2f} us, latency {:.2f} us, fills {:.2f} us, lines {:.2f} us)",
                                 c.floor->ratio, c.floor->added, c.floor->bound, c.floor->in_turn, c.floor->bytes_us, c.floor->issue_us,
                                 c.floor->store_us, c.floor->latency_us, c.floor->fill_us, c.floor->line_us));
    for (const LossCount& l : c.losses)
      append_wrapped(out, "    ! ", "        ",
                     fmt::format("{} {}: {} times, {}", l.severity, l.name, l.count, human_bytes(l.bytes)));
    for (const std::string& text : c.not_covered) append_wrapped(out, "    ! ", "        ", "not covered: " + text);
    for (const Artefact& a : c.artefacts) append_wrapped(out, "    > ", "        ", a.kind + ": " + a.path);
    append_table(out, c.table_text);
  }
  if (r.searched) out += "\n" + r.frontier_text;
  for (const std::string& w : r.warnings) append_wrapped(out, "\n  warning: ", "    ", w);
  out += fmt::format("\n  verdict: {}\n", name_of(r.verdict()));
  return out;
}

std::string render_json(const ReplayReport& r) {
  Json o;
  o["schema"] = "xtrace-replay-report";
  o["schema_version"] = ReplayReport::schema_version;
  o["bundle"] = r.bundle;
  o["launch"] = r.launch;
  o["kernel"] = r.kernel;
  o["kernel_text"] = r.kernel_text;
  o["grid"] = {r.grid.x, r.grid.y, r.grid.z};
  o["block"] = {r.block.x, r.block.y, r.block.z};
  o["backend"] = r.backend;
  o["device"] = r.device;
  o["driver"] = r.driver;
  o["verdict"] = name_of(r.verdict());
  o["exit_status"] = exit_status(r.verdict());
  o["clean"] = {{"replays", r.clean_replays},
                {"memory_bytes", r.memory_bytes},
                {"written_bytes", r.written_bytes},
                {"unstable_bytes", r.unstable_bytes},
                {"time", r.clean_time ? json_of(*r.clean_time) : Json(nullptr)},
                {"noise_floor", r.noise_floor ? Json(*r.noise_floor) : Json(nullptr)}};
  o["timing"] = r.timing ? json_of(*r.timing) : Json(nullptr);
  o["at"] = r.at.empty() ? Json(nullptr) : Json(r.at);
  o["configs"] = Json::array();
  for (const ConfigReport& c : r.configs) o["configs"].push_back(json_of(c));
  o["rotations"] = Json::array();
  for (const Rotation& rotation : r.rotations) o["rotations"].push_back(json_of(rotation));
  o["frontier"] = r.searched ? own_json(r.frontier_json) : Json(nullptr);
  o["warnings"] = r.warnings;
  return json_text(o, 1);
}

}  // namespace xtrace::diff
