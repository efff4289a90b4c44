// xtrace replay: replay recorded launches, clean and under probes, compare, judge, emit.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/file.h"
#include "capture/bundle/bundle_reader.h"
#include "tools/xtrace/command_line.h"
#include "tools/xtrace/kernel_name.h"
#include "tools/xtrace/render_error.h"
#include "tools/xtrace/replay/worker.h"

namespace xtrace::cli {
namespace {

struct Flags {
  std::string bundle, launches, kernel, probes, json, traces, keep_code, backend = "auto";
  std::string regs, regs_behind;
  std::vector<std::string> samples, places, customs, ranges;
  bool compare = false, quiet = false, search = false, rotate = false;
  double budget = 1.05, watchdog = 10, time_limit = 10;
  uint64_t clean = 3, rounds = 50, processes = 5, seed = 1, pair_sites = 512, interval_sites = 16, max_slices = 2'000'000, device = 0;
};

Result<ReplayOptions> options_of(const Flags& f) {
  ReplayOptions o;
  o.bundle = f.bundle;
  o.traces = f.traces.empty() ? o.bundle / "traces" : std::filesystem::path(f.traces);
  o.keep_code = f.keep_code;
  XT_TRY(o.probes, parse_probes(!f.probes.empty() ? f.probes : f.search ? "block,inst" : "block"));
  XT_TRY(o.backend, parse_backend(f.backend));
  for (const std::string& text : f.samples) {
    XT_TRY(const Sample sample, parse_sample(text));
    o.samples.push_back(sample);
  }
  o.sampled = !o.samples.empty();
  if (o.samples.empty()) o.samples = f.search ? std::vector<Sample>{{1}, {4}, {16}} : std::vector<Sample>{{}};
  if (f.search && !f.compare) return with_hint(bad_input("--search without --compare"), "it chooses by what a comparison shows");
  XT_TRY_STATUS(parse_places(f.places, o));
  XT_TRY_STATUS(parse_regs(f.regs, f.regs_behind, o.asked));
  for (const std::string& text : f.customs) XT_TRY_STATUS(parse_custom(text, o.asked));
  for (const std::string& text : f.ranges) XT_TRY_STATUS(parse_range(text, o.asked));
  o.rotate = f.rotate;
  if (f.budget < 1) return with_hint(bad_input("budget {} is below 1", f.budget), "1.05 allows a launch to take 5 % longer");
  if (f.clean < 1 || f.rounds < 1) return bad_input("--clean and --rounds start at 1");
  if (f.processes < 1 || f.processes > 64) return bad_input("--processes goes from 1 to 64");
  o.compare = f.compare;
  o.quiet = f.quiet;
  o.search = f.search;
  o.budget = f.budget;
  o.clean_replays = static_cast<uint32_t>(f.clean);
  o.rounds = static_cast<uint32_t>(f.rounds);
  o.processes = static_cast<uint32_t>(f.processes);
  o.time_limit_seconds = f.time_limit;
  o.seed = static_cast<uint32_t>(f.seed);
  o.pair_sites = static_cast<uint32_t>(f.pair_sites);
  o.interval_sites = static_cast<uint32_t>(f.interval_sites);
  o.max_slices = f.max_slices;
  o.watchdog_seconds = f.watchdog;
  o.device = static_cast<int>(f.device);
  return o;
}

Result<std::vector<uint64_t>> select(const bundle::BundleReader& reader, const Flags& f) {
  std::vector<uint64_t> wanted;
  if (!f.launches.empty()) {
    XT_TRY(wanted, parse_ordinals(f.launches));
  }
  std::optional<std::regex> kernel;
  if (!f.kernel.empty()) {
    try {
      kernel.emplace(f.kernel);
    } catch (const std::regex_error& e) {
      return bad_input("malformed regular expression '{}': {}", f.kernel, e.what());
    }
  }
  std::vector<uint64_t> ordinals;
  for (const bundle::LaunchRecord& l : reader.launches()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), l.ordinal) == wanted.end()) continue;
    if (wanted.empty() && l.status != bundle::LaunchStatus::recorded) continue;
    if (kernel && !std::regex_search(l.kernel, *kernel) && !std::regex_search(demangled(l.kernel), *kernel)) continue;
    ordinals.push_back(l.ordinal);
  }
  for (uint64_t w : wanted)
    if (std::none_of(reader.launches().begin(), reader.launches().end(), [&](const auto& l) { return l.ordinal == w; }))
      return with_hint(bad_input("no launch {} in {}", w, reader.directory().string()),
                       "list the launches with: xtrace ls " + reader.directory().string());
  if (ordinals.empty())
    return with_hint(bad_input("no recorded launch to replay in {}", reader.directory().string()),
                     "list the launches with: xtrace ls " + reader.directory().string());
  return ordinals;
}

// Worst first: internal, bad input, not trusted, inconclusive, trusted.
int worse(int a, int b) {
  constexpr int order[] = {exit_trusted, exit_inconclusive, exit_not_trusted, exit_bad_input, exit_internal};
  const auto rank = [&](int s) { return std::find(std::begin(order), std::end(order), s) - std::begin(order); };
  return rank(a) >= rank(b) ? a : b;
}

std::string one_json(const std::vector<LaunchResult>& results) {
  using nlohmann::json;
  json launches = json::array(), errors = json::array();
  for (const LaunchResult& r : results) {
    if (r.reported)
      launches.push_back(json::parse(r.json, nullptr, false));
    else
      errors.push_back({{"launch", r.ordinal}, {"error", r.error}});
  }
  return json{{"launches", launches}, {"errors", errors}}.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

int run_replay(int argc, char** argv) {
  Flags f;
  CommandLine line(
      "replay",
      {{"xtrace replay run.xtr --probes=all --compare", "every launch: clean, under every probe, compared and judged"},
       {"xtrace replay run.xtr --launch 3 --probes=block", "the path of one launch, without a comparison"},
       {"xtrace replay run.xtr --launch 3 --compare --search --budget 1.02", "the richest trace that costs 2 % at most"},
       {"xtrace replay run.xtr --kernel gemm --probes=inst --sample cta:1/16 --compare", "one CTA in 16 of the gemms"},
       {"xtrace replay run.xtr --probes=none --compare --json -", "does the recording replay at all? for a program"}});
  line.positional("BUNDLE", f.bundle, "directory written by xtrace record");
  line.option("--probes", f.probes, "names of xtrace probes, with commas, or all: block, inst and pair (default: block)");
  line.repeated("--sample", f.samples, "all, or cta:1/N cta:0,5-7 cta:wave cluster:0 warp:0 sm:3 site:1/N nth:N clocks:all, joined by commas; several times: a replay each (default: all; pair: enough CTAs for every site, of many)");
  line.flag("--rotate", f.rotate, "with --sample site:1/N: N sparse replays that cover all sites together");
  line.option("--regs", f.regs, "reg: what to record in front of each instruction: R4,UR6,P0,!P1,clock,time");
  line.option("--regs-behind", f.regs_behind, "reg: the same, behind it");
  line.repeated("--range", f.ranges, "range: a region, as \"line:sgemm.cu:15-20\" (places of --at); may be given several times");
  line.repeated("--custom", f.customs, "custom: \"at op:LDG record clock, R4 behind ready\", or @FILE with such lines");
  line.repeated("--at", f.places, "inst, pair, mem, point probes: only these instructions, as \"op:LDG* and not line:a.cu:7\" (docs/probes.md)");
  line.flag("--compare", f.compare, "compare outputs and time against the clean kernel; without it no verdict is reached");
  line.flag("--search", f.search,
            "emit the richest of the probes and samples that stays trusted within the budget, and a plot of all (default probes "
            "block,inst; samples all, 1/4, 1/16)");
  line.option("--launch", f.launches, "only these launches, by ordinal: 0,3-5");
  line.option("--kernel", f.kernel, "only kernels whose name matches this regular expression");
  line.option("--json", f.json, "write all reports to this file as JSON; - for stdout instead of the tables");
  line.option("--traces", f.traces, "folder for what trusted traces leave behind (default: BUNDLE/traces)");
  line.option("--keep-code", f.keep_code, "folder for the spliced cubins, one for each launch, probe and sample");
  line.option("--budget", f.budget, "largest ratio of times that is still trusted (default: 1.05)");
  line.option("--clean", f.clean, "clean replays that make the reference (default: 3)");
  line.option("--rounds", f.rounds, "most rounds of timing in a process; fewer when the budget is decided earlier (default: 50)");
  line.option("--processes", f.processes, "processes that time a launch; a verdict needs two (default: 5)");
  line.option("--time-limit", f.time_limit, "seconds for timing a launch that stays undecided (default: 10)");
  line.option("--seed", f.seed, "of the sampling and of the order of timing (default: 1)");
  line.option("--pair-sites", f.pair_sites, "most instructions that the pair probe rotates over (default: 512)");
  line.option("--interval-sites", f.interval_sites,
              "pair: instructions measured at several sampling rates, for error bars of intervals (default: 16)");
  line.option("--max-slices", f.max_slices, "most slices of a Perfetto timeline (default: 2000000)");
  line.option("--watchdog", f.watchdog, "seconds after which a launch counts as hung (default: 10)");
  line.option("--backend", f.backend,
              "driver (a GPU), interp (the CPU, time is modelled), or auto: the driver where there is one (default: auto)");
  line.option("--device", f.device, "ordinal of the GPU (default: 0)");
  line.flag("--quiet", f.quiet, "no progress on stderr");
  if (const auto status = line.parse(argc, argv)) return *status;

  const auto options = options_of(f);
  if (!options) {
    report("replay", options.error());
    return exit_usage;
  }
  const auto reader = bundle::BundleReader::open(f.bundle);
  if (!reader) return report("replay", reader.error());
  const auto ordinals = select(**reader, f);
  if (!ordinals) return report("replay", ordinals.error());

  if (const auto part = worker_of()) work_as(*part, **reader, *ordinals, *options);

  std::vector<std::string> command{"xtrace"};
  command.insert(command.end(), argv, argv + argc);
  std::vector<LaunchResult> results;
  int status = exit_trusted;
  const bool tables = f.json != "-";
  const auto outcome = replay_in_workers(**reader, *ordinals, *options, command, [&](const LaunchResult& r) {
    results.push_back(r);
    status = worse(status, r.reported ? r.verdict : r.error_exit);
    if (!r.reported)
      fmt::print(stderr, "xtrace replay: error: launch {}: {}\n", r.ordinal, r.error);
    else if (tables)
      fmt::print("{}\n", r.text);
    std::fflush(stdout);
  });
  if (!outcome) return report("replay", outcome.error());
  if (!tables)
    fmt::print("{}", one_json(results));
  else if (!f.json.empty())
    if (const Status written = write_file(f.json, one_json(results)); !written) return report("replay", written.error());
  if (outcome->interrupted) {
    fmt::print(stderr, "xtrace replay: interrupted after {} of {} launches\n", results.size(), ordinals->size());
    return 130;
  }
  return status;
}

}  // namespace xtrace::cli
