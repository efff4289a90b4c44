#include "tools/xtrace/replay/point_run.h"

#include <algorithm>

#include "tools/xtrace/replay/sample_on_launch.h"
#include "trace/perfetto_export.h"
#include "trace/plain_slots.h"
#include "trace/point_tables.h"
#include "trace/trace_file.h"

namespace xtrace::cli {
namespace {

using instrument::ProbeKind;

// Events go to each of them.
class Both final : public trace::PointVisitor {
 public:
  Both(trace::PointVisitor& a, trace::PointVisitor& b) : a_(a), b_(b) {}
  Status begin(const trace::PointWarp& w) override {
    XT_TRY_STATUS(a_.begin(w));
    return b_.begin(w);
  }
  Status event(const trace::PointEvent& e) override {
    XT_TRY_STATUS(a_.event(e));
    return b_.event(e);
  }
  Status end(const trace::PointWarp& w) override {
    XT_TRY_STATUS(a_.end(w));
    return b_.end(w);
  }

 private:
  trace::PointVisitor &a_, &b_;
};

bool is_barrier(const std::string& sass) {
  const size_t at = sass.starts_with('@') ? sass.find(' ') + 1 : 0;
  return std::string_view(sass).substr(at).starts_with("BAR.") || std::string_view(sass).substr(at).starts_with("BAR ");
}

std::vector<bool> barriers_of(const LaunchContext& c, const wire::AddressMap& map) {
  std::vector<bool> barriers;
  for (const wire::Point& p : map.points) {
    if (barriers.size() <= p.site) barriers.resize(p.site + 1, false);
    barriers[p.site] = is_barrier(c.splicer.text(OrigPc{p.pc}));
  }
  return barriers;
}

Result<std::vector<wire::WarpHeader>> starts_of(const LaunchContext& c, PointRun::Part& part) {
  const wire::SlotLayout& l = part.buffer->layout();
  if (!l.wraps) return trace::warp_starts(part.of.spliced.map, part.buffer->reader(), part.buffer->entries());
  std::vector<wire::WarpHeader> headers(l.warps);
  XT_TRY(const Bytes bytes, c.backend.read(DevPtr{l.headers}, headers.size() * sizeof(wire::WarpHeader)));
  XT_CHECK(bytes.size() == headers.size() * sizeof(wire::WarpHeader), "headers that were read whole");
  std::memcpy(headers.data(), bytes.data(), bytes.size());
  return headers;
}

// One replay, decoded into the analysis of all parts.
class Replayer {
 public:
  Replayer(LaunchContext& c, PointRun& run, const Sample& sample, const Drawn& drawn, bool compare, const replay::Resources& clean)
      : c_(c), run_(run), sample_(sample), drawn_(drawn), compare_(compare), clean_(clean) {}

  Status replay(uint32_t number) {
    const instrument::Splicer splicer = c_.splicer.sparse({sample_.sites_one_in, number, sample_.nth});
    LaunchContext local{c_.backend, c_.launch, splicer, c_.reference, c_.warps, c_.warps_per_cta};
    XT_TRY(const std::vector<wire::Point> points, splicer.points(run_.probe));
    XT_TRY(const Counts counts, count_launch(local, drawn_, run_.probe));
    const bool varies = !counts.stable || splicer.waits();
    if (varies && drawn_.rotates) return parts_differ();
    XT_TRY(std::shared_ptr<TraceBuffer> buffer, slots(points, counts, varies));
    instrument::Plan plan;
    plan.probe = run_.probe;
    plan.one_in = drawn_.one_in;
    plan.seed = drawn_.seed;
    plan.select = drawn_.select;
    plan.cta_part = cta_parts_of(c_, drawn_).front();
    plan.rotates = run_.rotated = drawn_.rotates;
    XT_TRY(instrument::Spliced spliced, splicer.splice(plan, buffer->layout()));
    const wire::AddressMap map = spliced.map;
    XT_TRY(std::vector<CtaPart> classes, load_cta_parts(local, drawn_, std::move(spliced)));
    XT_TRY(const replay::Resources resources, c_.backend.resources(classes.front().module));
    diff::SemanticEvidence& e = run_.semantics;
    trace::PointAnalysis own(map, {});
    Both both(own, *run_.analysis);
    const std::vector<uint64_t> counted(counts.mem_bytes.begin(), counts.mem_bytes.end());
    trace::DecodeSummary summary;
    for (CtaPart& of : classes) {
      PointRun::Part part{buffer, std::move(of), number, varies};
      XT_TRY_STATUS(buffer->clear());
      XT_TRY_STATUS(run_restored(c_.backend, part.of.module));
      if (compare_) XT_TRY_STATUS(compare_now(local, part.of.module, e));
      const std::vector<wire::BlockCount> before = own.blocks();
      XT_TRY(const std::vector<wire::WarpHeader> starts, starts_of(local, part));
      XT_TRY(const trace::DecodeSummary decoded,
             trace::decode_points(part.of.spliced.map, starts, buffer->reader(), buffer->entries(),
                                  varies ? std::span<const uint64_t>() : std::span<const uint64_t>(counted), number, both));
      part.of.records = decoded.records;
      part.of.blocks = less(own.blocks(), before);
      summary.add(decoded);
      run_.parts.push_back(std::move(part));
    }
    run_.records += summary.records;
    run_.losses.merge(summary.losses);
    // Of every nth execution, and of warps on some SMs, the blocks' counts say nothing; what each warp writes was counted as it is written.
    const bool by_warp = sample_.nth > 1 || !drawn_.select.sms.empty();
    if (e.path != diff::PathMatch::differs && by_warp && varies) {
      e.path = diff::PathMatch::unstable;
      e.path_text = "a warp writes more or less in each replay";
    } else if (e.path != diff::PathMatch::differs && by_warp) {
      compare_warps(summary, e);
    } else if (e.path != diff::PathMatch::differs) {
      wire::AddressMap path = map;
      for (size_t b = 0; b < path.blocks.size(); ++b) path.blocks[b].record_bytes = own.counted_blocks()[b] ? wire::chunk_bytes : 0;
      XT_TRY_STATUS(compare_path(local, path, counts, own.blocks(), e));
    }
    impossible_ += own.impossible();
    checked_ += own.checked();
    if (first_.empty()) first_ = own.first_impossible();
    const diff::SpatialEvidence space = space_of(local, run_.parts.back().of.spliced.report, clean_, resources, summary.bytes_written);
    const bool first = run_.parts.size() == classes.size();
    if (first || space.registers_after > run_.space.registers_after || space.ctas_per_sm_after < run_.space.ctas_per_sm_after)
      run_.space = space;
    return {};
  }

  void finish() {
    diff::SemanticEvidence& e = run_.semantics;
    add_clean_facts(c_, e);
    add_losses(run_.losses, e);
    e.invariant_violations = impossible_;
    e.invariants = impossible_ == 0 ? diff::Invariants::hold : diff::Invariants::violated;
    e.invariants_text = impossible_ == 0 ? fmt::format("{} events and intervals that can be", checked_) : first_;
    run_.analysis->finish();
    run_.module = run_.parts.front().of.module;
    run_.spliced = run_.parts.front().of.spliced;
  }

 private:
  Result<std::unique_ptr<TraceBuffer>> slots(const std::vector<wire::Point>& points, const Counts& counts, bool varies) const {
    uint32_t largest = wire::chunk_bytes;
    for (const wire::Point& p : points) largest = std::max(largest, p.record_bytes);
    const instrument::RecordForm form = instrument::form_of(points);
    if (!varies) return TraceBuffer::create(c_.backend, with_heads(c_, drawn_, counts.mem_bytes), largest, false, form);
    // Slots of records with columns have no cursor that says how many there were: a warp without room for the zero behind them is found.
    return TraceBuffer::create(c_.backend, room_for_more(counts.mem_bytes, largest), largest, !form.lines && !form.sectors, form);
  }

  LaunchContext& c_;
  PointRun& run_;
  const Sample& sample_;
  const Drawn& drawn_;
  bool compare_;
  const replay::Resources& clean_;
  uint64_t impossible_ = 0, checked_ = 0;
  std::string first_;
};

// Intervals of one warp as slices.
class Timeline {
 public:
  static Result<std::unique_ptr<Timeline>> create(const EmitContext& e, const PointRun& run, const std::string& path,
                                                  const std::vector<wire::WarpHeader>& starts, double ghz) {
    std::unique_ptr<Timeline> t(new Timeline);
    t->map_ = run.map;
    t->map_.sites.clear();
    std::vector<std::string> labels;
    for (const wire::Point& p : run.map.points) {
      if (p.site >= t->map_.sites.size()) {
        t->map_.sites.resize(p.site + 1);
        labels.resize(p.site + 1);
      }
      t->map_.sites[p.site].pc = p.pc;
      const std::string source = source_at(e.sources, p.pc);
      labels[p.site] = p.site < run.names.size() ? run.names[p.site]
                                                 : fmt::format("{} {}", e.c.splicer.text(OrigPc{p.pc}), source.empty() ? fmt::format("{:#x}", p.pc) : source);
    }
    XT_TRY(t->exporter_, trace::PerfettoExporter::create(path, t->map_, trace::TraceKind::pair,
                                                         trace::ClockModel(run.parts.front().of.spliced.map.layout, starts, ghz > 0 ? ghz : 1.0),
                                                         std::move(labels), {.max_slices = e.options.max_slices}));
    return t;
  }
  void add(const trace::PointAnalysis::Interval& i) { intervals_.push_back(i); }
  Status end(const trace::PointWarp& w) {
    std::stable_sort(intervals_.begin(), intervals_.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    warp_.clear();
    warp_.warp = w.warp;
    warp_.cta = w.cta;
    warp_.warp_in_cta = w.warp_in_cta;
    warp_.sm = w.sm;
    warp_.start_clock = w.start_clock;
    for (const auto& i : intervals_) {
      warp_.kind.push_back(wire::RecordKind::pair);
      warp_.index.push_back(i.site);
      warp_.mask.push_back(i.mask);
      warp_.clock.insert(warp_.clock.end(), {i.begin, i.end});
      warp_.clock_begin.push_back(static_cast<uint32_t>(warp_.clock.size()));
    }
    intervals_.clear();
    return exporter_->add(warp_);
  }
  Status finish() {
    XT_TRY_STATUS(exporter_->finish());
    return {};
  }

 private:
  wire::AddressMap map_;
  std::unique_ptr<trace::PerfettoExporter> exporter_;
  std::vector<trace::PointAnalysis::Interval> intervals_;
  trace::WarpTrace warp_;
};

trace::Sheet table_of(ProbeKind probe, const trace::PointTableSources& from) {
  switch (probe) {
    case ProbeKind::branch: return trace::branch_table(from);
    case ProbeKind::sync: return trace::sync_table(from);
    case ProbeKind::range: return trace::range_table(from);
    case ProbeKind::latency: return trace::latency_table(from);
    default: return trace::value_table(from);
  }
}

}  // namespace

Result<std::unique_ptr<ProbeRun>> run_points(LaunchContext& c, ProbeKind probe, const Sample& sample, const Drawn& drawn, bool rotate,
                                             bool compare, const replay::Resources& clean) {
  auto run = std::make_unique<PointRun>();
  run->probe = probe;
  run->map.blocks = c.splicer.blocks();
  // Of sparse sites each part leaves out what its own points tell, and all parts together nothing; nor is anything of every nth execution.
  XT_TRY(run->map.points, sample.sites_one_in > 1 || sample.nth > 1 ? c.splicer.points_apart(probe) : c.splicer.points(probe));
  run->map.sites_one_in = sample.sites_one_in;
  run->names = c.splicer.region_names(probe);
  run->analysis.emplace(run->map, barriers_of(c, run->map));
  Replayer replayer(c, *run, sample, drawn, compare, clean);
  for (uint32_t k = 0; k < parts_of(c.splicer, sample, rotate); ++k) {
    XT_TRY(const std::vector<wire::Point> points, c.splicer.sparse({sample.sites_one_in, k}).points(probe));
    const bool some = std::any_of(points.begin(), points.end(), [](const wire::Point& p) { return p.record_bytes != 0; });
    if (some || !rotate) XT_TRY_STATUS(replayer.replay(k));
  }
  replayer.finish();
  run->map.layout = run->spliced.map.layout;
  run->map.layout.all_parts = drawn.rotates;
  run->map.original_of_new = run->spliced.map.original_of_new;
  return run;
}

Status emit_points(const EmitContext& e, PointRun& run, diff::ConfigReport& config) {
  const std::string name = stem_of(e, config);
  XT_TRY(const auto path, trace_path(e, name + ".xtrace"));
  XT_TRY(const auto timeline_path, trace_path(e, name + ".pftrace"));
  const bool has_intervals = run.probe == ProbeKind::sync || run.probe == ProbeKind::range || run.probe == ProbeKind::latency;
  std::unique_ptr<trace::TraceFileWriter> file;
  std::unique_ptr<Timeline> timeline;
  trace::DecodeSummary all;
  for (PointRun::Part& part : run.parts) {
    XT_TRY_STATUS(run_again(e, part.of.module, *part.buffer));
    XT_TRY(const std::vector<wire::WarpHeader> starts, starts_of(e.c, part));
    const double ghz = trace::ClockModel::estimate_ghz(part.of.spliced.map.layout, starts).value_or(0);
    if (!file) {
      XT_TRY(trace::TraceMeta meta, trace_meta(e, config, trace::TraceKind::point, run.map));
      meta.identity.sm_clock_ghz = ghz;
      if (!run.rotated) meta.headers = starts;   // else each WARP has its own
      XT_TRY(file, trace::TraceFileWriter::create(path, meta));
      // Several replays have no time in common.
      if (has_intervals && run.parts.size() == 1) {
        XT_TRY(timeline, Timeline::create(e, run, timeline_path.string(), starts, ghz));
      }
    }
    trace::PointAnalysis intervals(part.of.spliced.map, {});
    if (timeline) {
      intervals.on_interval = [&](const trace::PointWarp&, const trace::PointAnalysis::Interval& i) -> Status {
        timeline->add(i);
        return {};
      };
      intervals.on_end = [&](const trace::PointWarp& w) { return timeline->end(w); };
    }
    Both both(intervals, file->points());
    XT_TRY(const trace::DecodeSummary summary,
           trace::decode_points(part.of.spliced.map, starts, part.buffer->reader(), part.buffer->entries(), {}, part.number, both));
    if (!summary.losses.none() || (!part.varies && summary.records != part.of.records))
      return device("the replay for the trace file recorded {} events, the judged one {}: nothing was written", summary.records,
                    part.of.records);
    all.add(summary);
  }
  XT_TRY_STATUS(file->finish(all));
  config.artefacts.push_back({"trace", path.string()});
  if (timeline) {
    XT_TRY_STATUS(timeline->finish());
    config.artefacts.push_back({"timeline", timeline_path.string()});
  }
  trace::PointTableSources from;
  from.map = &run.map;
  from.analysis = &*run.analysis;
  from.sass = [&](uint32_t pc) { return e.c.splicer.text(OrigPc{pc}); };
  from.source = [&](uint32_t pc) { return source_at(e.sources, pc); };
  from.names = run.names;
  trace::Sheet sheet = table_of(run.probe, from);
  XT_TRY_STATUS(emit_own_table(e, config, trace::render_text(sheet), trace::render_csv(sheet), trace::render_json(sheet)));
  const size_t more = sheet.rows.size() - std::min(sheet.rows.size(), most_rows);
  sheet.rows.resize(sheet.rows.size() - more);
  config.table_text = trace::render_text(sheet);
  if (more != 0) config.table_text += fmt::format("{} more in the files of the table\n", more);
  return {};
}

}  // namespace xtrace::cli
