// sass_splice_corpus [--kernels N] [--seed S] [--sm N] [--plan NAME] [--save FOLDER] FILE...: splices plans of every kind, or
// the one named, into up to N random kernels of every architecture that the files carry, and extracts each of them; in all
// kernels the empty plan must give the identical file. The splicer verifies its result itself. Prints, for
// every architecture, how many went through, and the refusals by reason. --save writes for nvdisasm the extracted kernels and
// the spliced ones, cut out of their cubins where they can be. Exit status 1 when an empty plan changes a byte, an extracted function differs from
// the original, or something fails that is no refusal.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "instrument/cubin/extract.h"
#include "instrument/cubin/fatbin.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/instrument.h"
#include "instrument/sass/arch.h"
#include "instrument/sass/inst.h"
#include "tools/oracle/arguments.h"

namespace xtrace {
namespace {

struct Candidate {
  size_t file = 0;
  cubin::FatbinEntry entry;
  std::string kernel;
};

struct Tally {
  std::map<std::string, uint64_t> by_plan;
  uint64_t unchanged = 0, kernels = 0, tried = 0, cut_first = 0, identical = 0, spliced = 0, extracted = 0, faults = 0, sites = 0;
  std::map<std::string, uint64_t> refusals, extract_refusals;
  std::map<std::string, std::string> example;
};

// The part of a message that names the reason: without kernel names, numbers and instructions.
std::string reason_of(const std::string& message, std::string_view kernel) {
  std::string text = message.substr(0, message.find('\n'));
  for (size_t at; (at = text.find(kernel)) != std::string::npos;) text.replace(at, kernel.size(), "K");
  for (std::string_view cut : {" at K@", ", at ", "; kernel K", " from K"})
    if (const size_t at = text.find(cut); at != std::string::npos) text.resize(at);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool number = std::isdigit(static_cast<unsigned char>(text[i])) != 0 &&
                        (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0);
    out += number ? '#' : text[i];
    while (number && i + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[i + 1])) != 0) ++i;
  }
  return out;
}

instrument::LaunchShape shape_of(const cubin::KernelInfo& info) {
  instrument::LaunchShape shape;
  shape.grid = {64, 1, 1};
  shape.block = {info.max_threads == 0 ? 128 : std::min<uint32_t>(info.max_threads, 1024), 1, 1};
  return shape;
}

// The ways to write records that the splicer has. `full`: as if no counted execution had missed a lane, and every block had
// been executed as often as the one before it, so that chains and lane groups are used wherever the code allows it.
struct PlanRow {
  const char* name;
  instrument::ProbeKind probe;
  bool wraps, brief, full;
  uint32_t clock_gap = 0;
};
constexpr PlanRow plan_rows[] = {
    {"block", instrument::ProbeKind::block, true, false, false},
    {"inst", instrument::ProbeKind::inst, true, false, false},
    {"block-short", instrument::ProbeKind::block, false, true, false},
    {"block-short-full", instrument::ProbeKind::block, false, true, true},
    {"inst-packed", instrument::ProbeKind::inst, false, true, false},
    {"inst-packed-full", instrument::ProbeKind::inst, false, true, true},
    {"inst-implied", instrument::ProbeKind::inst, false, true, false, instrument::usual_clock_gap},
    {"inst-implied-full", instrument::ProbeKind::inst, false, true, true, instrument::usual_clock_gap},
    {"pair", instrument::ProbeKind::pair, false, false, true},
    {"count", instrument::ProbeKind::count, true, false, false},
    {"count-alone", instrument::ProbeKind::count, false, false, true},
    {"mem", instrument::ProbeKind::mem, false, false, false},
    {"branch", instrument::ProbeKind::branch, false, false, false},
    {"sync", instrument::ProbeKind::sync, true, false, false},
    {"latency", instrument::ProbeKind::latency, false, false, false},
};

// Slots of one size, at addresses that no driver was asked for: nothing runs here.
std::pair<instrument::Plan, wire::SlotLayout> plan_of(const PlanRow& row, const instrument::Splicer& splicer,
                                                      const instrument::LaunchShape& shape) {
  instrument::Plan plan;
  plan.probe = row.probe;
  plan.clock_gap = row.clock_gap;
  plan.counts_alone = row.probe == instrument::ProbeKind::count && !row.wraps;
  if (row.full) {
    plan.full_blocks.assign(splicer.blocks().size(), true);
    plan.executions.assign(splicer.blocks().size(), 8);
  }
  wire::SlotLayout l;
  l.warps_per_cta = splicer.warps_per_cta();
  l.warps = static_cast<uint32_t>(shape.grid.count()) * l.warps_per_cta;
  l.headers = row.wraps ? 0x100000000000 : 0;
  l.counters = 0x100000200000;
  l.slots = 0x100000400000;
  l.slot_bytes = 4096;
  l.lead_bytes = row.wraps ? 1024 : wire::chunk_bytes;
  l.wraps = row.wraps;
  if (row.brief) {
    l.index_bits = splicer.index_bits();
    l.short_records = row.probe == instrument::ProbeKind::block;
    if (l.short_records) l.lead_bytes = sizeof(wire::SlotHead);
  }
  if (row.probe == instrument::ProbeKind::mem) l.lead_bytes = wire::mem_line;
  if (row.probe == instrument::ProbeKind::pair) {
    // One instruction of the kernel, another one for every kernel.
    const wire::Block& b = splicer.blocks()[splicer.blocks().size() / 2];
    plan.pair_sites = {OrigPc{b.first_pc + b.instructions / 2 * static_cast<uint32_t>(sass::inst_bytes)}};
    l.headless = true;
    l.lead_bytes = 0;
  }
  return {plan, l};
}

class Run {
 public:
  Run(size_t kernels, unsigned seed, unsigned only, std::string plan, std::filesystem::path save,
      std::vector<std::string> files)
      : wanted_(kernels), random_(seed), only_(only), plan_(std::move(plan)), save_(std::move(save)),
        files_(std::move(files)) {}

  int all() {
    collect();
    for (auto& [sm, candidates] : candidates_) {
      std::shuffle(candidates.begin(), candidates.end(), random_);
      tallies_[sm].kernels = candidates.size();
      if (candidates.size() > wanted_) candidates.resize(wanted_);
      // In file order, so that every entry is unwrapped once.
      std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        return a.file != b.file ? a.file < b.file : a.entry.offset < b.entry.offset;
      });
    }
    for (size_t f = 0; f < files_.size(); ++f) {
      const auto bytes = read_file(files_[f]);
      if (!bytes) continue;
      for (auto& [sm, candidates] : candidates_)
        for (const Candidate& c : candidates)
          if (c.file == f) one(*bytes, c, tallies_[sm]);
      fmt::print(stderr, "done {}\n", files_[f]);
    }
    return report();
  }

 private:
  void collect() {
    for (size_t f = 0; f < files_.size(); ++f) {
      const auto bytes = read_file(files_[f]);
      const auto entries = bytes ? cubin::fatbin_entries(*bytes) : tl::make_unexpected(bytes.error());
      if (!entries) {
        fmt::print(stderr, "sass_splice_corpus: {}: {}\n", files_[f], entries.error().to_string());
        unread_ = true;
        continue;
      }
      for (const cubin::FatbinEntry& e : *entries) {
        if (e.kind != cubin::FatbinEntry::Kind::cubin || (only_ != 0 && e.sm != only_) ||
            !sass::find_arch(e.sm))
          continue;
        add_kernels(*bytes, f, e);
      }
    }
  }

  // Every kernel: the empty plan parses its cubin, reads what the cubin says of it and gives the bytes; here the cubin is
  // written again, too.
  void add_kernels(ByteView bytes, size_t f, const cubin::FatbinEntry& e) {
    Tally& t = tallies_[e.sm];
    const auto code = cubin::unwrap(bytes, e);
    const auto image = code ? cubin::Image::parse(*code) : tl::make_unexpected(code.error());
    if (!image) return fault(t, {f, e, "(cubin)"}, image.error().to_string());
    const auto rewritten = image->write();
    if (!rewritten || *rewritten != *code) return fault(t, {f, e, "(cubin)"}, "is not written back as it was");
    for (const std::string& k : image->kernels()) {
      if (const auto info = cubin::kernel_info(*image, k); !info)
        fault(t, {f, e, k}, info.error().to_string());
      else
        ++t.unchanged;
      candidates_[e.sm].push_back({f, e, k});
    }
  }

  void fault(Tally& t, const Candidate& c, const std::string& what) {
    ++t.faults;
    fmt::print(stderr, "FAULT {} at {:#x} {}: {}\n", files_[c.file], c.entry.offset, c.kernel, what);
  }

  void refuse(Tally& t, const Candidate& c, std::map<std::string, uint64_t>& into, const Error& e) {
    const std::string reason = reason_of(e.message, c.kernel);
    ++into[reason];
    t.example.emplace(reason, e.message.substr(0, 160));
  }

  void save(const std::string& name, ByteView bytes) {
    if (!save_.empty()) (void)write_file(save_ / name, bytes);
  }

  // Unwraps the cubin of a candidate, once for all that follow from it.
  Status open(ByteView file, const Candidate& c) {
    if (image_ && open_file_ == c.file && open_offset_ == c.entry.offset) return {};
    image_.reset();
    XT_TRY(code_, unwrap(file, c.entry));
    XT_TRY(image_, cubin::Image::parse(code_));
    XT_TRY(const Bytes rewritten, image_->write());
    if (rewritten != code_) return internal("the cubin is not written back as it was");
    open_file_ = c.file;
    open_offset_ = c.entry.offset;
    return {};
  }

  void one(ByteView file, const Candidate& c, Tally& t) {
    ++t.tried;
    if (const Status opened = open(file, c); !opened) return fault(t, c, opened.error().to_string());
    const Bytes* code = &code_;
    const auto& image = image_;

    const auto cut = cubin::extract_function(*code, c.kernel);
    if (!cut) {
      if (cut.error().kind == ErrorKind::internal) fault(t, c, cut.error().to_string());
      refuse(t, c, t.extract_refusals, cut.error());
    } else {
      const auto small = cubin::Image::parse(cut->cubin);
      const auto old_text = image->text_section(c.kernel), new_text = small->text_section(c.kernel);
      if (!new_text || image->sections()[*old_text].data != small->sections()[*new_text].data) {
        fault(t, c, "the extracted function differs");
      } else {
        ++t.extracted;
        save(fmt::format("sm_{}_{}_extracted.cubin", image->sm(), t.tried), cut->cubin);
      }
    }

    const wire::SlotLayout none;
    const auto info = cubin::kernel_info(*image, c.kernel);
    if (!info) return refuse(t, c, t.refusals, info.error());
    // A large cubin is copied several times by every splice: there the kernel is cut out first.
    constexpr size_t large = 1 << 20;
    if (cut && code->size() > large) {
      code = &cut->cubin;
      ++t.cut_first;
    }
    const auto empty = instrument::splice(*code, c.kernel, shape_of(*info), {.probe = instrument::ProbeKind::none}, none);
    if (!empty || empty->cubin != *code) return fault(t, c, "the empty plan changed the file");
    ++t.identical;
    const auto splicer = instrument::Splicer::create(*code, c.kernel, shape_of(*info));
    if (!splicer) {
      if (splicer.error().kind == ErrorKind::internal) fault(t, c, splicer.error().to_string());
      return refuse(t, c, t.refusals, splicer.error());
    }
    for (const PlanRow& row : plan_rows) {
      if (!plan_.empty() && plan_ != row.name) continue;
      const auto [plan, layout] = plan_of(row, *splicer, shape_of(*info));
      const auto spliced = splicer->splice(plan, layout);
      if (!spliced) {
        if (spliced.error().kind == ErrorKind::internal) fault(t, c, fmt::format("{}: {}", row.name, spliced.error().to_string()));
        refuse(t, c, t.refusals, spliced.error());
        continue;
      }
      ++t.by_plan[row.name];
      ++t.spliced;
      t.sites += spliced->report.sites;
      if (save_.empty()) continue;
      const auto alone = cubin::extract_function(spliced->cubin, c.kernel);
      save(fmt::format("sm_{}_{}_{}.cubin", image->sm(), t.tried, row.name), alone ? alone->cubin : spliced->cubin);
    }
  }

  int report() const {
    uint64_t faults = 0;
    for (const auto& [sm, t] : tallies_) {
      fmt::print(
          "sm_{}: {} kernels, {} unchanged by the empty plan; {} tried ({} cut out first): empty plan identical {}, {} splices ({} sites), extracted {}, "
          "faults {}\n",
          sm, t.kernels, t.unchanged, t.tried, t.cut_first, t.identical, t.spliced, t.sites, t.extracted, t.faults);
      for (const auto& [plan, n] : t.by_plan) fmt::print("  plan {}: {}\n", plan, n);
      for (const auto& [reason, n] : t.refusals)
        fmt::print("  splice refused x{}: {} ({})\n", n, reason, t.example.at(reason));
      for (const auto& [reason, n] : t.extract_refusals)
        fmt::print("  extract refused x{}: {} ({})\n", n, reason, t.example.at(reason));
      faults += t.faults;
    }
    if (tallies_.empty()) fmt::print(stderr, "sass_splice_corpus: no kernel was tried\n");
    if (faults == 0 && (unread_ || tallies_.empty())) return exit_bad_input;
    return faults == 0 ? 0 : 1;
  }

  size_t open_file_ = 0;
  uint64_t open_offset_ = 0;
  Bytes code_;
  std::optional<cubin::Image> image_;
  size_t wanted_;
  std::mt19937 random_;
  unsigned only_;
  std::string plan_;
  std::filesystem::path save_;
  std::vector<std::string> files_;
  bool unread_ = false;   // one of them could not be
  std::map<unsigned, std::vector<Candidate>> candidates_;
  std::map<unsigned, Tally> tallies_;
};

}  // namespace
}  // namespace xtrace

int main(int argc, char** argv) {
  size_t kernels = 2000;
  unsigned seed = 1, only = 0;
  std::string plan, save;
  xtrace::Arguments arguments(argc, argv, "sass_splice_corpus [--kernels N] [--seed S] [--sm N] [--plan NAME] [--save FOLDER] FILE...");
  arguments.option("--kernels", kernels);
  arguments.option("--seed", seed);
  arguments.option("--sm", only);
  arguments.option("--plan", plan);
  arguments.option("--save", save);
  if (!plan.empty() && std::none_of(std::begin(xtrace::plan_rows), std::end(xtrace::plan_rows), [&](const auto& row) { return row.name == plan; }))
    arguments.refuse();
  return xtrace::Run(kernels, seed, only, plan, save, arguments.files()).all();
}
