// `count` as a probe that was asked for: executions and active lanes of every block, held against the counting replays that
// every other probe relies on.
#pragma once

#include "tools/xtrace/replay/emit.h"
#include "tools/xtrace/replay/probe_run.h"

namespace xtrace::cli {

struct CountRun : ProbeRun {
  explicit CountRun(replay::Backend& b) : backend(b) {}
  ~CountRun() override;
  replay::Backend& backend;
  BufferImage image() const override { return {buffer, bytes, {}, {}}; }
  DevPtr buffer;                          // counters go on counting while the module is timed
  uint64_t bytes = 0;
  std::vector<wire::BlockCount> blocks;
};

Result<std::unique_ptr<CountRun>> run_counted(LaunchContext& c, const Drawn& drawn, const Counts& counts,
                                              bool compare, const replay::Resources& clean);

// Warps and lanes of every instruction: the table's files, and its JSON in `config`.
Status emit_count(const EmitContext& e, const CountRun& run, diff::ConfigReport& config);

}  // namespace xtrace::cli
