#include "tools/xtrace/replay/pair_rotation.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/progress.h"
#include "instrument/cubin/extract.h"
#include "tools/xtrace/replay/interval_run.h"
#include "tools/xtrace/replay/measurement.h"
#include "tools/xtrace/replay/probe_work.h"

namespace xtrace::cli {
namespace {

constexpr uint64_t bytes_per_site = 64ull << 20;   // more records than that are sampled by CTA: they are read back
constexpr size_t timed_sites = 24;
constexpr uint32_t fewer_rounds = 4;               // than for other probes: there are many sites

struct SiteList {
  std::vector<uint32_t> pcs;
  uint32_t left_out = 0;
};

// Every instruction of every executed block, or those at the places asked for; over the limit, evenly spread.
SiteList executed_sites(const LaunchContext& c, const Counts& counts, uint32_t limit) {
  std::vector<uint32_t> all;
  for (size_t b = 0; b < counts.blocks.size(); ++b) {
    if (counts.blocks[b].warps == 0) continue;
    const wire::Block& block = c.splicer.blocks()[b];
    for (uint32_t i = 0; i < block.instructions; ++i) {
      const uint32_t pc = block.first_pc + i * trace::inst_bytes;
      if (c.splicer.covers(OrigPc{pc})) all.push_back(pc);
    }
  }
  std::sort(all.begin(), all.end());
  if (all.size() <= limit) return {all, 0};
  SiteList spread;
  for (uint32_t i = 0; i < limit; ++i) spread.pcs.push_back(all[uint64_t{i} * all.size() / limit]);
  spread.left_out = static_cast<uint32_t>(all.size()) - limit;
  return spread;
}

// Libraries come as cubins of megabytes, of which each site would copy and load all. Cut out of them the kernel is the same, at the
// same offsets, with the same variables; nothing where it can not be.
struct CutOut {
  Bytes cubin;
  instrument::Splicer splicer;
};
std::optional<CutOut> cut_out(const replay::LaunchImage& launch) {
  constexpr size_t large_code = 256 << 10;
  if (launch.code.size() < large_code) return std::nullopt;
  const bundle::LaunchRecord& r = launch.record;
  auto cut = cubin::extract_function(launch.code, r.kernel, cubin::Variables::all);
  if (!cut || cut->cubin.size() > launch.code.size() / 2) return std::nullopt;
  auto splicer = instrument::Splicer::create(cut->cubin, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
  if (!splicer) return std::nullopt;
  return CutOut{std::move(cut->cubin), std::move(*splicer)};
}

// Whether the launch gives the same on that code. False also where it does not load.
bool works(LaunchContext& c, ByteView code) {
  const auto same = with_module(c.backend, code, [&](replay::ModuleHandle module) -> Result<bool> {
    XT_TRY_STATUS(run_restored(c.backend, module));
    XT_TRY(const auto mismatches, replay::compare_outputs(c.backend, c.launch, module, c.reference));
    return mismatches.empty();
  });
  return same && *same;
}

// Records of the busiest block, as written by a pair or by both ends of an edge, decide whether CTAs must be sampled.
uint32_t sampling_for(const Counts& counts, Sample sample) {
  uint64_t most = 0;
  for (const wire::BlockCount& b : counts.blocks) most = std::max(most, b.warps);
  const uint64_t bytes = 2 * most * wire::chunk_bytes;
  uint32_t one_in = sample.one_in;
  while (bytes / one_in > bytes_per_site && one_in < (1u << 20)) one_in *= 2;
  return one_in;
}

// Without a sample asked for: the sparsest of a few that keeps CTAs enough, and of every executed block enough executions, or all of
// them where there are fewer. A warp that is not traced costs a pair next to nothing, and each site needs no more than some samples.
Result<uint32_t> sampling_by_default(LaunchContext& c, const Counts& all, uint32_t seed, Counts& drawn) {
  constexpr uint32_t rates[] = {64, 32, 16, 8, 4, 2};
  constexpr uint64_t ctas_enough = 64, executions_enough = 256;
  const uint64_t ctas = c.warps / std::max(1u, c.warps_per_cta);
  for (const uint32_t one_in : rates) {
    if (ctas < one_in * ctas_enough) continue;
    XT_TRY(Counts counts, count_launch(c, Drawn{one_in, seed, {}}));
    bool enough = counts.stable;
    for (size_t b = 0; b < all.blocks.size(); ++b)
      enough &= counts.blocks[b].warps >= std::min(all.blocks[b].warps, executions_enough);
    if (!enough) continue;
    drawn = std::move(counts);
    return one_in;
  }
  return 1u;
}

// A site writes at most two records per execution of any block.
std::vector<uint32_t> slot_bytes(const LaunchContext& c, const Counts& counts, const Drawn& drawn) {
  std::vector<uint32_t> bytes(counts.block_bytes.size());
  for (uint32_t w = 0; w < bytes.size(); ++w)
    if (drawn.has(w, c.warps_per_cta)) bytes[w] = 2 * counts.block_bytes[w];
  return bytes;
}

class Rotation {
 public:
  // `drawn`: executions by the warps that the table is of. `densest`: one CTA in so many may be measured.
  Rotation(LaunchContext& c, const Counts& counts, const Counts* drawn, const ReplayOptions& options, const replay::Resources& clean,
           TraceBuffer& buffer, const Sample& sample, uint32_t densest, PairRotation& out)
      : c_(c), counts_(counts), drawn_(drawn), options_(options), clean_(clean), buffer_(buffer), sample_(sample), densest_(densest),
        out_(out), bounds_(c.splicer.blocks(), counts) {}

  struct Rate {
    uint32_t one_in, seed;
  };

  // Into `times` as well as into the rotation's; nothing where the site is refused.
  Status measure(uint32_t pc) { return measure(pc, {out_.one_in, sample_.seed.value_or(options_.seed)}, out_.times); }
  Status measure(uint32_t pc, const Rate& rate, trace::GradedTimes& times) {
    auto spliced = splice(pc, rate);
    if (!spliced) {
      if (spliced.error().kind == ErrorKind::internal) return tl::make_unexpected(spliced.error());
      out_.refused[pc] = spliced.error().message;
      return {};
    }
    out_.sites += &times == &out_.times;
    return with_module(c_.backend, spliced->cubin, [&](replay::ModuleHandle module) -> Status {
      XT_TRY(const replay::Resources probed, c_.backend.resources(module));
      XT_TRY_STATUS(clear(spliced->map.layout));
      XT_TRY_STATUS(run_restored(c_.backend, module));
      if (options_.compare) XT_TRY_STATUS(compare_now(c_, module, out_.semantics));
      if (c_.backend.info().measures_time) {   // the first launch of a module finds no cache that holds its code
        XT_TRY_STATUS(clear(spliced->map.layout));
        XT_TRY_STATUS(run_restored(c_.backend, module));
      }
      XT_TRY_STATUS(decode(*spliced, pc, times));
      const diff::SpatialEvidence space = space_of(c_, spliced->report, clean_, probed, site_bytes_);
      const bool worse = space.registers_after > out_.space.registers_after ||
                         space.code_bytes_after > out_.space.code_bytes_after;
      if (worse) out_.space = space;
      return {};
    });
  }

  // Some sites, spread evenly.
  Status estimate(const std::vector<uint32_t>& pcs) {
    IntervalRequest request{{}, false, sample_, out_.one_in, densest_, bounds_};
    const size_t wanted = std::min<size_t>(options_.interval_sites, pcs.size());
    for (size_t k = 0; k < wanted; ++k) request.sites.push_back(pcs[k * pcs.size() / wanted]);
    request.all = wanted == pcs.size() && out_.sites_left_out == 0 && out_.out_of_time == 0 && !options_.at && densest_ == 1 && sample_.select.empty();
    XT_TRY(out_.intervals, estimate_intervals(c_, counts_, options_, buffer_, request, out_.times));
    return {};
  }

  // A subset of the sites, spread evenly: of each round the median site.
  Status time(const std::vector<uint32_t>& pcs, uint32_t ctas_at_once, TimingProcesses* processes) {
    Measurement m{c_.backend, c_.launch, c_.reference, options_, processes};
    m.apart = false;
    m.rounds = std::max(1u, options_.rounds / fewer_rounds);
    m.buffers.push_back(buffer_.image());
    std::vector<Bytes> cubins;
    std::vector<diff::ProbeWork> work;
    const size_t step = std::max<size_t>(1, pcs.size() / timed_sites);
    for (size_t i = step / 2; i < pcs.size(); i += step) {
      auto spliced = splice(pcs[i], {out_.one_in, sample_.seed.value_or(options_.seed)});
      if (!spliced) continue;
      if (drawn_ != nullptr) {
        XT_TRY(work.emplace_back(), work_of(c_, *spliced, *drawn_, ctas_at_once));
      }
      cubins.push_back(std::move(spliced->cubin));
      XT_TRY(const replay::ModuleHandle module, c_.backend.load(cubins.back()));
      m.variants.push_back({fmt::format("pair@{:#x}", pcs[i]), module, {}});
    }
    for (size_t v = 0; v < cubins.size(); ++v) m.variants[v].cubin = cubins[v];
    if (cubins.empty()) return {};
    m.groups.emplace_back(cubins.size());
    std::iota(m.groups[0].begin(), m.groups[0].end(), 0);
    auto measured = cli::measure(m);
    for (const TimedVariant& v : m.variants) (void)c_.backend.unload(v.module);
    if (!measured) return tl::make_unexpected(measured.error());
    out_.timing = evidence_of(*measured, 0);
    out_.timing->claims_time = true;
    out_.median_microseconds = measured->stats.variants[0].samples.median;
    out_.warnings = std::move(measured->warnings);
    out_.floor = median_floor(work, measured->stats.clean.median);
    return {};
  }

 private:
  Result<instrument::Spliced> splice(uint32_t pc, const Rate& rate) {
    return c_.splicer.splice({instrument::ProbeKind::pair, {OrigPc{pc}}, rate.one_in, rate.seed, counts_.full(), {},
                              instrument::ProbeKind::mem, sample_.select},
                             bounds_.layout(buffer_.layout(), instrument::Around::instruction, pc));
  }
  std::optional<diff::Floor> median_floor(const std::vector<diff::ProbeWork>& work, double clean_us) const {
    const auto rates = diff::device_rates(c_.backend.info().device);
    std::vector<diff::Floor> floors;
    for (const diff::ProbeWork& w : work)
      if (const auto floor = rates ? diff::floor_of(*rates, w, clean_us) : std::nullopt) floors.push_back(*floor);
    return diff::median_of(std::move(floors));
  }
  Status clear(const wire::SlotLayout& slots) {
    return slots.slot_bytes < buffer_.layout().slot_bytes ? buffer_.clear(slots) : buffer_.clear();
  }

  Status decode(const instrument::Spliced& spliced, uint32_t pc, trace::GradedTimes& times) {
    XT_TRY(const trace::RecordView view, buffer_.view(spliced.map));
    uint64_t begun = 0, with_other_count = 0;
    uint32_t most = 0;
    trace::DecodeOptions options{view.table, false, {}};
    XT_TRY(const trace::DecodeSummary summary,
           trace::decode(view.map, trace::TraceKind::pair, view.headers, view.read, options,
                         [&](const trace::WarpTrace& t) -> Status {
                           times.add(spliced.map, t);
                           uint32_t own = 0;
                           for (wire::RecordKind k : t.kind) own += k != wire::RecordKind::edge_end;
                           begun += own;
                           most = std::max(most, own);
                           return {};
                         }));
    site_bytes_ = view.stored_bytes != 0 ? view.stored_bytes : summary.bytes_written;
    out_.records += summary.records;
    out_.bytes += site_bytes_;
    out_.losses.merge(summary.losses);
    if (spliced.map.layout.one_in == 1 && sample_.select.empty()) bounds_.saw(pc, most);
    // Every execution of the instruction must have left its record: the block's own counter says how many.
    if (drawn_ != nullptr && spliced.map.layout.one_in == out_.one_in && counts_.stable) {
      for (size_t b = 0; b < c_.splicer.blocks().size(); ++b) {
        const wire::Block& block = c_.splicer.blocks()[b];
        const uint32_t end = block.first_pc + block.instructions * trace::inst_bytes;
        if (pc < block.first_pc || pc >= end) continue;
        with_other_count = drawn_->blocks[b].warps;
      }
      diff::SemanticEvidence& e = out_.semantics;
      if (begun != with_other_count && e.path != diff::PathMatch::differs) {
        e.path = diff::PathMatch::differs;
        e.path_text = fmt::format("site {:#x}: {} records, {} executions counted", pc, begun, with_other_count);
      }
    }
    return {};
  }

  LaunchContext& c_;
  const Counts& counts_;
  const Counts* drawn_;
  const ReplayOptions& options_;
  const replay::Resources& clean_;
  TraceBuffer& buffer_;
  const Sample& sample_;
  uint32_t densest_;
  PairRotation& out_;
  uint64_t site_bytes_ = 0;
  RecordBounds bounds_;
};

Result<PairRotation> rotate(LaunchContext& c, Sample sample, const Counts& counted, const ReplayOptions& options,
                            const replay::Resources& clean, uint32_t ctas_at_once, TimingProcesses* processes) {
  const auto begin = std::chrono::steady_clock::now();
  PairRotation out;
  const uint32_t densest = out.one_in = sampling_for(counted, sample), seed = sample.seed.value_or(options.seed);
  const SiteList sites = executed_sites(c, counted, options.pair_sites);
  out.sites_left_out = sites.left_out;
  std::optional<Counts> drawn;
  if (densest == 1 && sample.select.empty()) {
    drawn = counted;
    // Where all intervals are asked for, how often any warp comes to them is.
    if (!options.sampled && options.interval_sites < sites.pcs.size() && counted.stable && !c.splicer.waits()) {
      XT_TRY(out.one_in, sampling_by_default(c, counted, seed, *drawn));
    }
  } else if (sample.select.empty()) {
    XT_TRY(drawn, count_launch(c, Drawn{densest, seed, {}}));
  }
  out.semantics.path = diff::PathMatch::not_applicable;
  out.semantics.invariants = diff::Invariants::not_applicable;
  Counts counts = counted;
  if (c.splicer.waits()) counts.stable = false;   // such loops go round more or less often each time
  std::vector<uint32_t> bytes = slot_bytes(c, counts, {densest, seed, sample.select});
  const uint32_t largest = c.splicer.largest_record(instrument::ProbeKind::pair);
  if (!counts.stable) bytes = room_for_more(std::move(bytes), largest);
  XT_TRY(const auto buffer, TraceBuffer::create(c.backend, bytes, largest, !counts.stable, {.headless = counts.stable}));
  std::optional<CutOut> cut = cut_out(c.launch);
  if (cut && !works(c, cut->cubin)) cut.reset();
  LaunchContext spliced{c.backend, c.launch, cut ? cut->splicer : c.splicer, c.reference, c.warps, c.warps_per_cta};
  Rotation rotation(spliced, counts, drawn ? &*drawn : nullptr, options, clean, *buffer, sample, densest, out);
  Progress progress("pair sites", sites.pcs.size(), !options.quiet);
  const bool bounded = c.backend.info().measures_time && options.pair_sites == ReplayOptions{}.pair_sites;
  std::vector<uint32_t> pcs, rest = sites.pcs;
  for (size_t look = 8; !rest.empty(); look *= 2) {   // twice as many each time: the first are no measure of all
    const size_t n = std::min(rest.size(), look - pcs.size());
    for (size_t k = 0; k < n; ++k) {
      XT_TRY_STATUS(rotation.measure(rest[k]));
      progress.advance(1, fmt::format("{:#x}", rest[k]));
      pcs.push_back(rest[k]);
    }
    rest.erase(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(n));
    if (!bounded) continue;
    auto in_time = sites_in_time(rest, pcs.size(), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    const auto left_out = static_cast<uint32_t>(rest.size() - in_time.size());
    out.out_of_time += left_out;
    progress.advance(left_out, "out of time");
    rest = std::move(in_time);
  }
  if (c.backend.info().measures_time) {
    XT_TRY_STATUS(rotation.estimate(pcs));
  }
  add_clean_facts(c, out.semantics);
  out.semantics.lost = out.losses.count(trace::LossSeverity::lost) + out.intervals.records_lost;
  out.semantics.distrusted = out.losses.count(trace::LossSeverity::distrust);
  if (options.compare && c.backend.info().measures_time)
    XT_TRY_STATUS(rotation.time(pcs, ctas_at_once, processes));
  if (options.compare && !out.timing) {
    out.timing = diff::TimingEvidence{};   // not measured: what the pairs say of time is no result
    out.timing->claims_time = true;
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace

std::vector<uint32_t> sites_in_time(const std::vector<uint32_t>& rest, size_t done, double seconds) {
  const double left = most_rotation_seconds - seconds;
  const double each = seconds / static_cast<double>(std::max<size_t>(done, 1));
  if (each * static_cast<double>(rest.size()) <= left) return rest;
  const auto n = left <= 0 ? size_t{0} : std::min(rest.size(), static_cast<size_t>(left / each));
  std::vector<uint32_t> some;
  for (size_t k = 0; k < n; ++k) some.push_back(rest[k * rest.size() / n]);
  return some;
}

// As for traces (trace_run.cc): counting replays may have agreed by chance.
Result<PairRotation> rotate_pairs(LaunchContext& c, Sample sample, const Counts& counted, const ReplayOptions& options,
                                  const replay::Resources& clean, uint32_t ctas_at_once, TimingProcesses* processes) {
  XT_TRY(PairRotation out, rotate(c, sample, counted, options, clean, ctas_at_once, processes));
  const bool another_path = out.semantics.path == diff::PathMatch::differs || out.semantics.lost != 0;
  if (!another_path || !counted.stable || c.splicer.waits()) return out;
  XT_TRY(const bool varies, paths_vary(c, Drawn{1, options.seed, {}}, counted));
  if (!varies) return out;
  Counts unstable = counted;
  unstable.stable = false;
  return rotate(c, sample, unstable, options, clean, ctas_at_once, processes);
}

}  // namespace xtrace::cli
