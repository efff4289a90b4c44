#include "tools/xtrace/check/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace xtrace::check {
namespace {

using diff::Verdict;

// None: not known.
std::optional<double> value_of(const Metrics& m, Metric metric) {
  const auto known = [](uint64_t v) {
    return v == 0 ? std::nullopt : std::optional<double>(static_cast<double>(v));
  };
  switch (metric) {
    case Metric::ratio:
      return m.time ? std::optional<double>(m.time->ratio) : std::nullopt;
    case Metric::registers:
      return known(m.registers.after);
    case Metric::occupancy:
      return known(m.occupancy.after);
    case Metric::code_bytes:
      return known(m.code_bytes.after);
    case Metric::records:
      return static_cast<double>(m.records);
    case Metric::trace_bytes:
      return static_cast<double>(m.trace_bytes);
  }
  return std::nullopt;
}

bool worse(Metric metric, double before, double now) {
  if (metric == Metric::records) return true;  // the same launch executes as often
  return metric == Metric::occupancy ? now < before : now > before;
}

std::string number(Metric metric, double v) {
  return metric == Metric::ratio ? fmt::format("{:.4f}", v) : fmt::format("{:.0f}", v);
}

void compare_metric(Row& now, const Row& before, Metric metric, double limit) {
  const auto a = value_of(*before.metrics, metric), b = value_of(*now.metrics, metric);
  const std::string_view name = metric_names[static_cast<size_t>(metric)];
  if (!a && !b) return;
  if (!a || !b) {
    now.add("not-compared", Verdict::trusted,
            fmt::format("{}: {} known", name, a ? "only the baseline's is" : "the baseline's is not"));
    return;
  }
  // 102 against 100 at 2 % must not fail by rounding.
  if (std::abs(*b - *a) <= limit * *a * (1 + 1e-9)) return;
  std::string text = fmt::format("{} {} -> {}", name, number(metric, *a), number(metric, *b));
  if (*a != 0) text += fmt::format(" ({:+.1f} %, limit {:.4g} %)", 100 * (*b / *a - 1), 100 * limit);
  if (!worse(metric, *a, *b)) {
    now.add("better", Verdict::trusted, text + ": a new baseline would keep it");
    return;
  }
  if (metric == Metric::ratio) {
    const Time &t = *before.metrics->time, &u = *now.metrics->time;
    if (u.low <= t.high) {
      now.add("drift", Verdict::inconclusive, text + ", but the two intervals overlap");
      return;
    }
  }
  now.add("drift", Verdict::not_trusted, text);
}

bool same_place(const Row& a, const Row& b) {
  return a.bundle == b.bundle && a.launch == b.launch && a.probe == b.probe && a.sample == b.sample;
}

std::string dims(const std::array<uint32_t, 3>& d) { return fmt::format("{},{},{}", d[0], d[1], d[2]); }

// Empty: the same kernel, launched the same way.
std::string changed(const Row& before, const Row& now) {
  if (before.kernel != now.kernel) return fmt::format("kernel {} -> {}", before.kernel, now.kernel);
  if (before.grid != now.grid) return fmt::format("grid {} -> {}", dims(before.grid), dims(now.grid));
  if (before.block != now.block) return fmt::format("block {} -> {}", dims(before.block), dims(now.block));
  if (!before.metrics || !now.metrics) return "";
  const Metrics &a = *before.metrics, &b = *now.metrics;
  if (a.code_bytes.before != b.code_bytes.before)
    return fmt::format("clean code {} -> {} bytes", a.code_bytes.before, b.code_bytes.before);
  if (a.registers.before != b.registers.before)
    return fmt::format("clean registers {} -> {}", a.registers.before, b.registers.before);
  return "";
}

}  // namespace

std::string difference(const Environment& before, const Environment& now) {
  std::string out;
  const auto part = [&](std::string_view name, const std::string& a, const std::string& b) {
    if (a != b) out += fmt::format("{}{}: {} in the baseline, {} now", out.empty() ? "" : "; ", name, a, b);
  };
  part("backend", before.backend, now.backend);
  part("device", before.device, now.device);
  part("driver", before.driver, now.driver);
  return out;
}

void compare(Row& now, const Row& before, const Limits& limits) {
  if (const std::string what = changed(before, now); !what.empty()) {
    now.add("kernel-changed", Verdict::inconclusive, what + ": not comparable, make a new baseline");
    return;
  }
  if (!now.metrics) return;  // refused: a finding already
  if (!before.metrics) {
    now.add("better", Verdict::trusted, "refused in the baseline: a new baseline would keep it");
    return;
  }
  for (size_t i = 0; i < metric_count; ++i)
    compare_metric(now, before, static_cast<Metric>(i), limits.drift[i]);
}

void compare(CheckRun& run, const CheckRun& baseline, const Policy& policy) {
  for (Row& now : run.rows) {
    const auto before = std::find_if(baseline.rows.begin(), baseline.rows.end(),
                                     [&](const Row& r) { return same_place(r, now); });
    if (before == baseline.rows.end())
      now.add("not-in-baseline", Verdict::trusted, "the baseline has no such row");
    else
      compare(now, *before, policy.limits_for(now.kernel, now.kernel_text));
  }
  for (const Row& before : baseline.rows)
    if (std::none_of(run.rows.begin(), run.rows.end(), [&](const Row& r) { return same_place(r, before); }))
      run.findings.push_back(
          {"not-checked", Verdict::inconclusive, "in the baseline, not in this run: " + where(before)});
}

}  // namespace xtrace::check
