// Writes what a trusted trace leaves behind: our trace file, a Perfetto timeline, and the table of instructions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "diff/report.h"
#include "tools/xtrace/replay/options.h"
#include "tools/xtrace/replay/trace_run.h"
#include "trace/table.h"

namespace xtrace::cli {

// pc -> "file.cu:41", from the cubin's line table; empty without -lineinfo.
using SourceMap = std::map<uint32_t, std::string>;
SourceMap source_map(ByteView cubin, const std::string& kernel);

struct EmitContext {
  LaunchContext& c;
  const ReplayOptions& options;
  const SourceMap& sources;
  std::string stem;                 // "launch3-sgemm"
};

// Runs the probe once more and writes what this run recorded, if it decodes as the judged one did: same number of
// records, nothing lost. Otherwise an error that says so.
Result<std::vector<diff::Artefact>> emit_trace(const EmitContext& e, TraceRun& run, const diff::ConfigReport& config);

// "<stem>-<probe>[-cta1in16].cubin", as it was loaded.
Status keep_code(const std::filesystem::path& folder, const std::string& stem, const diff::ConfigReport& config,
                 uint32_t one_in, ByteView cubin);

// text, CSV and JSON
Result<std::vector<diff::Artefact>> emit_table(const EmitContext& e, const std::string& suffix,
                                               const std::vector<trace::InstructionRow>& rows);

}  // namespace xtrace::cli
