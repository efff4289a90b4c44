#include "tools/xtrace/replay/emit.h"

#include "base/file.h"
#include "instrument/cubin/kernel_info.h"
#include "tools/xtrace/kernel_name.h"
#include "trace/perfetto_export.h"
#include "trace/trace_file.h"

namespace xtrace::cli {
namespace {

namespace fs = std::filesystem;

std::string file_sample(uint32_t one_in) { return one_in == 1 ? "" : fmt::format("-cta1in{}", one_in); }

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

Result<std::vector<diff::Artefact>> emit_trace(const EmitContext& e, TraceRun& run, const diff::ConfigReport& config) {
  std::error_code ec;
  fs::create_directories(e.options.traces, ec);
  if (ec) return environment("can not create {}: {}", e.options.traces.string(), ec.message());
  const wire::AddressMap& map = run.map;
  const std::string name = e.stem + "-" + config.probe + file_sample(map.layout.one_in);
  const fs::path trace_path = e.options.traces / (name + ".xtrace"), timeline_path = e.options.traces / (name + ".pftrace");

  // The buffer may hold the records of a timing launch since: record once more, as it was judged.
  replay::Backend& backend = e.c.backend;
  XT_TRY_STATUS(run.buffer->clear(true));
  XT_TRY_STATUS(run_restored(backend, run.module));
  if (e.options.compare) {
    diff::SemanticEvidence again;
    XT_TRY_STATUS(compare_now(e.c, run.module, again));
    if (again.output != diff::OutputMatch::equal && again.output != diff::OutputMatch::unstable_only)
      return device("the replay for the trace file changed the output: {}", again.output_text);
  }
  XT_TRY(const trace::RecordView view, run.buffer->view(run.spliced.map));
  const std::vector<wire::WarpHeader> headers = header_array(view.headers);
  const bundle::LaunchRecord& launch = e.c.launch.record;
  const double ghz = trace::ClockModel::estimate_ghz(map.layout, headers).value_or(0);
  const double axis_ghz = ghz > 0 ? ghz : 1.0;   // cycles as nanoseconds when the launch is too short to tell

  trace::TraceMeta meta;
  meta.identity = {.bundle = e.options.bundle.string(),
                   .launch_ordinal = launch.ordinal,
                   .kernel = launch.kernel,
                   .code = launch.code,
                   .grid = launch.grid,
                   .block = launch.block,
                   .sm = backend.info().sm,
                   .device = backend.info().device,
                   .sm_clock_ghz = ghz,
                   .verdict = std::string(diff::name_of(config.judgement.overall)),
                   .notes = {{"sample", config.sample}}};
  meta.kind = run.kind;
  meta.map = map;
  meta.headers = headers;
  meta.labels = trace::block_labels(map, block_lines(map, e.sources));
  XT_TRY(const auto trace_file, trace::TraceFileWriter::create(trace_path, meta));
  XT_TRY(const auto timeline,
         trace::PerfettoExporter::create(timeline_path, map, run.kind, trace::ClockModel(map.layout, headers, axis_ghz),
                                         meta.labels, {.max_slices = e.options.max_slices}));
  trace::DecodeOptions options{view.table, false, {}};
  XT_TRY(const trace::DecodeSummary summary,
         trace::decode(view.map, run.kind, view.headers, view.read, options, [&](const trace::WarpTrace& t) -> Status {
           XT_TRY_STATUS(trace_file->add(t));
           return timeline->add(t);
         }));
  if (summary.records != run.summary.records || !summary.losses.none())
    return device("the replay for the trace file recorded {} events, the judged one {}: nothing was written",
                  summary.records, run.summary.records);
  XT_TRY_STATUS(trace_file->finish(summary));
  XT_TRY_STATUS(timeline->finish());
  return std::vector<diff::Artefact>{{"trace", trace_path.string()}, {"timeline", timeline_path.string()}};
}

Status keep_code(const fs::path& folder, const std::string& stem, const diff::ConfigReport& config, uint32_t one_in,
                 ByteView cubin) {
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (ec) return environment("can not create {}: {}", folder.string(), ec.message());
  return write_file(folder / (stem + "-" + config.probe + file_sample(one_in) + ".cubin"), cubin);
}

Result<std::vector<diff::Artefact>> emit_table(const EmitContext& e, const std::string& suffix,
                                               const std::vector<trace::InstructionRow>& rows) {
  std::error_code ec;
  fs::create_directories(e.options.traces, ec);
  if (ec) return environment("can not create {}: {}", e.options.traces.string(), ec.message());
  const fs::path base = e.options.traces / (e.stem + suffix);
  XT_TRY_STATUS(write_file(base.string() + ".txt", trace::render_text(rows)));
  XT_TRY_STATUS(write_file(base.string() + ".csv", trace::render_csv(rows)));
  XT_TRY_STATUS(write_file(base.string() + ".json", trace::render_json(rows)));
  return std::vector<diff::Artefact>{{"table", base.string() + ".csv"}};
}

}  // namespace xtrace::cli
