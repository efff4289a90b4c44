// From the replay report of one launch (docs/report-schema.md) and the limits of its kernel to rows.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/xtrace/check/policy.h"
#include "tools/xtrace/check/result.h"

namespace xtrace::check {

// internal: a field that the schema demands is missing or has another type.
Result<Environment> environment_of(const nlohmann::json& report);

// One row per configuration of the report, findings included. A required probe without a configuration gives
// a row that says so.
Result<std::vector<Row>> evaluate(const nlohmann::json& report, const std::string& bundle,
                                  const Limits& limits);

// Holds what is in the row against the limits; adds findings. Time is judged by the rules of diff/verdict.h.
void apply_limits(Row& row, const Limits& limits);

}  // namespace xtrace::check
