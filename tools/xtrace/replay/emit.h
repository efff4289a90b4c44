// Writes what a trusted trace leaves behind: our trace file, a Perfetto timeline, and the table of instructions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diff/report.h"
#include "tools/xtrace/replay/options.h"
#include "tools/xtrace/replay/trace_run.h"
#include "trace/clock_fit.h"
#include "trace/table.h"
#include "trace/trace_file.h"

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

std::string source_at(const SourceMap& sources, uint32_t pc);   // of the line that the instruction belongs to

// "-cta1in4-site1in8"; empty for all.
std::string sample_suffix(const diff::ConfigReport& config);
// "launch3-sgemm-block-cta1in4"
std::string stem_of(const EmitContext& e, const diff::ConfigReport& config);
// In the folder of the traces, which is made.
Result<std::filesystem::path> trace_path(const EmitContext& e, const std::string& name);
// The clocks of the SMs, from readings around the launch; none where the backend has none, or where they lie on no line.
struct TimeAxis {
  std::optional<trace::ClockFit> fit;
  std::string missing;   // why there is none, where clocks were read
};
// From restored memory, once more as it was judged: an error when that changes the output.
Result<TimeAxis> run_again(const EmitContext& e, replay::ModuleHandle module, TraceBuffer& buffer);
Result<trace::TraceMeta> trace_meta(const EmitContext& e, const diff::ConfigReport& config, trace::TraceKind kind,
                                    const wire::AddressMap& map);

// Runs the probe once more and writes what this run recorded, if it decodes as the judged one did: same number of
// records, nothing lost. Otherwise an error that says so.
Result<std::vector<diff::Artefact>> emit_trace(const EmitContext& e, TraceRun& run, const diff::ConfigReport& config);

// "<stem>-<probe>[-cta1in16].cubin", as it was loaded.
Status keep_code(const std::filesystem::path& folder, const std::string& stem, const diff::ConfigReport& config,
                 ByteView cubin);

inline constexpr size_t most_rows = 40;   // of a table in the report for people; its files hold all
// A table that is the probe's own: its files (text, CSV and JSON), and its JSON in `config`.
Status emit_own_table(const EmitContext& e, diff::ConfigReport& config, const std::string& text, const std::string& csv,
                      const std::string& json);
// text, CSV and JSON
Result<std::vector<diff::Artefact>> emit_table(const EmitContext& e, const std::string& suffix,
                                               const std::vector<trace::InstructionRow>& rows);

}  // namespace xtrace::cli
