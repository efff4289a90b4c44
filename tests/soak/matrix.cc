// Every recorded launch under every probe, with all CTAs, with one in four, and with one site in eight, all eight parts: a table of what was
// equal to the interpreter's log of the original kernel and of what was refused by name (docs/testing.md).
//
//   probe_matrix               every cell; exit status 0: none failed, and what was refused is what refusals.tsv says
//   probe_matrix KERNEL PROBE  these alone
//   probe_matrix rest          what splice_test, mem_test and point_test leave out: CI runs all of them
//   probe_matrix dense         without the parts of sparse sites: a fifth of the time
//   probe_matrix random CUBIN...  the kernels of tests/random/generate.py in these files: only cells that fail are printed, and how often
//                              each refusal was met; random-dense: without the parts of sparse sites
//   probe_matrix ... gpu       on the GPU
//   probe_matrix ... late      on the interpreter, with results as late as the control bits of the code allow (replay/interp/late.h)
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "tests/random/launches.h"
#include "tests/soak/plan.h"

namespace xtrace::soak {
namespace {

using instrument::ProbeKind;
using Kind = wire::Value::Kind;

constexpr uint32_t seed = 7, parts = 8;

// What reg, custom and range are told: registers that the kernel mentions; everywhere, in every third place, in a stretch of the code.
instrument::Asked asked(const instrument::Splicer& s) {
  std::vector<wire::Value> values;
  for (const wire::Value& v : {wire::Value{Kind::vector, 0}, {Kind::vector, 2}, {Kind::vector, 5}, {Kind::uniform, 4}, {Kind::uniform, 6},
                               {Kind::lanes, 0, true}}) {
    instrument::Asked one;
    one.reg.push_back({{}, {v}, {}, {}});
    if (values.size() < 3 && s.asked(one).points(ProbeKind::reg)) values.push_back(v);
  }
  instrument::Places third(s.section_instructions(), false), middle = third;
  const auto all = s.instructions();
  for (size_t n = 0; n < all.size(); ++n) {
    third[all[n].pc.value / 16] = !all[n].branches && n % 3 == 1;
    middle[all[n].pc.value / 16] = n >= all.size() / 4 && n < all.size() / 2;
  }
  instrument::Asked out;
  out.reg.push_back({{}, values, {}, {}});
  out.custom.push_back({third, {{Kind::clock}, {Kind::time}}, values, {}});
  out.range.push_back({middle, {}, {}, "middle"});
  return out;
}

struct Cell {
  std::string kernel, probe, sample;
  auto operator<=>(const Cell&) const = default;
};
using Refusals = std::map<Cell, std::string>;   // why, as it begins

Result<Refusals> known_refusals() {
  std::ifstream file(std::filesystem::path(XTRACE_SOURCE_DIR) / "tests/soak/refusals.tsv");
  if (!file) file.open("tests/soak/refusals.tsv");   // as recordings()
  if (!file) return environment("no tests/soak/refusals.tsv");
  Refusals refusals;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> words;
    for (size_t from = 0; words.size() < 4 && from <= line.size();) {
      const size_t to = words.size() == 3 ? line.size() : std::min(line.find('\t', from), line.size());
      words.push_back(line.substr(from, to - from));
      from = to + 1;
    }
    if (words.size() != 4) return bad_input("refusals.tsv: malformed line '{}'", line);
    refusals[{words[0], words[1], words[2]}] = words[3];
  }
  return refusals;
}

// Which cells splice_test, mem_test and point_test have, event by event; of sparse sites which parts.
bool has_test(ProbeKind probe, std::string_view sample, uint32_t part) {
  const bool sparse = sample == "site:1/8";
  switch (probe) {
    case ProbeKind::count: return sample != "cta:1/4";
    case ProbeKind::block:
    case ProbeKind::pair: return true;
    case ProbeKind::inst: return !sparse;
    case ProbeKind::mem: return sample == "all";
    case ProbeKind::reg:
    case ProbeKind::latency:
    case ProbeKind::custom: return !sparse || part % 5 == 0;
    default: return true;   // branch, sync, range
  }
}

enum class Cells : uint8_t { all, rest, dense, random, random_dense };
bool is_random(Cells c) { return c == Cells::random || c == Cells::random_dense; }

class Matrix {
 public:
  Matrix(Machine& machine, Refusals refusals, Cells cells)
      : machine_(machine), refusals_(std::move(refusals)), rest_(cells == Cells::rest),
        dense_(cells == Cells::dense || cells == Cells::random_dense), random_(is_random(cells)) {}

  bool run(const std::string& kernel, const std::string& probe) { return run(kernel, Recording::open(kernel, machine_), probe); }

  bool run(const std::string& kernel, const Result<std::unique_ptr<Recording>>& recording, const std::string& probe) {
    for (const auto& p : instrument::all_probes()) {
      if (p.kind == ProbeKind::none || (!probe.empty() && probe != p.name)) continue;
      const std::string name(p.name);
      if (!recording) {
        for (const char* sample : {"all", "cta:1/4", "site:1/8"}) note({kernel, name, sample}, tl::make_unexpected(recording.error()), 1);
        if (machine_.is_lost(recording.error())) return false;
        continue;
      }
      Recording& r = **recording;
      const instrument::Splicer splicer = r.splicer().asked(asked(r.splicer()));
      Plan plan;
      plan.kernel = kernel;
      plan.probe = p.kind;
      plan.seed = seed;
      if (p.kind == ProbeKind::pair) {
        if (!rest_ && !pairs(r, splicer, plan)) return false;
        continue;
      }
      if (!cell(r, splicer, plan, "all")) return false;
      plan.one_in = 4;   // the class of the second CTA, if there is one
      plan.cta_part = wire::part_of_cta(r.warps() > splicer.warps_per_cta() ? 1 : 0, plan.one_in, plan.seed);
      if (!cell(r, splicer, plan, "cta:1/4")) return false;
      plan.one_in = 1;
      plan.cta_part = 0;
      if (!dense_ && !sparse(r, splicer, plan)) return false;
    }
    return true;
  }

  // Expected refusals of these kernels that were not met.
  void finish(const std::set<std::string>& kernels, const std::string& probe) {
    if (rest_) return;
    for (const auto& [c, why] : refusals_)
      if (!met_.contains(c) && !(dense_ && c.sample == "site:1/8") && kernels.contains(c.kernel) && (probe.empty() || probe == c.probe)) {
        fmt::print("{}\t{}\t{}\tfailed\tno longer refused: {}\n", c.kernel, c.probe, c.sample, why);
        ++failed;
      }
  }

  void print_reasons() const {
    for (const auto& [why, times] : reasons_) fmt::print("{:7} refused: {}\n", times, why);
  }

  uint32_t equal = 0, refused = 0, failed = 0, replays = 0;

 private:
  bool cell(Recording& r, const instrument::Splicer& splicer, const Plan& plan, const char* sample) {
    if (rest_ && has_test(plan.probe, sample, 0)) return true;
    const Cell c{plan.kernel, std::string(instrument::probe_info(plan.probe).name), sample};
    Status done = run_plan(r, splicer, plan);
    const bool by_block = plan.probe == ProbeKind::block || plan.probe == ProbeKind::inst;
    uint32_t replays = 1;
    for (const bool sectors : {false, true}) {
      if (!done || !(plan.probe == ProbeKind::mem || (plan.probe == ProbeKind::inst && sectors))) continue;
      Plan brief = plan;
      brief.brief = true;
      brief.sectors = sectors;
      done = run_plan(r, splicer, brief);
      ++replays;
    }
    const std::vector<bool> polling = splicer.polling();
    if (done && random_ && by_block) {
      Plan brief = plan;
      brief.brief = true;
      brief.clock_gap = instrument::usual_clock_gap;
      done = run_plan(r, splicer, brief);
      ++replays;
    }
    if (!done || !(by_block || plan.probe == ProbeKind::mem) || std::find(polling.begin(), polling.end(), true) == polling.end()) return note(c, done, replays);
    // Loops that wait for others leave no records, in the short forms of the others.
    Plan without = plan;
    without.without_polls = without.brief = true;
    without.sectors = plan.probe == ProbeKind::mem;
    if (without.probe == ProbeKind::inst) without.clock_gap = instrument::usual_clock_gap;
    return note(c, run_plan(r, splicer, without), replays + 1);
  }

  // The parts together look at every instruction once, and have every point once.
  static Status each_site_once(const instrument::Splicer& splicer, ProbeKind probe) {
    std::map<uint32_t, uint32_t> looked;
    std::vector<uint32_t> had;
    for (uint32_t part = 0; part < parts; ++part) {
      const instrument::Splicer s = splicer.sparse({parts, part});
      for (const auto& i : s.instructions()) looked[i.pc.value] += s.covers(i.pc);
      if (!instrument::probe_info(probe).points) continue;
      const auto points = s.points(probe);
      if (!points) return {};   // refused
      had.resize(points->size());
      for (size_t k = 0; k < points->size(); ++k) had[k] += (*points)[k].is_present();
    }
    for (const auto& [pc, n] : looked)
      if (n != 1) return internal("{:#x} is looked at in {} parts", pc, n);
    for (size_t k = 0; k < had.size(); ++k)
      if (had[k] != 1) return internal("point {} is in {} parts", k, had[k]);
    return {};
  }

  // All parts; those without anything to record count as equal where some other has.
  bool sparse(Recording& r, const instrument::Splicer& splicer, Plan plan) {
    const Cell c{plan.kernel, std::string(instrument::probe_info(plan.probe).name), "site:1/8"};
    const bool whole = plan.probe == ProbeKind::count;   // looks at all sites at once
    const bool by_block = plan.probe == ProbeKind::block || plan.probe == ProbeKind::inst;
    std::vector<uint32_t> had(splicer.blocks().size(), 0);   // in so many parts
    if (rest_ && has_test(plan.probe, c.sample, whole ? 0 : 1)) return true;
    Status worst = tl::make_unexpected(Error{});
    uint32_t done = 0;
    if (const Status once = each_site_once(splicer, plan.probe); !once) return note(c, once, 0);
    for (uint32_t part = 0; part < (whole ? 1 : parts); ++part) {
      if (rest_ && has_test(plan.probe, c.sample, part)) continue;
      plan.sites = {parts, part};
      plan.sites_are_counted = part != 0;
      plan.brief = (by_block || plan.probe == ProbeKind::mem) && part % 2 == 1;
      plan.sectors = plan.probe == ProbeKind::mem;
      std::vector<bool> recorded;
      Status s = run_plan(r, splicer.sparse(plan.sites), plan, &recorded);
      for (size_t b = 0; b < recorded.size(); ++b) had[b] += recorded[b];
      if (s) {
        ++done;
        continue;
      }
      const bool nothing = s.error().message.find("no memory access") != std::string::npos || s.error().message.starts_with("no block of") ||
                           s.error().message.starts_with("no site of");
      worst = std::move(s);
      if (!nothing) {
        worst.error().message += fmt::format(" (part {})", part);
        return note(c, worst, done);
      }
    }
    for (size_t b = 0; b < had.size() && by_block && done != 0 && !rest_; ++b)
      if (had[b] == 0 || (plan.probe == ProbeKind::block && had[b] != 1)) return note(c, internal("block {} is recorded in {} parts", b, had[b]), done);
    return note(c, done != 0 ? Status{} : worst, done);
  }

  // Under site:1/8 an eighth of the instructions; else every 13th, whatever it is.
  bool pairs(Recording& r, const instrument::Splicer& splicer, Plan plan) {
    const auto all = splicer.instructions();
    for (const char* sample : {"all", "cta:1/4", "site:1/8"}) {
      if (dense_ && std::string_view(sample) == "site:1/8") continue;
      plan.one_in = std::string_view(sample) == "cta:1/4" ? 4 : 1;
      Status worst = tl::make_unexpected(Error{});
      uint32_t done = 0;
      const size_t step = std::string_view(sample) == "site:1/8" ? parts : std::max<size_t>(1, all.size() / 6) | 1;
      for (size_t n = 0; n < all.size(); n += step) {
        plan.pair_pc = all[n].pc.value;
        Status s = run_plan(r, splicer, plan);
        done += s.has_value();
        if (s) continue;
        const bool fails = s.error().kind != ErrorKind::unsupported;
        worst = std::move(s);
        if (fails) return note({plan.kernel, "pair", sample}, worst, done);
      }
      if (!note({plan.kernel, "pair", sample}, done != 0 ? Status{} : worst, done)) return false;
    }
    return true;
  }

  // What is said of one kernel as it would be of any.
  static std::string named(std::string message, const std::string& kernel) {
    for (size_t at; (at = message.find(kernel)) != std::string::npos;) message.replace(at, kernel.size(), "K");
    for (size_t at = 0; (at = message.find("0x", at)) != std::string::npos; ++at) {
      const size_t end = message.find_first_not_of("0123456789abcdef", at + 2);
      message.replace(at, end == std::string::npos ? end : end - at, "N");
    }
    return message.substr(0, 90);
  }

  // A line of the table. False: the GPU is lost.
  bool note(const Cell& c, const Status& s, uint32_t done) {
    replays += done;
    const auto known = refusals_.find(c);
    const bool is_refused = !s && s.error().kind == ErrorKind::unsupported;
    const bool expected = is_refused && (random_ || (known != refusals_.end() && s.error().message.starts_with(known->second)));
    if (expected && random_) ++reasons_[c.probe + ": " + named(s.error().message, c.kernel)];
    if (expected && !random_) met_.insert(c);
    const char* result = s ? "equal" : expected ? "refused" : "failed";
    ++(s ? equal : expected ? refused : failed);
    if (!random_ || !(s || expected))
      fmt::print("{}\t{}\t{}\t{}\t{}\n", c.kernel, c.probe, c.sample, result, s ? fmt::format("{} replays", done) : s.error().message);
    std::fflush(stdout);
    return s || !machine_.is_lost(s.error());
  }

  Machine& machine_;
  const Refusals refusals_;
  const bool rest_, dense_, random_;
  std::set<Cell> met_;
  std::map<std::string, uint32_t> reasons_;   // of random kernels
};

// The kernels of cubins of tests/random. False: the GPU is lost.
bool run_random(Matrix& m, Machine& machine, const std::vector<std::string>& cubins) {
  for (const std::string& file : cubins) {
    const auto cubin = random_kernels::read_cubin(file);
    const auto names = cubin ? random_kernels::kernels_of(*cubin) : Result<std::vector<std::string>>(tl::make_unexpected(cubin.error()));
    if (!names || names->empty()) {
      fmt::print("{}\tfailed\t{}\n", file, names ? "no kernel of tests/random/generate.py in it" : names.error().to_string());
      ++m.failed;
      continue;
    }
    for (const std::string& kernel : *names) {
      auto launch = random_kernels::launch_of(*cubin, kernel);
      if (!m.run(kernel, launch ? Recording::open(std::move(*launch), machine) : tl::make_unexpected(launch.error()), "")) return false;
    }
  }
  return true;
}

int matrix(const std::string& kernel, const std::string& probe, Where where, Cells cells, const std::vector<std::string>& cubins) {
  auto machine = Machine::make(where);
  auto refusals = known_refusals();
  if (!machine || !refusals) {
    fmt::print(stderr, "probe_matrix: {}\n", (machine ? refusals.error() : machine.error()).to_string());
    return 77;
  }
  const auto begin = std::chrono::steady_clock::now();
  Matrix m(*machine, std::move(*refusals), cells);
  std::set<std::string> kernels;
  bool whole = true;
  fmt::print("# kernel\tprobe\tsample\tresult\n");
  if (is_random(cells)) whole = run_random(m, *machine, cubins);
  for (const std::string& k : is_random(cells) ? std::vector<std::string>() : kept_kernels()) {
    if (!kernel.empty() && k != kernel) continue;
    kernels.insert(k);
    whole = whole && m.run(k, probe);
  }
  if (whole) m.finish(kernels, probe);
  m.print_reasons();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("# {}: {} cells equal in {} replays, {} refused by name, {} failed{}; {:.1f} s\n", machine->backend().info().device, m.equal, m.replays,
             m.refused, m.failed, whole ? "" : ", the rest not tried: the GPU is lost", seconds);
  std::fflush(stdout);
  return whole && m.failed == 0 && m.equal + m.refused > 0 ? 0 : 1;
}

}  // namespace
}  // namespace xtrace::soak

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const xtrace::soak::Where where = xtrace::soak::taken_from(words);
  using xtrace::soak::Cells;
  if (words.size() >= 2 && words[0].starts_with("random"))
    return xtrace::soak::matrix("", "", where, words[0] == "random" ? Cells::random : Cells::random_dense, {words.begin() + 1, words.end()});
  const std::string some = words.size() == 1 ? words[0] : "";
  const Cells cells = some == "rest" ? Cells::rest : some == "dense" ? Cells::dense : Cells::all;
  if (cells == Cells::all && words.size() != 0 && words.size() != 2) {
    fmt::print(stderr, "usage: probe_matrix [KERNEL PROBE | rest | dense | random CUBIN... | random-dense CUBIN...] [late | gpu]\n");
    return 64;
  }
  if (cells != Cells::all) words.clear();
  words.resize(2);
  return xtrace::soak::matrix(words[0], words[1], where, cells, {});
}
