#include "tools/xtrace/check/json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace xtrace::check {
namespace {

using diff::Verdict;
using Json = nlohmann::ordered_json;
constexpr std::string_view schema = "xtrace-check";

Json finite(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }
Json json_of(const Change& c) { return {{"before", c.before}, {"after", c.after}}; }

Json json_of(const Finding& f) {
  return {{"code", f.code},
          {"effect", f.verdict == Verdict::trusted ? "note" : diff::name_of(f.verdict)},
          {"text", f.text}};
}

Json json_of(const std::vector<Finding>& findings) {
  Json out = Json::array();
  for (const Finding& f : findings) out.push_back(json_of(f));
  return out;
}

Json json_of(const Metrics& m) {
  Json o;
  o["time"] = nullptr;
  if (m.time)
    o["time"] = {{"ratio", m.time->ratio},
                 {"ratio_low", finite(m.time->low)},
                 {"ratio_high", finite(m.time->high)},
                 {"rounds", m.time->rounds},
                 {"noise_floor", m.time->noise_floor ? Json(*m.time->noise_floor) : Json(nullptr)}};
  o["registers"] = json_of(m.registers);
  o["ctas_per_sm"] = json_of(m.occupancy);
  o["local_bytes"] = json_of(m.local_bytes);
  o["code_bytes"] = json_of(m.code_bytes);
  o["trace_bytes"] = m.trace_bytes;
  o["records"] = m.records;
  return o;
}

Json json_of(const Row& r) {
  Json o;
  o["bundle"] = r.bundle;
  o["launch"] = r.launch;
  o["kernel"] = r.kernel;
  o["kernel_text"] = r.kernel_text;
  o["grid"] = r.grid;
  o["block"] = r.block;
  o["probe"] = r.probe;
  o["sample"] = r.sample;
  o["verdict"] = diff::name_of(r.verdict());
  o["refused"] = r.refused.empty() ? Json(nullptr) : Json(r.refused);
  o["semantics"] = r.metrics ? Json(diff::name_of(r.semantics)) : Json(nullptr);
  o["timing"] = r.timing ? Json(diff::name_of(*r.timing)) : Json(nullptr);
  o["timing_not_judged"] = r.timing ? Json(nullptr) : Json(r.timing_why);
  o["metrics"] = r.metrics ? json_of(*r.metrics) : Json(nullptr);
  o["findings"] = json_of(r.findings);
  return o;
}

Change change_of(const Json& o) { return {o.at("before").get<uint64_t>(), o.at("after").get<uint64_t>()}; }

Metrics metrics_of(const Json& o) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  Metrics m;
  if (const Json& t = o.at("time"); !t.is_null()) {
    m.time.emplace();
    m.time->ratio = t.at("ratio").get<double>();
    m.time->low = t.at("ratio_low").is_null() ? -infinite : t.at("ratio_low").get<double>();
    m.time->high = t.at("ratio_high").is_null() ? infinite : t.at("ratio_high").get<double>();
    m.time->rounds = t.at("rounds").get<uint64_t>();
    if (!t.at("noise_floor").is_null()) m.time->noise_floor = t.at("noise_floor").get<double>();
  }
  m.registers = change_of(o.at("registers"));
  m.occupancy = change_of(o.at("ctas_per_sm"));
  m.local_bytes = change_of(o.at("local_bytes"));
  m.code_bytes = change_of(o.at("code_bytes"));
  m.trace_bytes = o.at("trace_bytes").get<uint64_t>();
  m.records = o.at("records").get<uint64_t>();
  return m;
}

Row row_of(const Json& o) {
  Row r;
  r.bundle = o.at("bundle").get<std::string>();
  r.launch = o.at("launch").get<uint64_t>();
  r.kernel = o.at("kernel").get<std::string>();
  r.kernel_text = o.at("kernel_text").get<std::string>();
  r.grid = o.at("grid").get<std::array<uint32_t, 3>>();
  r.block = o.at("block").get<std::array<uint32_t, 3>>();
  r.probe = o.at("probe").get<std::string>();
  r.sample = o.at("sample").get<std::string>();
  if (!o.at("refused").is_null()) r.refused = o.at("refused").get<std::string>();
  if (!o.at("metrics").is_null()) r.metrics = metrics_of(o.at("metrics"));
  return r;
}

}  // namespace

std::string render_json(const CheckRun& run) {
  Json o;
  o["schema"] = schema;
  o["schema_version"] = json_schema_version;
  o["environment"] = nullptr;
  if (run.environment)
    o["environment"] = {{"backend", run.environment->backend},
                        {"device", run.environment->device},
                        {"driver", run.environment->driver}};
  o["baseline"] = run.baseline.empty() ? Json(nullptr) : Json(run.baseline);
  o["verdict"] = diff::name_of(run.verdict());
  o["exit_status"] = run.exit_status();
  o["timing_judged"] = run.timing_judged();
  o["rows"] = Json::array();
  for (const Row& r : run.rows) o["rows"].push_back(json_of(r));
  o["findings"] = json_of(run.findings);
  o["errors"] = Json::array();
  for (const RunError& e : run.errors)
    o["errors"].push_back({{"where", e.where}, {"message", e.message}, {"exit_status", e.exit}});
  return json_text(o, 1);
}

Result<CheckRun> read_baseline(std::string_view text, const std::string& name) {
  const auto hint = "a baseline is what an earlier `xtrace check --json` wrote";
  const Json o = parse_ordered_json(text);
  if (o.is_discarded() || !o.is_object()) return with_hint(bad_input("{} is not JSON", name), hint);
  try {
    if (o.value("schema", "") != schema)
      return with_hint(bad_input("{} is not the result of a check: its schema is '{}', expected '{}'", name,
                                 o.value("schema", ""), schema),
                       hint);
    if (const auto version = o.at("schema_version").get<uint64_t>(); version != json_schema_version)
      return bad_input("{} has schema version {}, this xtrace reads {}", name, version, json_schema_version);
    if (o.at("environment").is_null())
      return with_hint(bad_input("{} has no environment: no launch was replayed in that run", name), hint);
    CheckRun run;
    const Json& e = o.at("environment");
    run.environment = Environment{e.at("backend").get<std::string>(), e.at("device").get<std::string>(),
                                  e.at("driver").get<std::string>()};
    for (const Json& row : o.at("rows")) run.rows.push_back(row_of(row));
    return run;
  } catch (const Json::exception& e) {
    return with_hint(bad_input("malformed baseline {}: {}", name, e.what()), hint);
  }
}

}  // namespace xtrace::check
