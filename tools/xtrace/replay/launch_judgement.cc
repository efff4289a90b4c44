// Times of all that a launch was replayed with, and verdicts.
#include <algorithm>

#include "tools/xtrace/replay/launch_run.h"

namespace xtrace::cli {
namespace {

using diff::ConfigReport;

// Their times move with what they measure: they show where, not how long.
bool shows_dense_times(const std::string& probe) {
  return probe == "inst" || probe == "sync" || probe == "range" || probe == "latency";
}

}  // namespace

Status LaunchReplay::time() {
  rotations_of_runs();
  if (!options_.compare) return {};
  if (!backend_.info().measures_time) {
    for (const Run& run : runs_) {
      ConfigReport& config = report_.configs[run.config];
      config.timing = diff::TimingEvidence{};   // not measured
      config.timing->dense = shows_dense_times(config.probe);
    }
    return {};
  }
  Measurement m{backend_, launch_, reference_, options_, processes_};
  m.rounds = options_.rounds;
  std::vector<std::vector<size_t>> of_run;   // variants
  for (const Run& run : runs_) {
    const ConfigReport& config = report_.configs[run.config];
    of_run.emplace_back();
    for (const LoadedPart& part : run.probe->loaded()) {
      of_run.back().push_back(m.variants.size());
      m.variants.push_back({config.probe + " " + part_of(run.sample, part).text(), part.module, part.spliced->cubin});
      const bool known = std::any_of(m.buffers.begin(), m.buffers.end(), [&](const BufferImage& b) { return b.at == part.buffer.at; });
      if (!known) m.buffers.push_back(part.buffer);   // classes of CTAs share one
    }
  }
  // Merged parts are one configuration, which costs what the part in the middle does.
  std::vector<std::optional<size_t>> merged(runs_.size());
  for (size_t i = 0; i < runs_.size(); ++i)
    if (of_run[i].size() > 1) merged[i] = m.groups.size(), m.groups.push_back(of_run[i]);
  const size_t first_rotation = m.groups.size();
  for (const Rotated& r : rotated_) {
    m.groups.emplace_back();
    for (const auto& [run, part] : r.parts) m.groups.back().push_back(of_run[run][part]);
  }
  XT_TRY(const Measured measured, measure(m));
  for (const std::string& text : measured.warnings) warn(text);
  report_.clean_time = measured.stats.clean;
  report_.noise_floor = measured.stats.noise_floor;
  report_.timing = measured.conditions;
  const auto rates = diff::device_rates(report_.device);
  if (!rates) warn("no floor of the ratios: bandwidth and clocks of " + report_.device + " are not known to xtrace");
  const auto floor = [&](const diff::ProbeWork& work) { return rates ? diff::floor_of(*rates, work, measured.stats.clean.median) : std::nullopt; };
  const auto evidence = [&](size_t judged, const std::string& probe) {
    diff::TimingEvidence e = evidence_of(measured, judged);
    e.dense = shows_dense_times(probe);
    return e;
  };
  for (size_t k = 0; k < rotated_.size(); ++k) {
    diff::Rotation& rotation = report_.rotations[k];
    std::vector<diff::Floor> floors;
    for (size_t p = 0; p < rotation.parts.size(); ++p) {
      const auto [run, part] = rotated_[k].parts[p];
      rotation.parts[p].timing = evidence(of_run[run][part], rotation.probe);
      rotation.parts[p].floor = floor(runs_[run].work[part]);
      if (rotation.parts[p].floor) floors.push_back(*rotation.parts[p].floor);
    }
    rotation.timing = evidence(m.variants.size() + first_rotation + k, rotation.probe);
    rotation.floor = diff::median_of(std::move(floors));
  }
  for (size_t i = 0; i < runs_.size(); ++i) {
    ConfigReport& config = report_.configs[runs_[i].config];
    size_t judged = of_run[i].front();
    config.floor = floor(runs_[i].work.front());
    if (merged[i]) {
      judged = m.variants.size() + *merged[i];
      std::vector<diff::Floor> floors;
      for (const diff::ProbeWork& work : runs_[i].work)
        if (const auto f = floor(work)) floors.push_back(*f);
      config.floor = diff::median_of(std::move(floors));
    }
    config.timing = evidence(judged, config.probe);
    config.microseconds = measured.stats.variants[judged].samples.median;
  }
  return {};
}

// Parts of sparse sites and of CTAs belong together, whether they were merged in one run or are a run each.
void LaunchReplay::rotations_of_runs() {
  for (size_t i = 0; i < runs_.size(); ++i) {
    const Sample& sample = runs_[i].sample;
    if (!(rotates_sites(sample) || sample.rotates_ctas) || dynamic_cast<const CountRun*>(runs_[i].probe.get()) != nullptr) continue;   // count has no parts
    const std::string& probe = report_.configs[runs_[i].config].probe;
    Sample all = runs_[i].sample;
    all.part = 0;
    const auto same = [&](const diff::Rotation& r) { return r.probe == probe && r.sample == all.text(); };
    auto found = std::find_if(report_.rotations.begin(), report_.rotations.end(), same);
    if (found == report_.rotations.end()) {
      rotated_.emplace_back();
      found = report_.rotations.insert(report_.rotations.end(), diff::Rotation{probe, all.text(), {}, {}, {}});
    }
    const auto k = static_cast<size_t>(found - report_.rotations.begin());
    const std::vector<LoadedPart> loaded = runs_[i].probe->loaded();
    for (size_t p = 0; p < loaded.size(); ++p) {
      rotated_[k].parts.emplace_back(i, p);
      found->parts.push_back({part_of(runs_[i].sample, loaded[p]).text(), loaded[p].records, {}, {}});
    }
  }
}

// What the trace with a clock at every instruction says of the intervals that pair extrapolated.
void LaunchReplay::add_dense_intervals() {
  for (const Run& run : runs_) {
    const auto* dense = dynamic_cast<const TraceRun*>(run.probe.get());
    if (dense == nullptr || dense->kind != trace::TraceKind::inst || report_.configs[run.config].sample != Sample{.clocks = 0}.text()) continue;
    for (const trace::Aggregate::Instruction& i : dense->aggregate->instructions())
      for (const Pairs& p : pairs_)
        for (diff::IntervalRow& row : report_.configs[p.config].intervals->rows)
          if (row.pc == i.pc && i.ungraded.count() != 0)
            row.dense = std::max(0.0, i.ungraded.mean() - static_cast<double>(trace::clock_read_cycles));
  }
}

void LaunchReplay::judge() {
  for (ConfigReport& config : report_.configs) {
    if (!config.refused.empty() || !config.semantics) continue;
    if (config.probe == "none") {
      // Nothing was spliced: the only question is whether the replay is faithful.
      const bool recorded = reference_.has_recorded_after;
      config.semantics->clean_against_recorded =
          !recorded ? diff::OutputMatch::not_compared
                    : reference_.matches_recorded_after ? diff::OutputMatch::equal : diff::OutputMatch::diverged;
      if (!reference_.mismatches.empty())
        config.semantics->clean_against_recorded_text =
            fmt::format("region {} offset {:#x}", reference_.mismatches[0].region, reference_.mismatches[0].offset);
      diff::SpatialEvidence same;
      same.registers_before = same.registers_after = clean_resources_.registers;
      same.ctas_per_sm_before = same.ctas_per_sm_after = clean_resources_.ctas_per_sm;
      config.space = same;
      config.semantics->clean_replays = reference_.replays;
      config.semantics->written_bytes = report_.written_bytes;
      config.semantics->written_stable_bytes =
          report_.written_bytes - std::min(report_.written_bytes, report_.unstable_bytes);
    }
    config.judgement = diff::judge(*config.semantics, config.timing, config.space, config.budget);
  }
}

}  // namespace xtrace::cli
