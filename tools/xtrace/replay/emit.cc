#include "tools/xtrace/replay/emit.h"

#include "base/file.h"
#include "instrument/cubin/kernel_info.h"
#include "tools/xtrace/kernel_name.h"
#include "trace/perfetto_export.h"

namespace xtrace::cli {
namespace {

namespace fs = std::filesystem;

std::vector<wire::WarpHeader> header_array(ByteView bytes) {
  std::vector<wire::WarpHeader> headers(bytes.size() / sizeof(wire::WarpHeader));
  std::memcpy(headers.data(), bytes.data(), headers.size() * sizeof(wire::WarpHeader));
  return headers;
}

std::vector<std::string> block_lines(const wire::AddressMap& map, const SourceMap& sources) {
  std::vector<std::string> lines;
  for (const wire::Block& b : map.blocks) {
    const auto line = sources.find(b.first_pc);
    lines.push_back(line == sources.end() ? "" : line->second);
  }
  return lines;
}

}  // namespace

SourceMap source_map(ByteView bytes, const std::string& kernel) {
  SourceMap sources;
  const auto image = cubin::Image::parse(bytes);
  if (!image) return sources;
  const auto info = cubin::kernel_info(*image, kernel);
  if (!info) return sources;
  const auto lines = cubin::source_lines(*image, *info);
  if (!lines) return sources;
  for (const auto& [pc, line] : *lines)
    sources[pc] = fmt::format("{}:{}", fs::path(line.file).filename().string(), line.line);
  return sources;
}

std::string source_at(const SourceMap& sources, uint32_t pc) {
  const auto line = sources.upper_bound(pc);
  return line == sources.begin() ? std::string() : std::prev(line)->second;
}

std::string sample_suffix(const diff::ConfigReport& config) {
  if (config.sample == Sample{}.text()) return {};
  std::string sample = "-";   // "cta:1/16,site:1/8" as "cta1in16-site1in8"
  for (char ch : config.sample)
    sample += ch == '/' ? "in" : ch == ':' ? "" : ch == ',' || ch == '+' ? "-" : ch == '@' ? "s" : std::string(1, ch);
  return sample;
}

std::string with_config(const std::string& stem, const diff::ConfigReport& config) {
  return stem + "-" + config.probe + sample_suffix(config);
}
std::string stem_of(const EmitContext& e, const diff::ConfigReport& config) { return with_config(e.stem, config); }

Result<fs::path> trace_path(const EmitContext& e, const std::string& name) {
  std::error_code ec;
  fs::create_directories(e.options.traces, ec);
  if (ec)
    return with_hint(environment("can not create {}: {}", e.options.traces.string(), ec.message()), "--traces names another folder");
  return e.options.traces / name;
}

// The buffer may hold the records of a timing launch since.
Result<TimeAxis> run_again(const EmitContext& e, replay::ModuleHandle module, TraceBuffer& buffer) {
  const auto readings = [&]() -> Result<std::vector<trace::ClockReading>> {
    XT_TRY(const auto read, e.c.backend.read_clocks());
    std::vector<trace::ClockReading> out;
    for (const replay::ClockReading& r : read) out.push_back({r.sm, r.clock, r.nanoseconds});
    return out;
  };
  XT_TRY_STATUS(buffer.clear());
  XT_TRY_STATUS(e.c.backend.restore(module, replay::RestoreScope::all));
  XT_TRY(const auto before, readings());
  XT_TRY(const replay::RunOutcome outcome, e.c.backend.run(module));
  if (!outcome.completed) return device("{}", outcome.failure);
  XT_TRY(const auto after, readings());
  TimeAxis axis;
  if (auto fit = trace::ClockFit::of(before, after))
    axis.fit = std::move(*fit);
  else if (!before.empty() || !after.empty())
    axis.missing = fit.error().to_string();
  if (!e.options.compare) return axis;
  diff::SemanticEvidence again;
  XT_TRY_STATUS(compare_now(e.c, module, again));
  if (again.output != diff::OutputMatch::equal && again.output != diff::OutputMatch::unstable_only)
    return device("the replay for the trace file changed the output: {}", again.output_text);
  return axis;
}

Result<trace::TraceMeta> trace_meta(const EmitContext& e, const diff::ConfigReport& config, trace::TraceKind kind,
                                    const wire::AddressMap& map) {
  const bundle::LaunchRecord& launch = e.c.launch.record;
  trace::TraceMeta meta;
  meta.identity = {.bundle = e.options.bundle.string(),
                   .launch_ordinal = launch.ordinal,
                   .kernel = launch.kernel,
                   .code = launch.code,
                   .grid = launch.grid,
                   .block = launch.block,
                   .sm = e.c.backend.info().sm,
                   .device = e.c.backend.info().device,
                   .sm_clock_ghz = 0,
                   .verdict = std::string(diff::name_of(config.judgement.overall)),
                   .notes = {{"sample", config.sample}}};
  meta.kind = kind;
  meta.map = map;
  meta.labels = trace::block_labels(map, block_lines(map, e.sources));
  return meta;
}

namespace {

// Of a run of several parts: their warps behind one another, each with its part. No timeline, as clocks of several replays have nothing
// in common.
Result<std::vector<diff::Artefact>> emit_rotated(const EmitContext& e, TraceRun& run, const diff::ConfigReport& config) {
  XT_TRY(const fs::path path, trace_path(e, stem_of(e, config) + ".xtrace"));
  XT_TRY(trace::TraceMeta meta, trace_meta(e, config, run.kind, run.map));
  meta.identity.notes.emplace_back("time axis", "each part has its own: clocks of two replays have nothing in common");
  std::unique_ptr<trace::TraceFileWriter> file;
  trace::DecodeSummary all;
  for (const CtaPart& part : run.parts) {
    XT_TRY(const TimeAxis axis, run_again(e, part.module, *run.buffer));
    XT_TRY(const trace::RecordView view, run.buffer->view(part.spliced.map));
    if (!file) {
      const std::vector<wire::WarpHeader> headers = header_array(view.headers);
      meta.identity.sm_clock_ghz = axis.fit ? trace::ClockModel(*axis.fit, part.spliced.map.layout, headers).sm_clock_ghz()
                                            : trace::ClockModel::estimate_ghz(part.spliced.map.layout, headers).value_or(0);
      XT_TRY(file, trace::TraceFileWriter::create(path, meta));
    }
    XT_TRY(const trace::DecodeSummary summary,
           trace::decode(view.map, run.kind, view.headers, view.read, {view.table, false, {}},
                         [&](const trace::WarpTrace& t) { return file->add(t); }));
    if ((run.semantics.path == diff::PathMatch::equal && summary.records != part.records) || !summary.losses.none())
      return device("the replay for the trace file recorded {} events in part {}, the judged one {}: nothing was written",
                    summary.records, part.number, part.records);
    all.add(summary);
  }
  XT_TRY_STATUS(file->finish(all));
  return std::vector<diff::Artefact>{{"trace", path.string()}};
}

}  // namespace

Result<std::vector<diff::Artefact>> emit_trace(const EmitContext& e, TraceRun& run, const diff::ConfigReport& config) {
  if (run.rotated) return emit_rotated(e, run, config);
  const wire::AddressMap& map = run.map;
  const std::string name = stem_of(e, config);
  XT_TRY(const fs::path file_path, trace_path(e, name + ".xtrace"));
  XT_TRY(const fs::path timeline_path, trace_path(e, name + ".pftrace"));
  XT_TRY(const TimeAxis axis, run_again(e, run.module, *run.buffer));
  const std::optional<trace::ClockFit>& fit = axis.fit;
  XT_TRY(const trace::RecordView view, run.buffer->view(run.spliced.map));
  const std::vector<wire::WarpHeader> headers = header_array(view.headers);
  // Without a fit, from what warps read; cycles as nanoseconds when the launch is too short for that to tell.
  const double estimated = fit ? 0 : trace::ClockModel::estimate_ghz(map.layout, headers).value_or(0);
  const trace::ClockModel clocks = fit ? trace::ClockModel(*fit, map.layout, headers)
                                       : trace::ClockModel(map.layout, headers, estimated > 0 ? estimated : 1.0);
  const double ghz = fit ? clocks.sm_clock_ghz() : estimated;

  XT_TRY(trace::TraceMeta meta, trace_meta(e, config, run.kind, map));
  meta.identity.sm_clock_ghz = ghz;
  meta.headers = headers;
  meta.identity.notes.emplace_back("time axis", clocks.statement() + (axis.missing.empty() ? "" : "; no line through readings around the launch: " + axis.missing));
  XT_TRY(const auto trace_file, trace::TraceFileWriter::create(file_path, meta));
  XT_TRY(const auto timeline,
         trace::PerfettoExporter::create(timeline_path, map, run.kind, clocks, meta.labels, {.max_slices = e.options.max_slices}));
  trace::DecodeOptions options{view.table, false, {}};
  XT_TRY(const trace::DecodeSummary summary,
         trace::decode(view.map, run.kind, view.headers, view.read, options, [&](const trace::WarpTrace& t) -> Status {
           XT_TRY_STATUS(trace_file->add(t));
           return timeline->add(t);
         }));
  // Where warps wait, another replay has another number of records.
  if ((run.semantics.path == diff::PathMatch::equal && summary.records != run.summary.records) || !summary.losses.none())
    return device("the replay for the trace file recorded {} events, the judged one {}: nothing was written",
                  summary.records, run.summary.records);
  XT_TRY_STATUS(trace_file->finish(summary));
  XT_TRY_STATUS(timeline->finish());
  return std::vector<diff::Artefact>{{"trace", file_path.string()}, {"timeline", timeline_path.string()}};
}

namespace {

Result<diff::Artefact> write_table(const EmitContext& e, const std::string& name, const std::string& text,
                                   const std::string& csv, const std::string& json) {
  XT_TRY(const fs::path base, trace_path(e, name));
  XT_TRY_STATUS(write_file(base.string() + ".txt", text));
  XT_TRY_STATUS(write_file(base.string() + ".csv", csv));
  XT_TRY_STATUS(write_file(base.string() + ".json", json));
  return diff::Artefact{"table", base.string() + ".csv"};
}

}  // namespace

Status emit_own_table(const EmitContext& e, diff::ConfigReport& config, const std::string& text, const std::string& csv,
                      const std::string& json) {
  XT_TRY(diff::Artefact file, write_table(e, stem_of(e, config), text, csv, json));
  config.artefacts.push_back(std::move(file));
  config.table_json = json;
  return {};
}

Status keep_code(const fs::path& folder, const std::string& stem, const diff::ConfigReport& config, ByteView cubin) {
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (ec) return environment("can not create {}: {}", folder.string(), ec.message());
  return write_file(folder / (with_config(stem, config) + ".cubin"), cubin);
}

Result<std::vector<diff::Artefact>> emit_table(const EmitContext& e, const std::string& suffix,
                                               const std::vector<trace::InstructionRow>& rows) {
  XT_TRY(diff::Artefact file, write_table(e, e.stem + suffix, trace::render_text(rows), trace::render_csv(rows),
                                          trace::render_json(rows)));
  return std::vector<diff::Artefact>{std::move(file)};
}

}  // namespace xtrace::cli
