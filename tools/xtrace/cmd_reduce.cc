// xtrace reduce: the smallest set of instructions whose probes make a launch diverge, and a reproducer.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "instrument/instrument.h"
#include "replay/session.h"
#include "tools/xtrace/command_line.h"
#include "tools/xtrace/output_path.h"
#include "tools/xtrace/render_error.h"
#include "tools/xtrace/replay/reduce.h"
#include "tools/xtrace/replay/worker.h"
#include "tools/xtrace/scratch.h"

namespace xtrace::cli {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string bundle, probe = "inst", sample = "all", keep, backend = "auto";
  uint64_t launch = 0, seed = 1, device = 0;
  double watchdog = 10;
};

// What speaks against the replay's semantics: "output-diverged: region 0 ...; path-differs: ...".
std::string refutations(const nlohmann::json& report) {
  std::string text;
  for (const auto& config : report.at("configs")) {
    if (!config.at("refused").is_null()) continue;
    for (const auto& r : config.at("reasons")) {
      if (r.at("aspect") != "semantics" || r.at("effect") != "refute") continue;
      text += (text.empty() ? "" : "; ") + r.at("code").get<std::string>() + ": " + r.at("numbers").get<std::string>();
    }
  }
  return text;
}

// The same replay as a command line: for the reproducer, and for a worker that needs another address layout.
std::vector<std::string> replay_command(const Flags& f, const std::string& places) {
  const auto number = [](auto n) { return fmt::format("{}", n); };
  return {"xtrace",     "replay",           f.bundle,     "--launch", number(f.launch),     "--probes",  f.probe,
          "--sample",   f.sample,           "--seed",     number(f.seed),                   "--backend", f.backend,
          "--watchdog", number(f.watchdog), "--device",   number(f.device),                 "--rounds",  "1",
          "--processes", "1",               "--interval-sites", "0",
          "--compare", "--at", places};
}

class Reducer {
 public:
  Reducer(const bundle::BundleReader& reader, ReplayOptions options, const Flags& flags)
      : reader_(reader), options_(std::move(options)), flags_(flags), launch_(flags.launch) {}

  // A worker process for each trial: one that breaks the GPU's context must not end the others.
  Result<std::string> trial(const std::vector<uint32_t>& pcs) {
    options_.at_text = places_text(pcs);
    XT_TRY(options_.at, Place::parse(options_.at_text));
    std::string what;
    Status failed;
    auto command = replay_command(flags_, options_.at_text);
    command.insert(command.end(), {"--traces", options_.traces.string(), "--keep-code", options_.keep_code.string()});
    XT_TRY(const WorkerOutcome outcome, replay_in_workers(reader_, {launch_}, options_, command, [&](const LaunchResult& r) {
             last = r;
             if (r.reported)
               what = refutations(nlohmann::json::parse(r.json));
             else if (r.error_exit == exit_code(ErrorKind::device))
               what = "launch-failed: " + r.error;
             else
               failed = environment("launch {}: {}", launch_, r.error);
           }));
    options_.announced_by.clear();
    interrupted = outcome.interrupted;
    if (interrupted) return environment("interrupted");
    XT_TRY_STATUS(std::move(failed));
    fmt::print(stderr, "xtrace reduce: {} instructions: {}\n", pcs.size(), what.empty() ? "as it should be" : what);
    return what;
  }
  LaunchResult last;
  bool interrupted = false;

 private:
  const bundle::BundleReader& reader_;
  ReplayOptions options_;
  const Flags& flags_;
  uint64_t launch_;
};

Result<ReplayOptions> options_of(const Flags& f) {
  ReplayOptions o;
  o.bundle = f.bundle;
  const auto probes = parse_probes(f.probe);
  if (probes) o.probes = *probes;
  const auto limited = [](instrument::ProbeKind p) {
    return p == instrument::ProbeKind::inst || p == instrument::ProbeKind::pair || p == instrument::ProbeKind::mem;
  };
  if (o.probes.size() != 1 || !limited(o.probes[0]))
    return with_hint(bad_input("'{}' can not be reduced", f.probe), "--probe inst, pair or mem: they can be limited to instructions");
  XT_TRY(const Sample sample, parse_sample(f.sample));
  o.samples = {sample};
  XT_TRY(o.backend, parse_backend(f.backend));
  o.compare = o.quiet = true;
  o.announced_by = "reduce";
  o.processes = 1;
  o.rounds = 1;
  o.interval_sites = 0;
  o.seed = static_cast<uint32_t>(f.seed);
  o.watchdog_seconds = f.watchdog;
  o.device = static_cast<int>(f.device);
  return o;
}

Result<std::vector<uint32_t>> instructions_of(const replay::LaunchImage& launch) {
  const bundle::LaunchRecord& r = launch.record;
  XT_TRY(const auto splicer, instrument::Splicer::create(launch.code, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes}));
  std::vector<uint32_t> pcs;
  for (const auto& i : splicer.instructions()) pcs.push_back(i.pc.value);
  std::sort(pcs.begin(), pcs.end());
  return pcs;
}

// The reproducer: the spliced code, the report, and how to see it again.
Status keep(const Flags& f, const fs::path& folder, const fs::path& code, const Reduction& r, const LaunchResult& last) {
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (!ec) fs::copy(code, folder, fs::copy_options::overwrite_existing, ec);
  if (ec) return environment("can not copy the spliced code into {}: {}", folder.string(), ec.message());
  XT_TRY_STATUS(write_file(folder / "report.json", last.reported ? last.json : std::string("{}\n")));
  const std::string places = places_text(r.pcs);
  return write_file(folder / "README",
                    fmt::format("{}\n\n{}\n", r.what, fmt::join(replay_command(f, "\"" + places + "\""), " ")));
}

}  // namespace

int run_reduce(int argc, char** argv) {
  Flags f;
  CommandLine line("reduce", {{"xtrace reduce run.xtr --launch 3", "which instructions, probed by inst, make launch 3 diverge"},
                              {"xtrace reduce run.xtr --launch 3 --probe mem --keep repro", "and a folder to reproduce it from"}});
  line.positional("BUNDLE", f.bundle, "directory written by xtrace record");
  line.option("--launch", f.launch, {0, std::numeric_limits<uint32_t>::max()}, "ordinal of the launch (default: 0)");
  line.option("--probe", f.probe, "inst, pair or mem (default: inst)");
  line.option("--sample", f.sample, "all, or cta:1/N for one CTA in N (default: all)");
  line.option("--keep", f.keep, "folder for the reproducer: spliced code, report, command line (default: BUNDLE/reduced)");
  line.option("--seed", f.seed, any_seed, "of the sampling (default: 1)");
  line.option("--watchdog", f.watchdog, any_seconds, "seconds after which a launch counts as hung (default: 10)");
  line.option("--backend", f.backend, "driver (a GPU), interp (the CPU), interp-late (the same, with results as late as the code allows), or auto (default: auto)");
  line.option("--device", f.device, any_device, "ordinal of the GPU (default: 0)");
  if (const auto status = line.parse(argc, argv)) return *status;
  auto options = options_of(f);
  if (!options) return wrong_value("reduce", options.error());
  const auto reader = bundle::BundleReader::open(f.bundle);
  if (!reader) return report("reduce", reader.error());
  const fs::path folder = f.keep.empty() ? fs::path(f.bundle) / "reduced" : fs::path(f.keep);
  if (const Status writable = can_be_written(f.keep, true); !writable) return report("reduce", writable.error());
  const auto scratch = Scratch::make();   // trials leave traces, and code that is not the last
  if (!scratch) return report("reduce", scratch.error());
  options->keep_code = scratch->path() / "code";
  options->traces = scratch->path() / "traces";
  const auto launch = replay::load_launch(**reader, f.launch);
  if (!launch) return report("reduce", launch.error());
  const auto pcs = instructions_of(*launch);
  if (!pcs) return report("reduce", pcs.error());

  Reducer reducer(**reader, *options, f);
  const auto reduced = reduce(*pcs, [&](const std::vector<uint32_t>& some) { return reducer.trial(some); });
  if (!reduced) return reducer.interrupted ? (report("reduce", reduced.error()), exit_interrupted) : report("reduce", reduced.error());
  if (reduced->pcs.empty()) {
    fmt::print("launch {} does not diverge with all {} instructions probed by {}: there is nothing to reduce\n", f.launch, pcs->size(), f.probe);
    return exit_trusted;
  }
  if (const Status kept = keep(f, folder, options->keep_code, *reduced, reducer.last); !kept) return report("reduce", kept.error());
  fmt::print("{} of {} instructions, probed alone, make launch {} diverge ({} replays): {}\n  {}\n  reproducer: {}\n",
             reduced->pcs.size(), pcs->size(), f.launch, reduced->trials, places_text(reduced->pcs), reduced->what, folder.string());
  return exit_not_trusted;
}

}  // namespace xtrace::cli
