// xtrace replay: replay recorded launches, clean and under probes, compare, judge, emit.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/kernel_pattern.h"
#include "base/notice.h"
#include "capture/bundle/bundle_reader.h"
#include "diff/verdict.h"
#include "tools/xtrace/command_line.h"
#include "tools/xtrace/incomplete.h"
#include "tools/xtrace/kernel_name.h"
#include "tools/xtrace/measure_flags.h"
#include "tools/xtrace/output_path.h"
#include "tools/xtrace/render_error.h"
#include "tools/xtrace/replay/worker.h"

namespace xtrace::cli {
namespace {

struct Flags {
  std::string bundle, launches, kernel, probes, json, traces, keep_code, backend = "auto";
  std::string regs, regs_behind;
  std::vector<std::string> samples, places, customs, ranges;
  bool compare = false, quiet = false, search = false, rotate = false, no_traces = false;
  double budget = 1.05;
  uint64_t interval_sites = 16, max_slices = 2'000'000;
  MeasureFlags measure;
};

// Of what was asked for, what no probe that was asked for looks at, or what one of them lacks.
Status fits_probes(const Flags& f, const ReplayOptions& o) {
  using instrument::ProbeKind;
  const auto asked = [&](auto... kinds) {
    return std::any_of(o.probes.begin(), o.probes.end(), [&](ProbeKind p) { return ((p == kinds) || ...); });
  };
  const bool places = asked(ProbeKind::inst, ProbeKind::pair, ProbeKind::mem) ||
                      std::any_of(o.probes.begin(), o.probes.end(), [](ProbeKind p) { return instrument::probe_info(p).points; });
  const bool regs = !f.regs.empty() || !f.regs_behind.empty();
  const bool in_parts =
      std::any_of(o.samples.begin(), o.samples.end(), [](const Sample& s) { return s.sites_one_in > 1 || s.one_in > 1 || s.choose; });
  const struct {
    bool wrong;
    const char* message;
    const char* hint;
  } rows[] = {
      {!f.places.empty() && !places, "--at limits none of the probes", "it limits inst, pair, mem and point probes: add one to --probes"},
      {regs && !asked(ProbeKind::reg), "--regs and --regs-behind are of the reg probe", "add reg to --probes"},
      {!f.customs.empty() && !asked(ProbeKind::custom), "--custom is of the custom probe", "add custom to --probes"},
      {!f.ranges.empty() && !asked(ProbeKind::range), "--range is of the range probe", "add range to --probes"},
      {asked(ProbeKind::reg) && !regs, "reg was told no registers", "add --regs R4,UR6,P0"},
      {asked(ProbeKind::custom) && f.customs.empty(), "custom was told nothing", "add --custom \"at op:LDG record clock, R4\""},
      {asked(ProbeKind::range) && f.ranges.empty() && f.places.empty(), "range was told no region",
       "add --range \"line:sgemm.cu:15-20\", or --at"},
      {f.rotate && !in_parts, "--rotate, and no sample has parts", "add --sample cta:1/N or site:1/N, or leave out --sample"},
      {f.search && !f.compare, "--search without --compare", "it chooses by what a comparison shows"},
  };
  for (const auto& row : rows)
    if (row.wrong) return with_hint(bad_input("{}", row.message), row.hint);
  return {};
}

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
  if (f.rotate && !o.sampled && !f.search) o.samples.front().choose = true;
  XT_TRY_STATUS(fits_probes(f, o));
  XT_TRY_STATUS(parse_places(f.places, o));
  XT_TRY_STATUS(parse_regs(f.regs, f.regs_behind, o.asked));
  for (const std::string& text : f.customs) XT_TRY_STATUS(parse_custom(text, o.asked));
  for (const std::string& text : f.ranges) XT_TRY_STATUS(parse_range(text, o.asked));
  o.rotate = f.rotate;
  o.compare = f.compare;
  o.emit = !f.no_traces;
  o.quiet = f.quiet;
  o.search = f.search;
  o.budget = f.budget;
  o.interval_sites = static_cast<uint32_t>(f.interval_sites);
  o.max_slices = f.max_slices;
  f.measure.put_into(o);
  XT_TRY_STATUS(device_fits(o));
  return o;
}

struct Selection {
  std::vector<uint64_t> ordinals;        // none: all that were recorded
  std::optional<KernelPattern> kernel;
};

Result<Selection> selection_of(const Flags& f) {
  Selection s;
  if (!f.launches.empty()) {
    XT_TRY(s.ordinals, parse_ordinals(f.launches));
  }
  if (!f.kernel.empty()) {
    XT_TRY_IN(s.kernel, KernelPattern::parse(f.kernel), "--kernel");
  }
  return s;
}

Result<std::vector<uint64_t>> select(const bundle::BundleReader& reader, const Selection& selection, const Flags& f) {
  const std::vector<uint64_t>& wanted = selection.ordinals;
  std::vector<uint64_t> ordinals;
  for (const bundle::LaunchRecord& l : reader.launches()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), l.ordinal) == wanted.end()) continue;
    if (wanted.empty() && l.status != bundle::LaunchStatus::recorded) continue;
    if (selection.kernel && !selection.kernel->matches(l.kernel, demangled(l.kernel))) continue;
    ordinals.push_back(l.ordinal);
  }
  const std::string bundle = reader.directory().string();
  const auto refuse = [&](tl::unexpected<Error> e) { return with_hint(std::move(e), "list the launches with: xtrace ls " + bundle); };
  for (uint64_t w : wanted)
    if (std::none_of(reader.launches().begin(), reader.launches().end(), [&](const auto& l) { return l.ordinal == w; }))
      return refuse(bad_input("no launch {} in {}: it {}", w, bundle, what_it_holds(reader)));
  if (ordinals.empty())
    return refuse(selection.kernel ? bad_input("no kernel of {} has a name that matches '{}'",
                                               wanted.empty() ? bundle : fmt::format("launch {} of {}", f.launches, bundle), f.kernel)
                                   : bad_input("no launch of {} was recorded: it {}", bundle, what_it_holds(reader)));
  return ordinals;
}

// Where there are several, as xtrace check says it of its rows. A launch without a report is an error: nothing is known of it.
std::string verdict_of_all(const std::vector<LaunchResult>& results) {
  size_t trusted = 0, not_trusted = 0, inconclusive = 0, errors = 0;
  for (const LaunchResult& r : results)
    ++(!r.reported ? errors : r.verdict == exit_trusted ? trusted : r.verdict == exit_not_trusted ? not_trusted : inconclusive);
  const auto verdict = not_trusted != 0             ? diff::Verdict::not_trusted
                       : inconclusive + errors != 0 ? diff::Verdict::inconclusive
                                                    : diff::Verdict::trusted;
  return fmt::format("verdict of {} launches: {} ({} trusted, {} not trusted, {} inconclusive, {} errors)", results.size(),
                     diff::name_of(verdict), trusted, not_trusted, inconclusive, errors);
}

// Worst first: internal, bad input, not trusted, inconclusive, trusted.
int worse(int a, int b) {
  constexpr int order[] = {exit_trusted, exit_inconclusive, exit_not_trusted, exit_bad_input, exit_internal};
  const auto rank = [&](int s) { return std::find(std::begin(order), std::end(order), s) - std::begin(order); };
  return rank(a) >= rank(b) ? a : b;
}

std::string one_json(const std::vector<LaunchResult>& results, const std::string& missing) {
  using nlohmann::json;
  json launches = json::array(), errors = json::array();
  for (const LaunchResult& r : results) {
    if (r.reported)
      launches.push_back(parse_json(r.json));
    else
      errors.push_back({{"launch", r.ordinal}, {"error", r.error}});
  }
  return json_text(json{{"launches", launches}, {"errors", errors}, {"incomplete", missing.empty() ? json() : json(missing)}}, 2);
}

void declare(CommandLine& line, Flags& f) {
  line.positional("BUNDLE", f.bundle, "directory written by xtrace record");
  line.option("--probes", f.probes, "names of xtrace probes, with commas, or all: block, inst and pair (default: block)");
  line.repeated("--sample", f.samples, "all, or cta:1/N cta:0,5-7 cta:wave cluster:0 warp:0 sm:3 site:1/N nth:N clocks:all sectors:whole, joined by commas; several times: a replay each (default: all; pair: enough CTAs for every site, of many)");
  line.flag("--rotate", f.rotate, "with --sample cta:1/N: N replays that trace every CTA once; site:1/N: N that cover all sites (block: all blocks); both: N x M; alone: cta:1/16");
  line.option("--regs", f.regs, "reg: what to record in front of each instruction: R4,UR6,P0,!P1,clock,time,data (what an access stores)");
  line.option("--regs-behind", f.regs_behind, "reg: the same, behind it; data: what an access loads");
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
  line.flag("--no-traces", f.no_traces, "judge only: no trace, timeline or table is written, and no launch is replayed for one");
  line.option("--keep-code", f.keep_code, "folder for the spliced cubins, one for each launch, probe and sample");
  line.option("--budget", f.budget, {1, 1000}, "largest ratio of times that is still trusted: 1.05 is 5 % more (default: 1.05)");
  f.measure.declare_timing(line);
  line.option("--interval-sites", f.interval_sites, {0, any_count.high},
              "pair: instructions measured at several sampling rates, for error bars of intervals (default: 16)");
  line.option("--max-slices", f.max_slices, {1, 1'000'000'000}, "most slices of a Perfetto timeline (default: 2000000)");
  line.option("--backend", f.backend,
              "driver (a GPU), interp (the CPU, time is modelled), interp-late (the same, with results as late as the code allows: who "
              "touches one too early stops the launch), or auto: the driver where there is one, else interp (default: auto)");
  f.measure.declare_machine(line);
  line.flag("-q,--quiet", f.quiet, "no progress on stderr");
}

}  // namespace

int run_replay(int argc, char** argv) {
  Flags f;
  CommandLine line(
      "replay",
      {{"xtrace replay run.xtr --probes=all --compare", "every launch: clean, under block, inst and pair, compared and judged"},
       {"xtrace replay run.xtr --launch 3 --probes=block", "the path of one launch, without a comparison"},
       {"xtrace replay run.xtr --launch 3 --compare --search --budget 1.02", "the richest trace that costs 2 % at most"},
       {"xtrace replay run.xtr --kernel gemm --probes=inst --sample cta:1/16 --compare", "one CTA in 16 of the gemms"},
       {"xtrace replay run.xtr --kernel gemm --probes=inst --sample cta:1/16 --rotate --compare", "all of them, a class in each of 16 replays"},
       {"xtrace replay run.xtr --probes=none --compare --json -", "does the recording replay at all? for a program"}});
  declare(line, f);
  if (const auto status = line.parse(argc, argv)) return *status;

  if (!f.compare && line.given("--budget"))
    return usage_error("replay", "--budget without --compare", "times are held against a budget where they are compared");
  if (f.no_traces && !f.traces.empty()) return usage_error("replay", "--traces with --no-traces", "either name a folder for traces, or do without them");
  if (f.no_traces && f.search) return usage_error("replay", "--search with --no-traces", "it looks for the trace to write");
  for (const std::string& text : f.customs)   // that a file is missing is no mistake of the command line
    if (text.starts_with('@'))
      if (const auto file = read_file(text.substr(1)); !file) return report("replay", file.error());
  const auto options = options_of(f);
  if (!options) return wrong_value("replay", options.error());
  const auto selection = selection_of(f);
  if (!selection) return wrong_value("replay", selection.error());
  const auto reader = bundle::BundleReader::open(f.bundle);
  if (!reader) return report("replay", reader.error());
  const auto ordinals = select(**reader, *selection, f);
  if (!ordinals) return report("replay", ordinals.error());
  for (const auto& [path, folder] : {std::pair(f.json, false), {f.traces, true}, {f.keep_code, true}})
    if (const Status writable = can_be_written(path, folder); !writable) return report("replay", writable.error());
  if (f.traces.empty() && f.compare && !f.no_traces) {   // else nothing is emitted
    Status writable = can_be_written(f.bundle, true);
    if (writable && std::filesystem::exists(options->traces)) writable = can_be_written(options->traces.string(), true);
    if (!writable) {
      writable.error().hint = "--traces names another folder for the traces";
      return report("replay", writable.error());
    }
  }

  if (const auto part = worker_of()) work_as(*part, **reader, *ordinals, *options);
  const std::string missing = what_is_missing(**reader);
  if (!missing.empty()) notice("xtrace replay: warning: {} {}\n", f.bundle, missing);

  std::vector<std::string> command{"xtrace"};
  command.insert(command.end(), argv, argv + argc);
  std::vector<LaunchResult> results;
  int status = exit_trusted;
  const bool tables = f.json != "-";
  const auto outcome = replay_in_workers(**reader, *ordinals, *options, command, [&](const LaunchResult& r) {
    results.push_back(r);
    status = worse(status, r.reported ? r.verdict : r.error_exit);
    if (!r.reported)
      notice("xtrace replay: error: launch {}: {}\n", r.ordinal, with_readable_names(r.error));
    else if (tables)
      fmt::print("{}\n", r.text);
    std::fflush(stdout);
    for (const std::string& text : r.not_written) {
      notice("xtrace replay: error: launch {}: {}\n", r.ordinal, text);
      status = worse(status, exit_bad_input);
    }
  });
  if (!outcome) return report("replay", outcome.error());
  if (!tables)
    fmt::print("{}", one_json(results, missing));
  else if (!f.json.empty())
    if (const Status written = write_file(f.json, one_json(results, missing)); !written) return report("replay", written.error());
  if (outcome->interrupted) {
    notice("xtrace replay: interrupted after {} of {} launches\n", results.size(), ordinals->size());
    return exit_interrupted;
  }
  if (tables && results.size() > 1) fmt::print("{}\n", verdict_of_all(results));
  return status;
}

}  // namespace xtrace::cli
