// `--search`: which of a report's configurations is emitted.
#pragma once

#include "diff/report.h"
#include "tools/xtrace/replay/options.h"

namespace xtrace::cli {

// The richest that is trusted within the budget, into `report.chosen`, with table, JSON and plot ("<stem>-frontier.svg" in the
// folder of the traces) of all. The configurations must have been judged.
Status choose_richest(diff::ReplayReport& report, const ReplayOptions& options, const std::string& stem);

}  // namespace xtrace::cli
