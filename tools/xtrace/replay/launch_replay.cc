#include "tools/xtrace/replay/launch_replay.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "tools/xtrace/kernel_name.h"
#include "tools/xtrace/replay/launch_run.h"
#include "tools/xtrace/replay/search.h"

namespace xtrace::cli {
namespace {

using diff::ConfigReport;
using instrument::ProbeKind;

// A list of SMs of which the GPU has none.
Status has_sms(const Sample& sample, const replay::BackendInfo& gpu) {
  for (const wire::Selection::Range& r : sample.select.sms)
    if (r.first < gpu.sm_count) return {};
  if (sample.select.sms.empty() || gpu.sm_count == 0) return {};
  return with_hint(unsupported("none of the {} SMs of {} is in the sample {}", gpu.sm_count, gpu.device, sample.text()),
                   "SMs are counted from 0");
}

// Of the part that `splicer` looks at.
uint64_t executions_of_sites(const instrument::Splicer& splicer, const trace::Aggregate& aggregate) {
  uint64_t sum = 0;
  for (const trace::Aggregate::Instruction& i : aggregate.instructions())
    if (splicer.covers(OrigPc{i.pc})) sum += aggregate.count_of(i).warps;
  return sum;
}

bool records_nothing(const instrument::Splicer& splicer, ProbeKind probe, const Counts& counts) {
  for (uint32_t b = 0; b < counts.blocks.size(); ++b)
    if (counts.blocks[b].warps != 0 && splicer.record_bytes(probe, b) != 0) return false;
  return true;
}

}  // namespace

std::string stem_of(const bundle::LaunchRecord& launch) {
  std::string name = shorten_kernel(demangled(launch.kernel), 40);
  for (char& ch : name)
    if (!std::isalnum(static_cast<unsigned char>(ch)) && ch != '_') ch = '_';
  return fmt::format("launch{}-{}", launch.ordinal, name);
}

Result<diff::ReplayReport> LaunchReplay::run() {
  describe();
  XT_TRY_STATUS(read_code());
  XT_TRY_STATUS(backend_.prepare(launch_));
  XT_TRY(clean_, backend_.load(launch_.code));
  XT_TRY(clean_resources_, backend_.resources(clean_));
  XT_TRY(reference_, replay::clean_replays(backend_, launch_, clean_, std::max(1u, options_.clean_replays), options_.test_repeat));
  for (ProbeKind probe : options_.probes)
    if (probe == ProbeKind::none) report_.configs.push_back(clean_config());
  XT_TRY_STATUS(instrumented());
  describe_clean();
  XT_TRY_STATUS(time());
  add_dense_intervals();
  judge();
  if (options_.search) XT_TRY_STATUS(choose_richest(report_, options_, stem_of(launch_.record)));
  XT_TRY_STATUS(emit());
  for (const std::string& note : launch_.notes) warn(note);
  for (const std::string& note : backend_.notes()) warn(note);
  runs_.clear();
  XT_TRY_STATUS(backend_.finish());
  for (std::string& warning : report_.warnings) warning = with_readable_names(warning);
  for (ConfigReport& config : report_.configs) config.refused = with_readable_names(config.refused);
  return std::move(report_);
}

void LaunchReplay::describe() {
  const bundle::LaunchRecord& r = launch_.record;
  report_.bundle = options_.bundle.string();
  report_.launch = r.ordinal;
  report_.kernel = r.kernel;
  report_.kernel_text = demangled(r.kernel);
  report_.grid = r.grid;
  report_.block = r.block;
  report_.backend = backend_.info().name;
  report_.device = backend_.info().device;
  report_.driver = backend_.info().driver;
  for (const bundle::Region& region : r.regions) report_.memory_bytes += region.size;
}

void LaunchReplay::describe_clean() {
  report_.clean_replays = reference_.replays;
  report_.unstable_bytes = reference_.unstable_bytes();
  for (size_t r = 0; r < launch_.before.size(); ++r)
    if (reference_.written[r])
      replay::for_each_difference(launch_.before[r], reference_.output[r], [&](const replay::ByteRange& range) {
        report_.written_bytes += range.end - range.begin;
        return true;
      });
  if (!options_.test_repeat)
    report_.warnings.push_back("the launch does not end, or fails, on what it leaves in memory: each timed launch starts from restored memory");
  else if (!reference_.idempotent)
    report_.warnings.push_back("the launch changes its own inputs: each timed launch starts from restored memory");
}

// The clean replay itself as a configuration: does it reproduce what was recorded?
ConfigReport LaunchReplay::clean_config() const {
  ConfigReport config;
  config.probe = "none";
  config.sample = "all";
  config.budget = options_.budget;
  diff::SemanticEvidence e;
  e.output = diff::OutputMatch::equal;
  e.path = diff::PathMatch::not_applicable;
  e.invariants = diff::Invariants::not_applicable;
  config.semantics = e;
  return config;
}

ConfigReport& LaunchReplay::refuse(ProbeKind probe, const Sample& sample, const Error& error) {
  ConfigReport config;
  config.probe = std::string(instrument::probe_info(probe).name);
  config.sample = sample.text();
  config.budget = options_.budget;
  config.refused = error.to_string();
  report_.configs.push_back(std::move(config));
  return report_.configs.back();
}

void LaunchReplay::refuse_all(const Sample& sample, const Error& error) {
  for (ProbeKind probe : options_.probes)
    if (probe != ProbeKind::none) refuse(probe, sample, error);
}

void LaunchReplay::refuse_all(const Error& error) {
  for (const Sample& sample : options_.samples) refuse_all(sample, error);
}

// Before anything is replayed: some kernels can not be.
Status LaunchReplay::read_code() {
  const bundle::LaunchRecord& r = launch_.record;
  const instrument::LaunchShape shape{r.grid, r.block, r.cluster, r.dynamic_shared_bytes, low_words_may_tell(r), r.param_block};
  auto splicer = instrument::Splicer::create(launch_.code, r.kernel, shape);
  if (!splicer) {
    unread_ = std::move(splicer).error();
    return unread_->kind == ErrorKind::internal ? tl::make_unexpected(*unread_) : Status();
  }
  splicer_ = std::move(*splicer);
  return holds_all(*splicer_);
}

Status LaunchReplay::instrumented() {
  const bundle::LaunchRecord& r = launch_.record;
  const bool any = std::any_of(options_.probes.begin(), options_.probes.end(), [](ProbeKind p) { return p != ProbeKind::none; });
  if (!any) return {};
  if (!splicer_) {
    refuse_all(*unread_);
    return {};
  }
  if (options_.at) {
    report_.at = options_.at_text;
    auto places = places_of(*splicer_, launch_, *options_.at, options_.at_text);
    if (!places) {
      refuse_all(places.error());
      return {};
    }
    splicer_ = splicer_->at(std::move(*places));
  }
  auto asked = resolve(options_.asked, *splicer_, launch_);
  if (!asked) {
    refuse_all(asked.error());
    return {};
  }
  splicer_ = splicer_->asked(std::move(*asked));
  const uint32_t per_cta = splicer_->warps_per_cta();
  context_.emplace(LaunchContext{backend_, launch_, *splicer_, reference_,
                                 static_cast<uint32_t>(r.grid.count()) * per_cta, per_cta});
  return trace_configs(*context_);
}

Status LaunchReplay::trace_configs(LaunchContext& all) {
  std::vector<Sample> samples;
  for (Sample sample : options_.samples)
    for (sample.part = 0; sample.part < parts_of(*splicer_, sample, options_.rotate); ++sample.part) samples.push_back(sample);
  struct Pace {
    size_t parts = 0;
    std::chrono::duration<double> took{};
  };
  std::map<std::string, Pace> paces;   // of rotations whose parts are merged
  for (const Sample& asked : samples) {
    const Result<Sample> here = on_launch(asked, launch_.record, options_.rotate);
    if (!here) {
      refuse_all(asked, here.error());
      continue;
    }
    const Sample& sample = *here;
    const Drawn d = drawn(sample);
    Status some = has_sms(sample, backend_.info());
    if (some) some = selects_some(sample, d, launch_.record, all.warps_per_cta);
    if (!some) {
      refuse_all(sample, some.error());
      continue;
    }
    if (const auto tail = tail_of(sample, d, launch_.record, wave(), all.warps_per_cta)) warn(*tail);
    const instrument::Splicer splicer = splicer_->sparse({sample.sites_one_in, sample.part});
    // mem and the point probes merge the parts by themselves; what looks at all sites at once has one. Parts that hold nothing are left
    // out.
    const auto holds = [&](ProbeKind probe) {
      if (sample.part == 0) return true;
      return (probe == ProbeKind::inst || probe == ProbeKind::block) && splicer.largest_record(probe) != 0;
    };
    if (std::none_of(options_.probes.begin(), options_.probes.end(), holds)) continue;
    LaunchContext c{backend_, launch_, splicer, reference_, all.warps, all.warps_per_cta};
    auto counts = count_launch(c, d);
    if (!counts) {
      if (counts.error().kind != ErrorKind::unsupported) return tl::make_unexpected(std::move(counts).error().in("in the counting replay"));
      refuse_all(sample, counts.error());
      continue;
    }
    if (!counts->same_output)
      report_.warnings.push_back("the counting replay changed the output: " + counts->difference);
    if (const auto difference = path_difference(c, *counts))
      report_.warnings.push_back("two counting replays took different paths: " + *difference);
    for (ProbeKind probe : options_.probes) {
      if (probe == ProbeKind::none || !holds(probe)) continue;
      // Nothing of the part was executed; the first has the kernel's entry.
      if (sample.part != 0 && records_nothing(splicer, probe, *counts)) continue;
      if (const Status sense = makes_sense(probe, sample); !sense) {
        refuse(probe, sample, sense.error());
        continue;
      }
      if (probe == ProbeKind::pair) {
        XT_TRY_STATUS(pair_config(all, sample));
        continue;
      }
      const bool merges = instrument::probe_info(probe).points || (probe == ProbeKind::mem && rotates_sites(sample));
      const auto start = std::chrono::steady_clock::now();
      auto run = run_probe(merges ? all : c, probe, sample, *counts);
      if (!run) {
        if (run.error().kind != ErrorKind::unsupported)
          return tl::make_unexpected(std::move(run).error().in(fmt::format("under the {} probe", instrument::probe_info(probe).name)));
        refuse(probe, sample, run.error());
        continue;
      }
      if (const size_t parts = (*run)->loaded().size(); parts > 1) {
        Sample rotation = sample;
        rotation.part = 0;
        Pace& pace = paces[fmt::format("{} {}", instrument::probe_info(probe).name, rotation.text())];
        pace.parts += parts;
        pace.took += std::chrono::steady_clock::now() - start;
      }
      XT_TRY_STATUS(add_run(c, probe, sample, *counts, std::move(*run)));
    }
  }
  for (const auto& [rotation, pace] : paces)
    warn(fmt::format("{}: {} parts in {:.2f} s ({:.0f} parts/s)", rotation, pace.parts, pace.took.count(),
                     static_cast<double>(pace.parts) / std::max(pace.took.count(), 1e-9)));
  return {};
}

// A probe that ran, with what it showed, as a configuration of the report.
Status LaunchReplay::add_run(LaunchContext& c, ProbeKind probe, const Sample& sample, const Counts& counts, std::unique_ptr<ProbeRun> run) {
  ConfigReport config;
  config.probe = std::string(instrument::probe_info(probe).name);
  config.sample = sample.text();
  config.budget = options_.budget;
  config.semantics = run->semantics;
  config.space = run->space;
  config.records = run->records;
  config.semantics->nothing_recorded = config.records == 0 && !sample.select.sms.empty();
  config.losses = losses_of(run->losses);
  config.events = config.records;
  if (const auto* trace = dynamic_cast<const TraceRun*>(run.get()); trace != nullptr && probe == ProbeKind::inst)
    config.events = sample.sites_one_in == 1 ? trace->aggregate->warp_instructions() : executions_of_sites(c.splicer, *trace->aggregate);
  if (const auto* trace = dynamic_cast<const TraceRun*>(run.get())) warn_of_clocks(c.splicer, *trace, counts, config.probe);
  if (config.space->whole_sectors && !sample.whole_sectors)
    warn(fmt::format("{} {}: records fill sectors of 32 bytes, as they and the launch's memory do not fit into the L2 "
                     "(--sample=sectors:part writes them shorter)", config.probe, config.sample));
  if (const auto* mem = dynamic_cast<const MemRun*>(run.get())) config.not_covered = mem->not_covered;
  for (const std::string& note : run->spliced.report.notes) warn(note);
  if (!options_.keep_code.empty())
    XT_TRY_STATUS(keep_code(options_.keep_code, stem_of(launch_.record), config, run->spliced.cubin));
  report_.configs.push_back(std::move(config));
  Run& added = runs_.emplace_back(Run{report_.configs.size() - 1, std::move(run), sample, {}});
  for (const LoadedPart& part : added.probe->loaded()) {
    const Counts of_part = part.blocks == nullptr ? counts : counts_of(counts, *part.blocks, part.spliced->map.layout);
    XT_TRY(added.work.emplace_back(), work_of(c, *part.spliced, of_part, wave()));
  }
  return {};
}

Result<std::unique_ptr<ProbeRun>> LaunchReplay::run_probe(LaunchContext& c, ProbeKind probe, Sample sample,
                                                          const Counts& counts) {
  const bool compare = options_.compare;
  const Drawn d = drawn(sample);
  switch (probe) {
    case ProbeKind::count: return run_counted(c, d, counts, compare, clean_resources_);
    case ProbeKind::mem:
      if (rotates_sites(sample)) return rotate_addresses(c, sample.sites_one_in, d, compare, clean_resources_);
      return run_addresses(c, d, counts, compare, clean_resources_);
    default: break;
  }
  if (instrument::probe_info(probe).points)
    return run_points(c, probe, sample, d, options_.rotate, compare, clean_resources_);
  return run_traced(c, probe, d, counts, compare, clean_resources_);
}

void LaunchReplay::warn_of_clocks(const instrument::Splicer& splicer, const TraceRun& run, const Counts& counts,
                                  const std::string& probe) {
  uint32_t without = 0, implied = 0, instructions = 0;
  for (size_t b = 0; b < run.map.blocks.size(); ++b) {
    const wire::Block& block = run.map.blocks[b];
    if (counts.blocks[b].warps == 0) continue;
    for (uint32_t i = 0; i < block.clocks; ++i) {
      if (!splicer.covers(OrigPc{block.first_pc + i * trace::inst_bytes})) continue;
      const bool absent = !block.clock_at.empty() && block.clock_at[i].bytes == wire::ClockPlace::absent;
      without += absent;
      implied += !absent && !block.has_clock(i);
      ++instructions;
    }
  }
  if (implied != 0)
    warn(fmt::format("{}: the clocks of {} of {} executed instructions are implied by the stall counts between the clocks that were read "
                     "(--sample=clocks:all reads every one)", probe, implied, instructions));
  if (without != 0)
    warn(fmt::format("{}: {} of {} executed instructions have no clock of their own: no register is free in front of them", probe, without,
                     instructions));
  if (run.doubtful_clocks != 0)
    warn(fmt::format("{} records of the {} probe hold a pause of 65,536 cycles or more: their clocks may be early by multiples of that",
                     run.doubtful_clocks, probe));
}

Status LaunchReplay::pair_config(LaunchContext& c, Sample sample) {
  XT_TRY(const Counts counts, count_launch(c, Drawn{1, options_.seed, {}}));
  Sample on_this = sample;
  on_this.select = drawn(sample).select;
  auto rotation = rotate_pairs(c, on_this, counts, options_, clean_resources_, wave(), processes_);
  if (!rotation) {
    if (rotation.error().kind != ErrorKind::unsupported) return tl::make_unexpected(std::move(rotation).error().in("under the pair probe"));
    refuse(ProbeKind::pair, sample, rotation.error());
    return {};
  }
  ConfigReport config;
  config.probe = "pair";
  Sample used = sample;
  used.one_in = rotation->one_in;
  config.sample = used.text();
  config.budget = options_.budget;
  config.semantics = rotation->semantics;
  config.timing = rotation->timing;
  config.floor = rotation->floor;
  if (config.timing) {
    config.timing->intervals = rotation->intervals.rows.size();
    config.timing->unconverged = config.timing->intervals - diff::converged(rotation->intervals);
  }
  config.space = rotation->space;
  config.space->trace_bytes = rotation->sites == 0 ? 0 : rotation->bytes / rotation->sites;   // of one replay
  config.intervals = std::move(rotation->intervals);
  config.microseconds = rotation->median_microseconds;
  config.records = rotation->records;
  config.semantics->nothing_recorded = config.records == 0 && !sample.select.sms.empty();
  config.losses = losses_of(rotation->losses);
  for (const std::string& text : rotation->warnings) warn(text);
  report_.warnings.push_back(fmt::format("pair: {} sites in {:.1f} s ({:.0f} sites/s){}{}", rotation->sites,
                                         rotation->seconds, rotation->sites / std::max(rotation->seconds, 1e-9),
                                         rotation->out_of_time != 0
                                             ? fmt::format(", {} more left out: {:.0f} s are the most for them", rotation->out_of_time + rotation->sites_left_out,
                                                           most_rotation_seconds)
                                         : rotation->sites_left_out != 0
                                             ? fmt::format(", {} more left out (--pair-sites)", rotation->sites_left_out)
                                             : "",
                                         rotation->refused.empty()
                                             ? ""
                                             : fmt::format(", {} refused: {}", rotation->refused.size(),
                                                           rotation->refused.begin()->second)));
  report_.configs.push_back(std::move(config));
  pairs_.push_back({report_.configs.size() - 1, std::move(*rotation)});
  return {};
}

void LaunchReplay::warn(const std::string& text) {
  if (std::find(report_.warnings.begin(), report_.warnings.end(), text) == report_.warnings.end())
    report_.warnings.push_back(text);
}

Result<diff::ReplayReport> replay_launch(replay::Backend& backend, const replay::LaunchImage& launch,
                                         const ReplayOptions& options, TimingProcesses* processes) {
  return LaunchReplay(backend, launch, options, processes).run();
}

}  // namespace xtrace::cli
