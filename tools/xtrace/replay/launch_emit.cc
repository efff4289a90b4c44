// Files of what is trusted.
#include <algorithm>
#include <map>
#include <set>

#include "tools/xtrace/replay/launch_run.h"

namespace xtrace::cli {
namespace {
using diff::ConfigReport;
}  // namespace

Status LaunchReplay::emit() {
  if (!context_ || !options_.emit) return {};
  const SourceMap sources = source_map(launch_.code, launch_.record.kernel);
  const EmitContext e{*context_, options_, sources, stem_of(launch_.record)};
  for (Run& run : runs_) {
    ConfigReport& config = report_.configs[run.config];
    if (config.judgement.overall != diff::Verdict::trusted) continue;
    if (options_.search && report_.chosen != run.config) continue;
    Status emitted;
    if (auto* trace = dynamic_cast<TraceRun*>(run.probe.get()))
      emitted = emit_trace_of(e, *trace, config);
    else if (auto* points = dynamic_cast<PointRun*>(run.probe.get()))
      emitted = emit_points(e, *points, config);
    else if (auto* count = dynamic_cast<CountRun*>(run.probe.get()))
      emitted = emit_count(e, *count, config);
    else
      emitted = emit_mem(e, dynamic_cast<MemRun&>(*run.probe), config);
    if (emitted) continue;
    if (emitted.error().kind == ErrorKind::internal) return emitted;
    config.artefacts.clear();
    report_.warnings.push_back("no trace file: " + emitted.error().to_string());
    if (emitted.error().kind == ErrorKind::environment) report_.not_written.push_back(emitted.error().to_string());
  }
  return {};
}

Status LaunchReplay::emit_trace_of(const EmitContext& e, TraceRun& run, ConfigReport& config) {
  const trace::GradedTimes* times = nullptr;
  const std::map<uint32_t, std::string>* refused = nullptr;
  std::set<uint32_t> unconverged;
  std::string no_pair = "no pair probe in this replay";
  for (const ConfigReport& c : report_.configs)
    if (c.probe == "pair")
      no_pair = !c.refused.empty() ? "pair was refused" : fmt::format("pair is {}: its times are not shown", diff::name_of(c.judgement.overall));
  for (const Pairs& p : pairs_)
    if (report_.configs[p.config].judgement.overall == diff::Verdict::trusted) {
      times = &p.rotation.times;
      refused = &p.rotation.refused;
      for (const diff::IntervalRow& row : report_.configs[p.config].intervals->rows)
        if (!row.converged) unconverged.insert(row.pc);
    }
  XT_TRY(config.artefacts, emit_trace(e, run, config));
  if (run.kind != trace::TraceKind::inst && times == nullptr) return {};
  trace::TableSources table;
  table.map = &run.map;
  table.counts = &*run.aggregate;
  table.times = times;
  table.sass = [&](uint32_t pc) { return splicer_->text(OrigPc{pc}); };
  table.source = [&](uint32_t pc) { return source_at(e.sources, pc); };
  table.refusal = [&](uint32_t pc) {
    if (refused == nullptr) return no_pair;
    const auto why = refused->find(pc);
    return why == refused->end() ? std::string() : why->second;
  };
  table.hidden = [&](uint32_t pc) {
    return std::string(unconverged.contains(pc) ? "not converged: another answer at half the sampling rate" : "");
  };
  const std::string suffix = config.probe == "inst" ? "" : "-" + config.probe;
  const std::string sample = sample_suffix(config);
  XT_TRY(const auto tables, emit_table(e, suffix + sample, trace::instruction_table(table)));
  config.artefacts.insert(config.artefacts.end(), tables.begin(), tables.end());
  // The pairs' own table is the one with the times of the dense trace beside it.
  for (const Pairs& p : pairs_)
    if (&p.rotation.times == times &&
        (report_.configs[p.config].artefacts.empty() || run.kind == trace::TraceKind::inst))
      report_.configs[p.config].artefacts = tables;
  return {};
}

}  // namespace xtrace::cli
