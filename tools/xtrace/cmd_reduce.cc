// xtrace reduce: the smallest set of instructions whose probes make a launch diverge, and a reproducer.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/file.h"
#include "base/notice.h"
#include "instrument/instrument.h"
#include "replay/session.h"
#include "tools/xtrace/command_line.h"
#include "tools/xtrace/incomplete.h"
#include "tools/xtrace/output_path.h"
#include "tools/xtrace/render_error.h"
#include "tools/xtrace/replay/reduce_report.h"
#include "tools/xtrace/replay/whole_launch.h"
#include "tools/xtrace/replay/worker.h"
#include "tools/xtrace/scratch.h"

namespace xtrace::cli {
namespace {

namespace fs = std::filesystem;

struct ReduceFlags {
  std::string bundle, probe = "inst", sample = "all", keep, json, backend = "auto";
  uint64_t launch = 0, seed = 1, device = 0;
  double watchdog = 10;
};

// The same replay as a command line: for the reproducer, and for a worker that needs another address layout.
// No places: without any probe.
std::vector<std::string> replay_command(const ReduceFlags& f, const std::string& places) {
  const auto number = [](auto n) { return fmt::format("{}", n); };
  std::vector<std::string> command = {
      "xtrace",     "replay",           f.bundle,     "--launch", number(f.launch),     "--probes",  places.empty() ? "none" : f.probe,
      "--sample",   f.sample,           "--seed",     number(f.seed),                   "--backend", f.backend,
      "--watchdog", number(f.watchdog), "--device",   number(f.device),                 "--rounds",  "1",
      "--processes", "1",               "--interval-sites", "0",
      "--compare"};
  if (!places.empty()) command.insert(command.end(), {"--at", places});
  return command;
}

class Reducer {
 public:
  Reducer(const bundle::BundleReader& reader, ReplayOptions options, const ReduceFlags& flags)
      : reader_(reader), options_(std::move(options)), flags_(flags), launch_(flags.launch) {}

  // A worker process for each trial: one that breaks the GPU's context must not end the others.
  Result<std::string> trial(const std::vector<uint32_t>& pcs) {
    ReplayOptions options = options_;
    options.at_text = places_text(pcs);
    if (pcs.empty()) {
      options.probes = {instrument::ProbeKind::none};
    } else {
      XT_TRY(options.at, Place::parse(options.at_text));
    }
    Shown shown;
    Status failed;
    auto command = replay_command(flags_, options.at_text);
    command.insert(command.end(), {"--traces", options.traces.string(), "--keep-code", options.keep_code.string()});
    XT_TRY(const WorkerOutcome outcome, replay_in_workers(reader_, {launch_}, options, command, [&](const LaunchResult& r) {
             last = r;
             if (r.reported)
               shown = shown_by(r.json);
             else if (r.of_device)
               shown.against = "launch-failed: " + r.error;
             else
               failed = environment("launch {}: {}", launch_, r.error);
           }));
    options_.announced_by.clear();
    interrupted = outcome.interrupted;
    if (interrupted) return environment("interrupted");
    XT_TRY_STATUS(std::move(failed));
    const bool first = std::exchange(first_, false);
    if (first && !shown.refused.empty()) return unsupported("launch {} is not replayed under {}: {}", launch_, flags_.probe, shown.refused);
    if (first) doubts = shown.doubts;
    notice("xtrace reduce: {} instructions: {}\n", pcs.size(),
           !shown.against.empty() ? shown.against : !shown.refused.empty() ? "refused: " + shown.refused : "as it should be");
    return shown.against;
  }
  LaunchResult last;
  std::string doubts;   // of the first trial
  bool interrupted = false;

 private:
  const bundle::BundleReader& reader_;
  ReplayOptions options_;
  const ReduceFlags& flags_;
  uint64_t launch_;
  bool first_ = true;
};

Result<ReplayOptions> options_of(const ReduceFlags& f) {
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
  if (sample.sites_one_in > 1)
    return with_hint(bad_input("--sample {}: reduce looks for the instructions itself", sample.text()), "it takes samples of warps, as cta:1/N");
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
  XT_TRY_STATUS(device_fits(o));
  return o;
}

std::vector<uint32_t> instructions_of(const instrument::Splicer& splicer) {
  std::vector<uint32_t> pcs;
  for (const auto& i : splicer.instructions()) pcs.push_back(i.pc.value);
  std::sort(pcs.begin(), pcs.end());
  return pcs;
}

// The reproducer: the spliced code, the report, and how to see it again.
Status keep(const ReduceFlags& f, const fs::path& folder, const fs::path& code, const Reduction& r, const LaunchResult& last) {
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (!ec) fs::copy(code, folder, fs::copy_options::overwrite_existing, ec);
  if (ec) return environment("can not copy the spliced code into {}: {}", folder.string(), ec.message());
  XT_TRY_STATUS(write_file(folder / "report.json", last.reported ? last.json : std::string("{}\n")));
  const std::string places = places_text(r.pcs);
  return write_file(folder / "README",
                    fmt::format("{}\n\n{}\n", r.what, fmt::join(replay_command(f, "\"" + places + "\""), " ")));
}

// For the reproducer, where no other folder was named.
Status bundle_takes_it(const std::string& bundle) {
  Status writable = can_be_written(bundle, true);
  if (!writable) writable.error().hint = "--keep names another folder for the reproducer";
  return writable;
}

}  // namespace

int run_reduce(int argc, char** argv) {
  ReduceFlags f;
  CommandLine line("reduce", {{"xtrace reduce run.xtr --launch 3", "which instructions, probed by inst, make launch 3 diverge"},
                              {"xtrace reduce run.xtr --launch 3 --probe mem --keep repro", "and a folder to reproduce it from"},
                              {"xtrace reduce run.xtr --launch 3 --json -", "the outcome for a program"}});
  line.positional("BUNDLE", f.bundle, "directory written by xtrace record");
  line.option("--launch", f.launch, {0, std::numeric_limits<uint32_t>::max()}, "ordinal of the launch (default: 0)");
  line.option("--probe", f.probe, "inst, pair or mem (default: inst)");
  line.option("--sample", f.sample, "all, cta:1/N, or another sample of warps that xtrace replay takes (default: all)");
  line.option("--keep", f.keep, "folder for the reproducer: spliced code, report, command line (default: BUNDLE/reduced)");
  line.option("--json", f.json, "write the outcome to this file; - for stdout instead of the text");
  line.option("--seed", f.seed, any_seed, "of the sampling (default: 1)");
  line.option("--watchdog", f.watchdog, any_seconds, "seconds after which a launch counts as hung (default: 10)");
  line.option("--backend", f.backend, "driver (a GPU), interp (the CPU), interp-late (the same, with results as late as the code allows), or auto (default: auto)");
  line.option("--device", f.device, any_device, "ordinal of the GPU (default: 0)");
  if (const auto status = line.parse(argc, argv)) return *status;
  auto options = options_of(f);
  if (!options) return wrong_value("reduce", options.error());
  const auto reader = bundle::BundleReader::open(f.bundle);
  if (!reader) return report("reduce", reader.error());
  if (const std::string missing = what_is_missing(**reader); !missing.empty()) notice("xtrace reduce: warning: {} {}\n", f.bundle, missing);
  const fs::path folder = f.keep.empty() ? fs::path(f.bundle) / "reduced" : fs::path(f.keep);
  if (const Status s = f.keep.empty() ? bundle_takes_it(f.bundle) : can_be_written(f.keep, true); !s) return report("reduce", s.error());
  if (const Status s = can_be_written(f.json, false); !s) return report("reduce", s.error());
  const auto scratch = Scratch::make();   // trials leave traces, and code that is not the last
  if (!scratch) return report("reduce", scratch.error());
  options->keep_code = scratch->path() / "code";
  options->traces = scratch->path() / "traces";
  const auto launch = load_whole_launch(**reader, f.launch);
  if (!launch) return report("reduce", launch.error());
  const bundle::LaunchRecord& record = launch->record;
  const auto splicer = instrument::Splicer::create(launch->code, record.kernel, {record.grid, record.block, record.cluster, record.dynamic_shared_bytes});

  ReductionReport r;
  r.bundle = f.bundle;
  r.kernel = record.kernel;
  r.probe = f.probe;
  r.sample = f.sample;
  r.launch = f.launch;
  Reducer reducer(**reader, *options, f);
  Status answered;
  if (splicer) {
    const std::vector<uint32_t> pcs = instructions_of(*splicer);
    r.instructions = pcs.size();
    auto reduced = reduce(pcs, [&](const std::vector<uint32_t>& some) { return reducer.trial(some); });
    if (reduced) r.reduction = std::move(*reduced);
    else answered = tl::make_unexpected(std::move(reduced).error());
    r.doubts = reducer.doubts;
    for (const uint32_t pc : r.reduction.pcs) r.sass.push_back(splicer->text({pc}));
  } else {
    answered = tl::make_unexpected(splicer.error());
  }
  if (answered && !r.reduction.pcs.empty()) {   // what was found is told even where it can not be kept
    answered = keep(f, folder, options->keep_code, r.reduction, reducer.last);
    if (answered) r.reproducer = folder.string();
  }
  int of_error = 0;
  if (!answered) {
    r.error = answered.error().message;
    r.hint = answered.error().hint;
    of_error = report("reduce", answered.error());
    if (reducer.interrupted) of_error = exit_interrupted;
  }
  if (f.json == "-")
    fmt::print("{}", r.json(of_error));
  else if (answered || !r.reduction.pcs.empty())
    fmt::print("{}", r.text());
  if (!f.json.empty() && f.json != "-")
    if (const Status written = write_file(f.json, r.json(of_error)); !written) return report("reduce", written.error());
  return r.exit_status(of_error);
}

}  // namespace xtrace::cli
