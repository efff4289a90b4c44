#include "tools/xtrace/check/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace xtrace::check {
namespace {

using diff::Verdict;
using nlohmann::json;

Verdict verdict_named(const std::string& name) {
  for (Verdict v : {Verdict::trusted, Verdict::not_trusted})
    if (name == diff::name_of(v)) return v;
  return Verdict::inconclusive;
}

Change change_of(const json& o) { return {o.at("before").get<uint64_t>(), o.at("after").get<uint64_t>()}; }

std::optional<Time> time_of(const json& o) {
  if (o.is_null() || !o.at("measured").get<bool>()) return std::nullopt;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  Time t;
  t.ratio = o.at("ratio").get<double>();
  t.low = o.at("ratio_low").is_null() ? -infinite : o.at("ratio_low").get<double>();
  t.high = o.at("ratio_high").is_null() ? infinite : o.at("ratio_high").get<double>();
  t.rounds = o.at("rounds").get<uint64_t>();
  t.processes = o.at("processes").get<uint32_t>();
  t.pairs = o.at("pairs").get<uint64_t>();
  t.throttled = o.at("throttled").get<uint64_t>();
  t.sample_ticks = o.at("sample_ticks").get<double>();
  if (!o.at("noise_floor").is_null()) t.noise_floor = o.at("noise_floor").get<double>();
  return t;
}

// "output-diverged: region 2 offset 0x40; records-lost: 3 losses"
std::string against(const json& config) {
  std::string out;
  for (const json& r : config.at("reasons")) {
    const auto effect = r.at("effect").get<std::string>(), aspect = r.at("aspect").get<std::string>();
    if (aspect != "semantics" || (effect != "doubt" && effect != "refute")) continue;
    const auto numbers = r.at("numbers").get<std::string>();
    out +=
        (out.empty() ? "" : "; ") + r.at("code").get<std::string>() + (numbers.empty() ? "" : ": " + numbers);
  }
  return out;
}

Row head_of(const json& report, const std::string& bundle) {
  Row row;
  row.bundle = bundle;
  row.launch = report.at("launch").get<uint64_t>();
  row.kernel = report.at("kernel").get<std::string>();
  row.kernel_text = report.at("kernel_text").get<std::string>();
  row.grid = report.at("grid").get<std::array<uint32_t, 3>>();
  row.block = report.at("block").get<std::array<uint32_t, 3>>();
  return row;
}

Row row_of(const json& report, const json& config, const std::string& bundle) {
  Row row = head_of(report, bundle);
  row.probe = config.at("probe").get<std::string>();
  row.sample = config.at("sample").get<std::string>();
  if (!config.at("refused").is_null()) {
    row.refused = config.at("refused").get<std::string>();
    return row;
  }
  row.semantics = verdict_named(config.at("aspects").at("semantics").get<std::string>());
  row.reasons = against(config);
  row.timing_why = "the " + report.at("backend").get<std::string>() + " backend did not measure time";
  Metrics m;
  m.time = time_of(config.at("timing"));
  m.records = config.at("records").get<uint64_t>();
  if (const json& space = config.at("space"); !space.is_null()) {
    m.registers = change_of(space.at("registers"));
    m.occupancy = change_of(space.at("ctas_per_sm"));
    m.local_bytes = change_of(space.at("local_bytes"));
    m.code_bytes = change_of(space.at("code_bytes"));
    m.trace_bytes = space.at("trace_bytes").get<uint64_t>();
  }
  row.metrics = m;
  return row;
}

void judge_time(Row& row, const Limits& limits) {
  if (!row.metrics->time) {
    if (limits.timing_required) row.add("timing-not-measured", Verdict::inconclusive, row.timing_why);
    return;
  }
  const auto budget = limits.of(limits.budget, row.probe);
  if (!budget) {
    row.timing_why = "the policy has no budget." + row.probe;
    return;
  }
  const Time& t = *row.metrics->time;
  diff::TimingEvidence e;
  e.measured = true;
  e.rounds = t.rounds;
  e.processes = t.processes;
  e.pairs = t.pairs;
  e.throttled = t.throttled;
  e.sample_ticks = t.sample_ticks;
  e.ratio = t.ratio;
  e.interval = {t.low, t.high};
  e.noise_floor = t.noise_floor;
  const diff::Judgement j = diff::judge({}, e, std::nullopt, *budget);
  row.timing = j.timing;
  row.timing_why.clear();
  if (j.timing == Verdict::trusted) return;
  std::string text;
  for (const diff::Reason& r : j.reasons)
    if (r.info().aspect == diff::Aspect::timing &&
        (r.info().effect == diff::Effect::doubt || r.info().effect == diff::Effect::refute))
      text += fmt::format("{}{}{}{}", text.empty() ? "" : "; ", r.info().code, r.numbers.empty() ? "" : ": ",
                          r.numbers);
  row.add("budget", j.timing, text);
}

void judge_space(Row& row, const Limits& limits) {
  const Metrics& m = *row.metrics;
  if (limits.occupancy) {
    if (m.occupancy.before == 0 || m.occupancy.after == 0)
      row.add("occupancy", Verdict::inconclusive, "how many CTAs fit on an SM is not known");
    else if (m.occupancy.after < m.occupancy.before)
      row.add("occupancy", Verdict::not_trusted,
              fmt::format("{} -> {} CTAs per SM", m.occupancy.before, m.occupancy.after));
  }
  if (limits.local_memory && m.local_bytes.after > m.local_bytes.before)
    row.add("local-memory", Verdict::not_trusted,
            fmt::format("{} -> {} bytes per thread", m.local_bytes.before, m.local_bytes.after));
  const double added = static_cast<double>(m.registers.after) - static_cast<double>(m.registers.before);
  if (limits.added_registers && added > *limits.added_registers)
    row.add("added-registers", Verdict::not_trusted,
            fmt::format("{} -> {} registers, {} more; the limit is {}", m.registers.before, m.registers.after,
                        added, *limits.added_registers));
  if (const auto limit = limits.of(limits.code_growth, row.probe)) {
    if (m.code_bytes.before == 0) {
      row.add("code-growth", Verdict::inconclusive, "the size of the code is not known");
    } else if (const double growth =
                   static_cast<double>(m.code_bytes.after) / static_cast<double>(m.code_bytes.before);
               growth > *limit) {
      row.add("code-growth", Verdict::not_trusted,
              fmt::format("{} -> {} bytes of code, {:.3f} times; the limit is {}", m.code_bytes.before,
                          m.code_bytes.after, growth, *limit));
    }
  }
  const auto limit = limits.of(limits.bytes_per_record, row.probe);
  if (limit && m.records != 0) {
    const double each = static_cast<double>(m.trace_bytes) / static_cast<double>(m.records);
    if (each > *limit)
      row.add("bytes-per-record", Verdict::not_trusted,
              fmt::format("{} bytes for {} records, {:.2f} each; the limit is {}", m.trace_bytes, m.records,
                          each, *limit));
  }
}

template <typename F>
auto reading(F f) -> Result<decltype(f())> {
  try {
    return f();
  } catch (const json::exception& e) {
    return internal("a replay report that does not follow its schema: {}", e.what());
  }
}

}  // namespace

Result<Environment> environment_of(const json& report) {
  return reading([&] {
    return Environment{report.at("backend").get<std::string>(), report.at("device").get<std::string>(),
                       report.at("driver").get<std::string>()};
  });
}

Result<std::vector<Row>> evaluate(const json& report, const std::string& bundle, const Limits& limits) {
  return reading([&] {
    std::vector<Row> rows;
    for (const json& config : report.at("configs")) {
      rows.push_back(row_of(report, config, bundle));
      apply_limits(rows.back(), limits);
    }
    for (const std::string& probe : limits.require) {
      if (std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return r.probe == probe; })) continue;
      Row row = head_of(report, bundle);
      row.probe = probe;
      row.sample = limits.sample;
      row.refused = "the replay says nothing about this probe";
      apply_limits(row, limits);
      rows.push_back(std::move(row));
    }
    return rows;
  });
}

void apply_limits(Row& row, const Limits& limits) {
  if (!row.metrics) {
    row.add("refused", Verdict::not_trusted, row.refused);
    return;
  }
  if (limits.semantics && row.semantics != Verdict::trusted)
    row.add("semantics", row.semantics, row.reasons.empty() ? "no support for it" : row.reasons);
  judge_space(row, limits);
  judge_time(row, limits);
}

}  // namespace xtrace::check
