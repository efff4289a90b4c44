// xtrace explain: what a reason code of a replay report means (diff/reasons.def).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "diff/verdict.h"
#include "tools/xtrace/closest.h"
#include "tools/xtrace/command_line.h"
#include "tools/xtrace/render_error.h"

namespace xtrace::cli {
namespace {

std::string reasons_json(std::span<const diff::ReasonInfo> reasons) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const diff::ReasonInfo& r : reasons)
    array.push_back({{"code", r.code}, {"aspect", diff::name_of(r.aspect)}, {"effect", diff::name_of(r.effect)}, {"meaning", r.meaning}, {"computed", r.computed}, {"advice", r.advice}});
  return json_text(array, 1);
}

}  // namespace

int run_explain(int argc, char** argv) {
  std::string code;
  bool json = false;
  CommandLine line("explain", {{"xtrace explain output-diverged", "what this reason means, how it is found, what to do"},
                               {"xtrace explain", "every code, one line each"}});
  line.optional_positional("CODE", code, "reason code, as a replay report shows it; all of them when left out");
  line.flag("--json", json, "an array with one object a code");
  if (const auto status = line.parse(argc, argv)) return *status;

  const auto reasons = diff::all_reasons();
  if (json && code.empty()) {
    fmt::print("{}", reasons_json(reasons));
    return 0;
  }
  if (code.empty()) {
    size_t width = 0;
    for (const diff::ReasonInfo& r : reasons) width = std::max(width, r.code.size());
    for (const diff::ReasonInfo& r : reasons)
      fmt::print("{:<{}}  {:<9}  {:<7}  {}\n", r.code, width, diff::name_of(r.aspect), diff::name_of(r.effect), r.meaning);
    return 0;
  }
  const diff::ReasonInfo* reason = diff::find_reason(code);
  if (reason == nullptr) {
    std::vector<std::string_view> codes;
    for (const diff::ReasonInfo& r : reasons) codes.push_back(r.code);
    return usage_error("explain", fmt::format("no reason code '{}'", code),
                       did_you_mean(code, codes) + "list them with: xtrace explain; findings of xtrace check: docs/check.md");
  }
  if (json) {
    fmt::print("{}", reasons_json({reason, 1}));
    return 0;
  }
  fmt::print("{}", diff::explain(*reason));
  return 0;
}

}  // namespace xtrace::cli
