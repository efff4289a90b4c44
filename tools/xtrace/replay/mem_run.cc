#include "tools/xtrace/replay/mem_run.h"

#include <algorithm>
#include <map>
#include <set>

#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/arch.h"
#include "tools/xtrace/replay/sectors.h"
#include "trace/trace_file.h"

namespace xtrace::cli {
namespace {

// Each of the not covered instructions that was executed, or may have been. `polling`, by block: loops that are left out.
std::vector<std::string> not_covered(const LaunchContext& c, const Counts& counts, const std::vector<bool>& polling) {
  std::vector<std::string> out;
  std::map<OrigPc, std::string_view> reasons;
  for (const auto& i : c.splicer.instructions())
    if (polling[i.block] && i.space != sass::MemSpace::none && i.space != sass::MemSpace::constant && c.splicer.covers(i.pc))
      reasons[i.pc] = "asks, in a loop, whether others are done: it is executed another number of times in each replay";
  for (const auto& [pc, reason] : c.splicer.not_covered()) reasons[pc] = reason;
  for (const auto& [pc, reason] : reasons) {
    bool executed = false;
    for (size_t b = 0; b < counts.blocks.size(); ++b) {
      const wire::Block& block = c.splicer.blocks()[b];
      const bool inside = pc.value >= block.first_pc && pc.value - block.first_pc < block.instructions * trace::inst_bytes;
      executed |= inside && counts.blocks[b].warps != 0;
    }
    if (executed) out.push_back(fmt::format("{} at {:#x}: {}", c.splicer.text(pc), pc.value, reason));
  }
  return out;
}

// Where recorded regions are, as the module sees it; 0: nowhere, as it has no bytes.
Result<std::vector<uint64_t>> region_addresses(const LaunchContext& c, replay::ModuleHandle module) {
  std::vector<uint64_t> addresses;
  const std::vector<bundle::Region>& regions = c.launch.record.regions;
  for (size_t i = 0; i < regions.size(); ++i) {
    addresses.push_back(0);
    if (regions[i].size == 0) continue;
    XT_TRY(const DevPtr address, c.backend.region_address(module, i));
    addresses.back() = address.value;
  }
  return addresses;
}

// The memory of the launch, in order of address.
std::vector<trace::MemoryRange> memory_of(const LaunchContext& c, const std::vector<uint64_t>& addresses) {
  std::vector<trace::MemoryRange> memory;
  const std::vector<bundle::Region>& regions = c.launch.record.regions;
  for (size_t i = 0; i < regions.size(); ++i)
    if (regions[i].size != 0) memory.push_back({addresses[i], addresses[i] + regions[i].size});
  std::sort(memory.begin(), memory.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return memory;
}

constexpr uint32_t reserved_shared_bytes = 1024;   // of a CTA [CUDA C++ programming guide, compute capability 8.x and later]

Result<std::unique_ptr<LaunchTensorMaps>> maps_of(const LaunchContext& c) {
  XT_TRY(const cubin::Image image, cubin::Image::parse(c.launch.code));
  XT_TRY(const cubin::KernelInfo info, cubin::kernel_info(image, c.launch.record.kernel));
  XT_TRY(const sass::Arch* arch, sass::find_arch(image.sm()));
  return std::make_unique<LaunchTensorMaps>(c.launch, info.param_base != 0 ? info.param_base : arch->bank0_params);
}

}  // namespace

bool low_words_may_tell(const bundle::LaunchRecord& launch) {
  std::vector<trace::MemoryRange> memory;
  for (const bundle::Region& r : launch.regions)
    if (r.kind != bundle::RegionKind::global) memory.push_back({r.address.value, r.address.value + r.size});
  return memory.empty() || wire::HighWords::of(memory).known();
}

namespace {

std::vector<uint32_t> lengths_of(const wire::AddressMap& map) {
  std::vector<uint32_t> bytes;
  for (const wire::Block& b : map.blocks) bytes.push_back(b.record_bytes);
  return bytes;
}

// Buffer and code of a MemRun; in whole sectors a full block's record is as long as the splicer makes it, so it is made once before it is
// counted. `bytes`: of each warp's records. False: they were counted twice and differ.
Result<bool> make_records(LaunchContext& c, const Drawn& drawn, const Counts& counts, const instrument::Plan& plan, instrument::RecordForm form,
                          MemRun& run, std::vector<uint32_t>& bytes) {
  constexpr int most_trials = 3;
  bytes = counts.mem_bytes;
  std::vector<uint32_t> lengths;
  if (form.whole_sectors) {
    XT_TRY(const instrument::Spliced trial, trial_splice(c, plan, form));
    lengths = lengths_of(trial.map);
  }
  for (int trial = 0; trial < most_trials; ++trial) {
    if (form.whole_sectors) {
      XT_TRY(auto counted, count_records(c, drawn, counts, lengths));
      if (!counted) return false;
      bytes = std::move(*counted);
    }
    run.buffer.reset();
    XT_TRY(run.buffer, TraceBuffer::create(c.backend, with_heads(c, drawn, bytes), c.splicer.largest_record(instrument::ProbeKind::mem), false, form));
    XT_TRY(run.spliced, c.splicer.splice(plan, run.buffer->layout()));
    if (!form.whole_sectors || lengths_of(run.spliced.map) == lengths) return true;
    lengths = lengths_of(run.spliced.map);   // another prologue leaves other registers
  }
  return internal("records of kernel {} are as long each time as where slots lie", c.launch.record.kernel);
}

// Nothing where the records lack high words that the low ones do not tell.
Result<std::unique_ptr<MemRun>> record_addresses(LaunchContext& all, const Drawn& drawn, const Counts& with_all,
                                                        bool compare, const replay::Resources& clean) {
  const auto varies = [] {
    return with_hint(unsupported("two counting replays took different paths: the size of its address records is not known"),
                     "use count, block or inst");
  };
  // What polls is executed another number of times in each replay, and recorded in none.
  const std::vector<bool> polling = all.splicer.polling();
  const bool polls = has_any(polling);
  Counts first = with_all;
  if (polls) {
    XT_TRY(first, count_without_polls(all, drawn, polling));
  }
  if (!first.stable) return drawn.rotates ? parts_differ() : varies();
  // Records are smaller where all lanes come the same way; their bytes are counted knowing that.
  const instrument::Splicer splicer =
      (polls ? all.splicer.without(polling) : all.splicer).counted(first.full(), first.executions());
  // Counting replays may agree by chance: a slot in which every record has its place can be too small for the next one.
  const std::vector<bool> waiting = splicer.waiting();
  for (uint32_t b = 0; b < waiting.size(); ++b)
    if (waiting[b] && splicer.record_bytes(instrument::ProbeKind::mem, b) != 0)
      return with_hint(unsupported("accesses in the loop at {:#x}, which waits for others: how many records it makes is not known",
                                   splicer.blocks()[b].first_pc),
                       "use count, block or inst, or leave them out with --at");
  LaunchContext c{all.backend, all.launch, splicer, all.reference, all.warps, all.warps_per_cta};
  XT_TRY(const Counts counts, polls ? count_without_polls(c, drawn, polling) : count_launch(c, drawn));
  if (!counts.stable || counts.full() != first.full()) return varies();
  const std::vector<uint64_t> executions = counts.executions(), at_first = first.executions();
  for (size_t b = 0; b < executions.size(); ++b) {
    const bool regrouped = first.left_out.regroups(b) || counts.left_out.regroups(b);
    if (!regrouped && executions[b] != at_first[b]) return varies();
  }
  if (!polls) XT_TRY_STATUS(check_bytes(c, counts, instrument::ProbeKind::mem, counts.mem_bytes));
  auto run = std::make_unique<MemRun>();
  instrument::RecordForm form = c.splicer.mem_form();
  if (polls) form.spare_bytes = spare_bytes;
  instrument::Plan plan{instrument::ProbeKind::mem, {}, drawn.one_in, drawn.seed, {}, {}, instrument::ProbeKind::mem, drawn.select,
                        instrument::Around::instruction, polls ? polling : std::vector<bool>()};
  plan.cta_part = cta_parts_of(c, drawn).front();
  plan.rotates = run->rotated = drawn.rotates;
  XT_TRY(form.whole_sectors, in_whole_sectors(c, drawn, plan, form, counts));
  std::vector<uint32_t> bytes;
  XT_TRY(const bool alike, make_records(c, drawn, counts, plan, form, *run, bytes));
  if (!alike) return varies();
  XT_TRY(run->parts, load_cta_parts(c, drawn, std::move(run->spliced)));
  run->module = run->parts.front().module;
  std::vector<std::vector<uint64_t>> regions;             // of each part: a module's variables lie where the loader puts them
  std::vector<std::vector<trace::MemoryRange>> memory;    // likewise
  for (CtaPart& part : run->parts) {
    XT_TRY(regions.emplace_back(), region_addresses(c, part.module));
    memory.push_back(memory_of(c, regions.back()));
    wire::SlotLayout& layout = part.spliced.map.layout;
    layout.memory_highs = wire::HighWords::of(memory.back());
    const std::vector<wire::Access>& accesses = part.spliced.map.accesses;
    const bool lack = std::any_of(accesses.begin(), accesses.end(), [](const wire::Access& a) { return a.high_is_known; });
    if (lack && !layout.memory_highs.known()) {
      XT_TRY_STATUS(unload(c, run->parts));
      return nullptr;
    }
  }
  run->spliced = run->parts.front().spliced;
  run->spliced.map.layout.all_parts = drawn.rotates;
  XT_TRY(const replay::Resources resources, c.backend.resources(run->module));
  diff::SemanticEvidence& e = run->semantics;
  trace::MemAnalysis analysis(run->spliced.map, {});
  XT_TRY(run->maps, maps_of(c));
  // Where variables begin some of it is reserved, which the backend's number may or may not include.
  const uint64_t ctas = std::max<uint64_t>(c.launch.record.cluster.count(), 1);
  analysis.set_moved({resources.static_shared_bytes + reserved_shared_bytes + c.launch.record.dynamic_shared_bytes, static_cast<uint32_t>(ctas)}, run->maps.get());
  std::vector<uint64_t> counted;
  if (counts.is_exact()) counted.assign(bytes.begin(), bytes.end());
  trace::DecodeSummary summary;
  for (CtaPart& part : run->parts) {
    XT_TRY_STATUS(run->buffer->clear());
    XT_TRY_STATUS(run_restored(c.backend, part.module));
    if (compare) XT_TRY_STATUS(compare_now(c, part.module, e));
    const auto number = static_cast<size_t>(&part - run->parts.data());
    analysis.set_memory(std::move(memory[number]));
    run->maps->set_regions(std::move(regions[number]));
    const std::vector<wire::BlockCount> before = analysis.blocks();
    XT_TRY(const trace::DecodeSummary own,
           trace::decode_mem(part.spliced.map, run->buffer->reader(), run->buffer->entries(), counted, analysis));
    part.records = own.records;
    part.blocks = less(analysis.blocks(), before);
    summary.add(own);
  }
  add_clean_facts(c, e);
  run->records = run->own_records = summary.records;
  run->losses = summary.losses;
  run->accesses = analysis.accesses();
  run->not_covered = not_covered(all, counts, polling);
  if (drawn.select.sms.empty())
    XT_TRY_STATUS(compare_path(c, run->spliced.map, counts, analysis.blocks(), e));
  else
    compare_warps(summary, e);
  add_losses(summary.losses, e);
  // Counting replays of a launch whose warps wait may have agreed by chance.
  if (polls && (e.path == diff::PathMatch::differs || e.lost != 0)) {
    XT_TRY(const bool differs, paths_vary(c, drawn, counts));
    if (differs) {
      XT_TRY_STATUS(unload(c, run->parts));
      return drawn.rotates ? parts_differ() : varies();
    }
  }
  e.invariant_violations = analysis.impossible();
  e.invariants = analysis.impossible() == 0 ? diff::Invariants::hold : diff::Invariants::violated;
  e.invariants_text = analysis.impossible() == 0 ? fmt::format("{} addresses aligned, in memory of the launch", analysis.checked())
                                                 : analysis.first_impossible();
  run->space = space_of(c, run->spliced.report, clean, resources, summary.bytes_written);
  run->space.whole_sectors = form.whole_sectors;
  return run;
}

}  // namespace

Result<std::unique_ptr<MemRun>> run_addresses(LaunchContext& c, const Drawn& drawn, const Counts& counts, bool compare,
                                              const replay::Resources& clean) {
  XT_TRY(std::unique_ptr<MemRun> run, record_addresses(c, drawn, counts, compare, clean));
  if (run) return run;
  const instrument::Splicer splicer = c.splicer.with_high_words();
  LaunchContext again{c.backend, c.launch, splicer, c.reference, c.warps, c.warps_per_cta};
  return record_addresses(again, drawn, counts, compare, clean);
}

namespace {

// What one part shows, into the evidence of all: the worst stands.
void add_part(const MemRun& part, MemRun& all) {
  diff::SemanticEvidence& to = all.semantics;
  const diff::SemanticEvidence& from = part.semantics;
  if (from.output > to.output || to.output == diff::OutputMatch::not_compared) to.output = from.output, to.output_text = from.output_text;
  const bool worse_path = from.path == diff::PathMatch::differs || (from.path != diff::PathMatch::equal && to.path == diff::PathMatch::equal);
  if (worse_path && to.path != diff::PathMatch::differs) to.path = from.path, to.path_text = from.path_text;
  if (from.invariants == diff::Invariants::violated && to.invariants != diff::Invariants::violated)
    to.invariants = from.invariants, to.invariants_text = from.invariants_text;
  to.invariant_violations += from.invariant_violations;
  to.lost += from.lost;
  to.distrusted += from.distrusted;
  if (to.losses_text.empty()) to.losses_text = from.losses_text;
  all.records += part.records;
  all.losses.merge(part.losses);
  all.not_covered.insert(all.not_covered.end(), part.not_covered.begin(), part.not_covered.end());
  if (part.space.registers_after > all.space.registers_after || part.space.ctas_per_sm_after < all.space.ctas_per_sm_after)
    all.space = part.space;
}

}  // namespace

Result<std::unique_ptr<MemRun>> rotate_addresses(LaunchContext& c, uint32_t sites_one_in, const Drawn& drawn, bool compare,
                                                 const replay::Resources& clean) {
  std::unique_ptr<MemRun> all;
  const uint32_t parts = std::min(sites_one_in, static_cast<uint32_t>(c.splicer.section_instructions()));
  for (uint32_t part = 0; part < parts; ++part) {
    const instrument::Splicer splicer = c.splicer.sparse({sites_one_in, part});
    const bool last = part + 1 == parts && !all;   // the one that says that there is nothing
    const instrument::Splicer recorded = splicer.without(splicer.polling());
    if (recorded.largest_record(instrument::ProbeKind::mem) == 0 && !last) continue;
    LaunchContext local{c.backend, c.launch, splicer, c.reference, c.warps, c.warps_per_cta};
    XT_TRY(const Counts counts, count_launch(local, drawn));
    bool executed = last;
    for (uint32_t b = 0; b < counts.blocks.size() && !executed; ++b)
      executed = counts.blocks[b].warps != 0 && recorded.record_bytes(instrument::ProbeKind::mem, b) != 0;
    if (!executed) continue;
    XT_TRY(std::unique_ptr<MemRun> run, run_addresses(local, drawn, counts, compare, clean));
    run->part = part;
    if (!all) {
      all = std::move(run);
      continue;
    }
    add_part(*run, *all);
    all->others.push_back(std::move(run));
  }
  add_clean_facts(c, all->semantics);   // later parts may have made more clean replays
  return all;
}

namespace {

// One part's trace file, and its rows of the table.
Status emit_part(const EmitContext& e, MemRun& run, const diff::ConfigReport& as, diff::ConfigReport& config, std::vector<trace::AccessRow>& rows) {
  const std::string name = stem_of(e, as);
  XT_TRY(trace::TraceMeta meta, trace_meta(e, as, trace::TraceKind::mem, run.spliced.map));
  std::set<uint64_t> maps;
  for (const trace::AccessStats& s : run.accesses)
    for (const auto& [address, executions] : s.moved.maps) maps.insert(address);
  for (const uint64_t address : maps) meta.identity.notes.emplace_back("tensor map", run.maps->text(address));
  XT_TRY(const auto path, trace_path(e, name + ".xtrace"));
  XT_TRY(const auto file, trace::TraceFileWriter::create(path, meta));
  trace::DecodeSummary summary;
  for (const CtaPart& part : run.parts) {
    XT_TRY_STATUS(run_again(e, part.module, *run.buffer));
    XT_TRY(const trace::DecodeSummary own,
           trace::decode_mem(part.spliced.map, run.buffer->reader(), run.buffer->entries(), {}, file->mem()));
    summary.add(own);
  }
  if ((run.semantics.path == diff::PathMatch::equal && summary.records != run.own_records) || !summary.losses.none())
    return device("the replay for the trace file recorded {} events, the judged one {}: nothing was written", summary.records,
                  run.own_records);
  XT_TRY_STATUS(file->finish(summary));
  config.artefacts.push_back({"trace", path.string()});

  for (size_t k = 0; k < run.accesses.size(); ++k) {
    const wire::Access& a = run.spliced.map.accesses[k];
    if (run.accesses[k].executions == 0) continue;
    rows.push_back({a, run.accesses[k], e.c.splicer.text(OrigPc{a.pc}), source_at(e.sources, a.pc)});
    for (const auto& [address, executions] : run.accesses[k].moved.maps) rows.back().maps[address] = run.maps->text(address);
  }
  return {};
}

}  // namespace

Status emit_mem(const EmitContext& e, MemRun& run, diff::ConfigReport& config) {
  std::vector<trace::AccessRow> rows;
  if (run.others.empty()) {
    XT_TRY_STATUS(emit_part(e, run, config, config, rows));
  } else {
    const auto part_of = [&](MemRun& part) {
      diff::ConfigReport as = config;
      as.sample = fmt::format("{}+{}", config.sample, part.part);
      return emit_part(e, part, as, config, rows);
    };
    XT_TRY_STATUS(part_of(run));
    for (const auto& other : run.others) XT_TRY_STATUS(part_of(*other));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.access.pc < b.access.pc; });
  XT_TRY_STATUS(emit_own_table(e, config, trace::render_text(rows), trace::render_csv(rows), trace::render_json(rows)));
  const size_t more = rows.size() - std::min(rows.size(), most_rows);
  rows.resize(rows.size() - more);
  config.table_text = trace::render_text(rows);
  if (more != 0) config.table_text += fmt::format("{} more in the files of the table\n", more);
  return {};
}

}  // namespace xtrace::cli
