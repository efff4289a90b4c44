#include "tools/xtrace/replay/count_run.h"

#include "instrument/slot_plan.h"
#include "trace/aggregate.h"

namespace xtrace::cli {

namespace {

Status compare_warps(const LaunchContext& c, const Counts& counts, ByteView headers, CountRun& run) {
  uint64_t warps = 0, changed = 0, by_warp = 0, by_block = 0;
  for (size_t w = 0; w < counts.block_bytes.size(); ++w) {
    XT_TRY(const auto h, read_at<wire::WarpHeader>(headers, w * sizeof(wire::WarpHeader), "header"));
    if (h.start_clock == 0) continue;
    ++warps;
    by_warp += h.bytes / wire::chunk_bytes;   // a block record each
    changed += h.bytes != counts.block_bytes[w] || h.exit_clock_lo != counts.inst_bytes[w] || h.sm != counts.mem_bytes[w];
  }
  for (uint32_t b = 0; b < run.blocks.size(); ++b)   // of sparse sites those of this part
    if (c.splicer.record_bytes(instrument::ProbeKind::block, b) != 0) by_block += run.blocks[b].warps;
  diff::SemanticEvidence& e = run.semantics;
  e.path = changed == 0 && by_warp == by_block ? diff::PathMatch::equal : diff::PathMatch::differs;
  e.path_text = changed != 0 ? fmt::format("{} of {} warps executed other blocks than were counted of them", changed, warps)
                             : fmt::format("{} executions of blocks in {} warps, as counted of them; {} by block", by_warp, warps, by_block);
  return {};
}

}  // namespace

CountRun::~CountRun() {
  if (buffer.value != 0) (void)backend.release(buffer);
}

Result<std::unique_ptr<CountRun>> run_counted(LaunchContext& c, const Drawn& drawn, const Counts& counts,
                                              bool compare, const replay::Resources& clean) {
  // Which warps are on those SMs differs between replays: each of them is held against its own counted bytes, and these against the
  // counters of blocks.
  const bool by_sm = !drawn.select.sms.empty();
  if (by_sm && c.splicer.one_sum_a_replay())
    return with_hint(unsupported("the kernel leaves few uniform registers: not all that a warp is held against can be counted in one replay"),
                     "count all of them, or sample CTAs");
  if (by_sm && (!counts.stable || c.splicer.waits()))
    return with_hint(unsupported("warps take other paths in each replay: counts of those that run on some SMs can not be compared"),
                     "count all of them, or sample CTAs");
  auto run = std::make_unique<CountRun>(c.backend);
  const auto blocks = static_cast<uint32_t>(c.splicer.blocks().size());
  instrument::SlotPlan plan = instrument::plan_counters(c.warps, blocks, by_sm);
  XT_TRY(run->buffer, c.backend.allocate(plan.total_bytes, "block counters"));
  run->bytes = plan.total_bytes;
  instrument::place(plan, run->buffer.value);
  instrument::Plan count{instrument::ProbeKind::count, {}, drawn.at_once(), drawn.seed, {}, {}, instrument::ProbeKind::mem, drawn.select};
  count.counts_alone = !by_sm;
  for (const wire::BlockCount& b : counts.blocks) count.executions.push_back(b.warps);
  XT_TRY(run->spliced, c.splicer.splice(count, plan.layout));
  XT_TRY(run->module, c.backend.load(run->spliced.cubin));
  XT_TRY(const replay::Resources resources, c.backend.resources(run->module));
  XT_TRY_STATUS(c.backend.fill(run->buffer, plan.total_bytes, 0));
  XT_TRY_STATUS(run_restored(c.backend, run->module));
  if (compare) XT_TRY_STATUS(compare_now(c, run->module, run->semantics));
  add_clean_facts(c, run->semantics);
  const uint64_t counters = run->buffer.value + plan.total_bytes - plan.layout.counters;
  XT_TRY(const Bytes bytes, c.backend.read(DevPtr{plan.layout.counters}, counters));
  run->blocks = instrument::sum_counters(run->spliced.map, bytes);
  run->blocks.resize(blocks);
  for (wire::Block& b : run->spliced.map.blocks) b.record_bytes = wire::chunk_bytes;   // every block has counters
  if (by_sm) {
    XT_TRY(const Bytes headers, c.backend.read(DevPtr{plan.layout.headers}, uint64_t{c.warps} * sizeof(wire::WarpHeader)));
    XT_TRY_STATUS(compare_warps(c, counts, headers, *run));
  } else {
    XT_TRY_STATUS(compare_path(c, run->spliced.map, counts, run->blocks, run->semantics));
  }
  run->semantics.invariants = diff::Invariants::not_applicable;   // counts are no sequence
  run->space = space_of(c, run->spliced.report, clean, resources, counters);
  for (const wire::BlockCount& b : run->blocks) run->records += b.warps;
  return run;
}

Status emit_count(const EmitContext& e, const CountRun& run, diff::ConfigReport& config) {
  trace::Aggregate aggregate(run.spliced.map, trace::TraceKind::block);
  aggregate.set_counts(run.blocks);
  trace::TableSources table;
  table.map = &run.spliced.map;
  table.counts = &aggregate;
  table.sass = [&](uint32_t pc) { return e.c.splicer.text(OrigPc{pc}); };
  table.source = [&](uint32_t pc) { return source_at(e.sources, pc); };
  const std::vector<trace::InstructionRow> rows = trace::instruction_table(table);
  return emit_own_table(e, config, trace::render_counts(rows), trace::render_csv(rows), trace::render_json(rows));
}

}  // namespace xtrace::cli
