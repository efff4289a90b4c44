// A run as JSON (docs/check.md), written by --json and read by --baseline.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "tools/xtrace/check/result.h"

namespace xtrace::check {

constexpr uint32_t json_schema_version = 1;

std::string render_json(const CheckRun& run);

// What a comparison needs: the environment, and of each row its place, its launch and its metrics. bad_input
// when it is not the JSON of a check, is of another schema version, or holds no environment.
Result<CheckRun> read_baseline(std::string_view text, const std::string& name);

}  // namespace xtrace::check
