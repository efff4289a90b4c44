// xtrace check: replay recordings, hold every kernel against a policy and an earlier run; for CI.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/notice.h"
#include "capture/bundle/bundle_reader.h"
#include "tools/xtrace/check/drift.h"
#include "tools/xtrace/check/evaluate.h"
#include "tools/xtrace/check/json.h"
#include "tools/xtrace/check/junit.h"
#include "tools/xtrace/check/table.h"
#include "tools/xtrace/command_line.h"
#include "tools/xtrace/incomplete.h"
#include "tools/xtrace/kernel_name.h"
#include "tools/xtrace/measure_flags.h"
#include "tools/xtrace/output_path.h"
#include "tools/xtrace/render_error.h"
#include "tools/xtrace/replay/worker.h"
#include "tools/xtrace/table.h"

namespace xtrace::cli {
namespace {

namespace fs = std::filesystem;

struct CheckFlags {
  std::vector<std::string> bundles;
  std::string policy, baseline, json, junit, traces, backend = "auto";
  bool force = false, quiet = false;
  MeasureFlags measure;
};

struct Bundle {
  std::string name;  // as rows show it
  std::unique_ptr<bundle::BundleReader> reader;
};

std::string folder_name(const std::string& path) {
  const fs::path p = fs::path(path).lexically_normal();
  return (p.has_filename() ? p : p.parent_path()).filename().string();
}

Result<std::vector<Bundle>> open(const std::vector<std::string>& paths) {
  std::vector<Bundle> bundles;
  for (const std::string& path : paths) {
    const std::string name = folder_name(path);
    for (const Bundle& other : bundles)
      if (other.name == name)
        return with_hint(bad_input("two bundles are named {}", name),
                         "rows are told apart by it: rename one, or check them one by one");
    XT_TRY(auto reader, bundle::BundleReader::open(path));
    bundles.push_back({name, std::move(reader)});
  }
  return bundles;
}

Result<ReplayOptions> options_of(const CheckFlags& f) {
  ReplayOptions o;
  XT_TRY(o.backend, parse_backend(f.backend));
  o.compare = true;
  o.announced_by = "check";
  o.quiet = f.quiet;
  f.measure.put_into(o);
  XT_TRY_STATUS(device_fits(o));
  return o;
}

// The same replay as a command line: where an address layout must be changed, the worker is executed anew
// from it.
std::vector<std::string> replay_command(const ReplayOptions& o, const CheckFlags& f, const std::string& probes,
                                        const std::vector<uint64_t>& ordinals) {
  std::vector<std::string> command{"xtrace",          "replay",
                                   o.bundle.string(), "--compare",
                                   "--probes",        probes,
                                   "--sample",        o.samples.front().text(),
                                   "--launch",        fmt::format("{}", fmt::join(ordinals, ",")),
                                   "--backend",       f.backend};
  const auto number = [&](const char* flag, auto value) {
    command.insert(command.end(), {flag, fmt::format("{}", value)});
  };
  number("--clean", o.clean_replays);
  number("--rounds", o.rounds);
  number("--processes", o.processes);
  number("--time-limit", o.time_limit_seconds);
  number("--seed", o.seed);
  number("--pair-sites", o.pair_sites);
  number("--max-slices", o.max_slices);
  number("--watchdog", o.watchdog_seconds);
  number("--device", o.device);
  if (o.emit) command.insert(command.end(), {"--traces", o.traces.string()});
  else command.push_back("--no-traces");
  if (o.quiet) command.push_back("--quiet");
  return command;
}

// Launches that are replayed under the same probes, at the same sampling rate, and for the same budgets.
struct How {
  std::vector<std::string> probes;
  std::string sample;
  std::vector<double> budgets;
  auto operator<=>(const How&) const = default;
};
using Groups = std::map<How, std::vector<uint64_t>>;

std::vector<double> budgets_of(const check::Limits& limits) {
  std::vector<double> budgets;
  for (const std::string& probe : limits.require)
    if (const auto budget = limits.of(limits.budget, probe)) budgets.push_back(*budget);
  return budgets;
}

class Check {
 public:
  Check(const check::Policy& policy, const CheckFlags& flags, ReplayOptions options)
      : policy_(policy), flags_(flags), options_(std::move(options)) {}

  // false: interrupted.
  Result<bool> replay(const Bundle& bundle) {
    Groups groups;
    std::map<uint64_t, check::Limits> limits;
    for (const bundle::LaunchRecord& l : bundle.reader->launches()) {
      if (l.status != bundle::LaunchStatus::recorded) continue;
      kernels_.emplace(l.kernel, demangled(l.kernel));
      check::Limits of_kernel = policy_.limits_for(l.kernel, demangled(l.kernel));
      if (of_kernel.require.empty()) continue;
      groups[{of_kernel.require, of_kernel.sample, budgets_of(of_kernel)}].push_back(l.ordinal);
      limits.emplace(l.ordinal, std::move(of_kernel));
    }
    if (const std::string missing = what_is_missing(*bundle.reader); !missing.empty())
      run.findings.push_back({"bundle-incomplete", diff::Verdict::inconclusive, fmt::format("{} {}", bundle.name, missing)});
    if (limits.empty()) {
      run.findings.push_back({"nothing-checked", diff::Verdict::inconclusive,
                              bundle.name + " has no recorded launch that the policy asks for"});
      return true;
    }
    const fs::path traces = options_.traces;
    options_.bundle = bundle.reader->directory();
    if (options_.emit) options_.traces = traces / bundle.name;
    bool done = true;
    for (const auto& [how, ordinals] : groups) {
      const std::string probes = fmt::format("{}", fmt::join(how.probes, ","));
      XT_TRY(options_.probes, parse_probes(probes));
      XT_TRY(const Sample sample, parse_sample(how.sample));
      options_.samples = {sample};
      options_.more_budgets = how.budgets;
      const auto command = replay_command(options_, flags_, probes, ordinals);
      XT_TRY(const WorkerOutcome outcome,
             replay_in_workers(*bundle.reader, ordinals, options_, command,
                               [&](const LaunchResult& r) { take(bundle, r, limits.at(r.ordinal)); }));
      options_.announced_by.clear();
      if (outcome.interrupted) {
        done = false;
        break;
      }
    }
    options_.traces = traces;
    std::stable_sort(run.rows.begin(), run.rows.end(), [](const check::Row& a, const check::Row& b) {
      return a.bundle == b.bundle && a.launch < b.launch;
    });
    return done;
  }

  // Sections of the policy that no kernel of the bundles has to do with: a name may be mistyped.
  void look_for_idle_sections() {
    for (const std::string& section : policy_.idle_sections(kernels_))
      run.findings.push_back({"section-unused", diff::Verdict::trusted, fmt::format("[kernel.\"{}\"] of {} matches no recorded kernel", section, flags_.policy)});
  }

  check::CheckRun run;

 private:
  std::map<std::string, std::string> kernels_;   // mangled and demangled
  void take(const Bundle& bundle, const LaunchResult& result, const check::Limits& limits) {
    const std::string where = fmt::format("{} launch {}", bundle.name, result.ordinal);
    if (!result.reported) {
      run.errors.push_back({where, result.error, result.error_exit});
      return;
    }
    for (const std::string& text : result.not_written) run.errors.push_back({where, text, exit_bad_input});
    const auto report = parse_json(result.json);
    const auto environment = check::environment_of(report);
    auto rows = check::evaluate(report, bundle.name, limits);
    if (!environment || !rows) {
      run.errors.push_back(
          {where, (environment ? rows.error() : environment.error()).to_string(), exit_internal});
      return;
    }
    if (!run.environment) run.environment = *environment;
    if (*run.environment != *environment) {
      run.errors.push_back(
          {where,
           fmt::format("replayed by {}, earlier launches by {}: the results can not stand in one table",
                       text_of(*environment), text_of(*run.environment)),
           exit_bad_input});
      return;
    }
    for (check::Row& row : *rows) run.rows.push_back(std::move(row));
  }

  const check::Policy& policy_;
  const CheckFlags& flags_;
  ReplayOptions options_;
};

Result<check::Policy> read_policy(const std::string& path) {
  XT_TRY(const Bytes bytes, read_file(path));
  return check::Policy::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}
Result<check::CheckRun> read_baseline_file(const std::string& path) {
  XT_TRY(const Bytes bytes, read_file(path));
  return check::read_baseline({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

// Compares, or says why not.
void compare_with(const check::CheckRun& baseline, const CheckFlags& f, const check::Policy& policy,
                  check::CheckRun& run) {
  run.baseline = f.baseline;
  if (!run.environment) return;  // nothing was replayed: there are errors already
  const std::string differs = check::difference(*baseline.environment, *run.environment);
  if (!differs.empty() && !f.force) {
    run.errors.push_back(
        {"baseline",
         fmt::format("{} was made elsewhere: {}; make a baseline here, or compare all the same with --force",
                     f.baseline, differs),
         exit_bad_input});
    return;
  }
  if (!differs.empty())
    run.findings.push_back(
        {"forced", diff::Verdict::trusted, "compared although the environments differ: " + differs});
  check::compare(run, baseline, policy);
}

// Both, whatever becomes of the other one.
Status write_results(const CheckFlags& f, const check::CheckRun& run) {
  Status written;
  const auto write = [&](const std::string& path, auto render) {
    if (path == "-") fmt::print("{}", render(run));
    else if (!path.empty())
      if (const Status s = write_file(path, render(run)); !s && written) written = s;
  };
  write(f.json, check::render_json);
  write(f.junit, check::render_junit);
  return written;
}

void declare(CommandLine& line, CheckFlags& f) {
  line.option("BUNDLE", f.bundles, "directories written by xtrace record");
  line.option("--policy", f.policy, "what is demanded: a TOML file, see docs/check.md");
  line.option("--baseline", f.baseline, "JSON of an earlier check: name what drifted from it");
  line.flag("--force", f.force, "compare with a baseline of another GPU, driver or backend");
  line.option("--json", f.json, "write the results to this file; - for stdout instead of the table");
  line.option("--junit", f.junit, "write the results to this file as JUnit XML; - for stdout instead of the table");
  line.option("--traces", f.traces,
              "write the traces of trusted replays to this folder (default: none are written)");
  line.option("--backend", f.backend,
              "driver (a GPU), interp (the CPU, time is not judged), interp-late (the same, with results as late as the code allows), "
              "or auto: the driver where there is one, else interp (default: auto)");
  f.measure.declare_timing(line);
  f.measure.declare_machine(line);
  line.flag("-q,--quiet", f.quiet, "no progress on stderr");
}

}  // namespace

int run_check(int argc, char** argv) {
  CheckFlags f;
  CommandLine line(
      "check",
      {{"xtrace check run.xtr --policy overhead.toml",
        "replay, judge, print one table; exit status 0, 1 or 2"},
       {"xtrace check a.xtr b.xtr --policy overhead.toml --json now.json --junit now.xml", "the same for CI"},
       {"xtrace check run.xtr --policy overhead.toml --baseline main.json", "and name what became worse"},
       {"xtrace check run.xtr --policy overhead.toml --backend=interp", "without a GPU: all but the times"}});
  declare(line, f);
  if (const auto status = line.parse(argc, argv)) return *status;
  if (f.bundles.empty()) return usage_error("check", "BUNDLE is required", "see: xtrace help check");
  if (f.policy.empty()) return usage_error("check", "--policy is required", "docs/check.md shows one");
  if (f.force && f.baseline.empty())
    return usage_error("check", "--force without --baseline", "it permits a comparison");
  if (f.json == "-" && f.junit == "-") return usage_error("check", "--json and --junit both to stdout", "name a file for one of them");

  auto options = options_of(f);
  if (!options) return wrong_value("check", options.error());
  for (const auto& [path, folder] : {std::pair(f.json, false), {f.junit, false}, {f.traces, true}})
    if (const Status writable = can_be_written(path, folder); !writable) return report("check", writable.error());
  const auto policy = read_policy(f.policy);
  if (!policy) return report("check", policy.error());
  std::optional<check::CheckRun> baseline;
  if (!f.baseline.empty()) {
    auto read = read_baseline_file(f.baseline);
    if (!read) return report("check", read.error());
    baseline = std::move(*read);
  }
  const auto bundles = open(f.bundles);
  if (!bundles) return report("check", bundles.error());
  options->traces = f.traces;
  options->emit = !f.traces.empty();

  Check work(*policy, f, *options);
  for (const Bundle& b : *bundles) {
    const auto done = work.replay(b);
    if (!done) return report("check", done.error());
    if (!*done) {
      notice("xtrace check: interrupted in {}: nothing was written\n", b.name);
      return exit_interrupted;
    }
  }
  work.look_for_idle_sections();
  check::CheckRun& run = work.run;
  if (baseline) compare_with(*baseline, f, *policy, run);
  if (f.json != "-" && f.junit != "-") fmt::print("{}", check::render_table(run, terminal_width()));
  std::fflush(stdout);
  for (const check::RunError& e : run.errors)
    notice("xtrace check: error: {}: {}\n", e.where, e.message);
  if (const Status written = write_results(f, run); !written) return report("check", written.error());
  return run.exit_status();
}

}  // namespace xtrace::cli
