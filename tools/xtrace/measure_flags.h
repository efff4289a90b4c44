// The options that `xtrace replay` and `xtrace check` share: how the clean reference is made, how long time is taken, what counts as hung.
#pragma once

#include "tools/xtrace/command_line.h"
#include "tools/xtrace/replay/options.h"

namespace xtrace::cli {

struct MeasureFlags {
  double watchdog = 10, time_limit = 10;
  uint64_t clean = 3, rounds = 50, processes = 5, seed = 1, pair_sites = 512, device = 0;

  // In two parts, between which `replay` has options of its own.
  void declare_timing(CommandLine& line);
  void declare_machine(CommandLine& line);
  void put_into(ReplayOptions& options) const;
};

}  // namespace xtrace::cli
