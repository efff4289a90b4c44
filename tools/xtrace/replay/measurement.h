// Time of a launch's variants against its clean kernel: pairs of samples in several processes, until every question of the
// budget is decided or the time is up.
#pragma once

#include <string>
#include <vector>

#include "diff/report.h"
#include "replay/session.h"
#include "tools/xtrace/replay/options.h"
#include "tools/xtrace/replay/timing_process.h"

namespace xtrace::cli {

struct TimedVariant {
  std::string name;
  replay::ModuleHandle module = 0;
  ByteView cubin;                    // that it was loaded from
};

struct Measurement {
  replay::Backend& backend;
  const replay::LaunchImage& launch;
  const replay::CleanReference& reference;
  const ReplayOptions& options;
  TimingProcesses* processes = nullptr;   // null: this process alone
  std::vector<TimedVariant> variants = {};
  std::vector<BufferImage> buffers = {};  // that their code has the addresses of
  bool apart = true;                      // each variant is judged by itself
  std::vector<std::vector<size_t>> groups = {};   // numbers of variants that are judged as one: of each round the median
  uint32_t rounds = 50;                   // most, of a process
};

struct Measured {
  std::vector<diff::VariantPairs> pairs;  // clean-again first
  diff::TimingStats stats;                // of the variants, if they are judged apart, then of the groups
  diff::TimingConditions conditions;
  double sample_ticks = 0;                // of the shortest sample
  std::vector<std::string> warnings;
};

Result<Measured> measure(const Measurement& m);

// Evidence of variant or group `i`.
diff::TimingEvidence evidence_of(const Measured& measured, size_t i);

}  // namespace xtrace::cli
