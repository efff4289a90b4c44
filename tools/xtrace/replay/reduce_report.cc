#include "tools/xtrace/replay/reduce_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace xtrace::cli {

Shown shown_by(const std::string& report_json) {
  Shown shown;
  const auto add = [](std::string& to, const nlohmann::json& reason) {
    const auto numbers = reason.at("numbers").get<std::string>();
    to += (to.empty() ? "" : "; ") + reason.at("code").get<std::string>() + (numbers.empty() ? "" : ": " + numbers);
  };
  const nlohmann::json report = parse_json(report_json);
  for (const auto& config : report.at("configs")) {
    if (!config.at("refused").is_null()) {
      shown.refused = config.at("refused").get<std::string>();
      continue;
    }
    for (const auto& r : config.at("reasons")) {
      if (r.at("aspect") != "semantics") continue;
      if (r.at("effect") == "refute") add(shown.against, r);
      if (r.at("effect") == "doubt") add(shown.doubts, r);
    }
  }
  return shown;
}

int ReductionReport::exit_status(int of_error) const {
  if (!error.empty()) return of_error;
  if (!reduction.what.empty()) return exit_not_trusted;
  return doubts.empty() ? exit_trusted : exit_inconclusive;
}

std::string ReductionReport::text() const {
  const std::string all = fmt::format("all {} instructions probed by {}", instructions, probe);
  if (reduction.unprobed)
    return fmt::format("launch {} diverges without a probe, too: {}\n  no instruction's probes do it: there is nothing to reduce\n", launch, reduction.what);
  if (reduction.what.empty() && !doubts.empty())
    return fmt::format("launch {} was not seen to diverge with {}, and not to be as it should: {}\n", launch, all, doubts);
  if (reduction.what.empty()) return fmt::format("launch {} does not diverge with {}: there is nothing to reduce\n", launch, all);
  std::string out = fmt::format("{} of {} instructions, probed alone, make launch {} diverge ({} replays): {}\n  {}\n", reduction.pcs.size(), instructions,
                                launch, reduction.trials, places_text(reduction.pcs), reduction.what);
  for (size_t k = 0; k < sass.size(); ++k) out += fmt::format("  {:#7x}  {}\n", reduction.pcs[k], sass[k]);
  return reproducer.empty() ? out : out + fmt::format("  reproducer: {}\n", reproducer);
}

std::string ReductionReport::json(int of_error) const {
  using Json = nlohmann::ordered_json;
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  const char* outcome = !error.empty()             ? "error"
                        : reduction.unprobed       ? "diverges-unprobed"
                        : !reduction.what.empty()  ? "reduced"
                        : doubts.empty()           ? "does-not-diverge"
                                                   : "not-known";
  Json j{{"schema", "xtrace-reduction"}, {"schema_version", 1}, {"bundle", bundle}, {"launch", launch}, {"kernel", kernel},
         {"probe", probe}, {"sample", sample}, {"instructions", instructions}, {"outcome", outcome}};
  j["what"] = text_or_null(reduction.what.empty() ? doubts : reduction.what);
  j["culprits"] = Json::array();
  for (size_t k = 0; k < reduction.pcs.size(); ++k) j["culprits"].push_back({{"pc", reduction.pcs[k]}, {"sass", k < sass.size() ? Json(sass[k]) : Json()}});
  j["at"] = text_or_null(places_text(reduction.pcs));
  j["replays"] = reduction.trials;
  j["reproducer"] = text_or_null(reproducer);
  j["error"] = text_or_null(error);
  j["hint"] = text_or_null(hint);
  j["exit_status"] = exit_status(of_error);
  return json_text(j, 2);
}

}  // namespace xtrace::cli
