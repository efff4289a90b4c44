#include "tools/xtrace/measure_flags.h"

namespace xtrace::cli {

void MeasureFlags::declare_timing(CommandLine& line) {
  line.option("--clean", clean, {1, 1000}, "clean replays that make the reference (default: 3)");
  line.option("--rounds", rounds, any_count, "most rounds of timing in a process; fewer when the budget is decided earlier (default: 50)");
  line.option("--processes", processes, {1, 64}, "processes that time a launch; a verdict needs two (default: 5)");
  line.option("--time-limit", time_limit, any_seconds, "seconds for timing a launch that stays undecided (default: 10)");
  line.option("--seed", seed, any_seed, "of the sampling and of the order of timing (default: 1)");
  line.option("--pair-sites", pair_sites, any_count, "most instructions that the pair probe rotates over (default: 512)");
}

void MeasureFlags::declare_machine(CommandLine& line) {
  line.option("--watchdog", watchdog, any_seconds, "seconds after which a launch counts as hung (default: 10)");
  line.option("--device", device, any_device, "ordinal of the GPU (default: 0)");
}

void MeasureFlags::put_into(ReplayOptions& o) const {
  o.clean_replays = static_cast<uint32_t>(clean);
  o.rounds = static_cast<uint32_t>(rounds);
  o.processes = static_cast<uint32_t>(processes);
  o.time_limit_seconds = time_limit;
  o.seed = static_cast<uint32_t>(seed);
  o.pair_sites = static_cast<uint32_t>(pair_sites);
  o.watchdog_seconds = watchdog;
  o.device = static_cast<int>(device);
}

}  // namespace xtrace::cli
