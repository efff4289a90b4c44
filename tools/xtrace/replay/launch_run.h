// One launch on its way through a replay: what replay_launch() is made of.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tools/xtrace/replay/count_run.h"
#include "tools/xtrace/replay/emit.h"
#include "tools/xtrace/replay/facts.h"
#include "tools/xtrace/replay/launch_replay.h"
#include "tools/xtrace/replay/measurement.h"
#include "tools/xtrace/replay/mem_run.h"
#include "tools/xtrace/replay/pair_rotation.h"
#include "tools/xtrace/replay/point_run.h"
#include "tools/xtrace/replay/probe_work.h"
#include "tools/xtrace/replay/sample_on_launch.h"

namespace xtrace::cli {

class LaunchReplay {
 public:
  LaunchReplay(replay::Backend& backend, const replay::LaunchImage& launch, const ReplayOptions& options,
               TimingProcesses* processes)
      : backend_(backend), launch_(launch), options_(options), processes_(processes) {}

  Result<diff::ReplayReport> run();

 private:
  struct Run {
    size_t config = 0;                       // in report_.configs
    std::unique_ptr<ProbeRun> probe;
    Sample sample;
    std::vector<diff::ProbeWork> work;       // of each of probe->loaded()
  };

  void describe();
  void describe_clean();
  Status read_code();
  diff::ConfigReport clean_config() const;
  Status instrumented();
  Status trace_configs(LaunchContext& c);
  Status pair_config(LaunchContext& c, Sample sample);
  Result<std::unique_ptr<ProbeRun>> run_probe(LaunchContext& c, instrument::ProbeKind probe, Sample sample, const Counts& counts);
  Status add_run(LaunchContext& c, instrument::ProbeKind probe, const Sample& sample, const Counts& counts, std::unique_ptr<ProbeRun> run);
  void warn_of_clocks(const instrument::Splicer& splicer, const TraceRun& run, const Counts& counts, const std::string& probe);
  Status time();
  void rotations_of_runs();
  static Sample part_of(Sample sample, const LoadedPart& part) {
    if (sample.sites_one_in > 1) sample.part += part.number;
    if (sample.rotates_ctas) sample.cta_part = part.cta_part;
    return sample;
  }
  void add_dense_intervals();
  void judge();
  Status emit();
  Status emit_trace_of(const EmitContext& e, TraceRun& run, diff::ConfigReport& config);
  void warn(const std::string& text);   // once
  uint32_t wave() const { return clean_resources_.ctas_per_sm * backend_.info().sm_count; }   // CTAs that fit on the GPU at once
  Drawn drawn(const Sample& sample) const { return cli::drawn(sample, options_.seed, wave()); }
  bool rotates_sites(const Sample& sample) const { return options_.rotate && sample.sites_one_in > 1; }
  diff::ConfigReport& refuse(instrument::ProbeKind probe, const Sample& sample, const Error& error);
  void refuse_all(const Sample& sample, const Error& error);   // every probe
  void refuse_all(const Error& error);

  replay::Backend& backend_;
  const replay::LaunchImage& launch_;
  const ReplayOptions& options_;
  TimingProcesses* processes_;
  diff::ReplayReport report_;
  replay::ModuleHandle clean_ = 0;
  replay::Resources clean_resources_;
  replay::CleanReference reference_;
  std::optional<instrument::Splicer> splicer_;
  std::optional<Error> unread_;            // why there is none
  std::optional<LaunchContext> context_;
  std::vector<Run> runs_;
  struct Rotated {
    std::vector<std::pair<size_t, size_t>> parts;   // number in runs_, and of what it loaded
  };
  std::vector<Rotated> rotated_;                    // as report_.rotations
  struct Pairs {
    size_t config;
    PairRotation rotation;
  };
  std::vector<Pairs> pairs_;
};

// "launch3-sgemm": what the files of a launch are called.
std::string stem_of(const bundle::LaunchRecord& launch);

}  // namespace xtrace::cli
