#include "tools/xtrace/replay/probe_run.h"

#include <algorithm>

#include "diff/memory_diff.h"
#include "replay/address_plan.h"
#include "trace/aggregate.h"

namespace xtrace::cli {
namespace {

std::string first_loss(const trace::LossCounts& losses) {
  for (const trace::LossInfo& info : trace::all_losses()) {
    const auto& row = losses.row(info.loss);
    if (row.occurrences != 0 && info.severity != trace::LossSeverity::note)
      return fmt::format("{} of {}, first in warp {}", row.occurrences, info.name, row.first_warp);
  }
  return {};
}

Result<diff::MemoryDiff> compare(const LaunchContext& c, const std::vector<Bytes>& regions) {
  std::vector<ByteView> reference, actual;
  std::vector<diff::UnstableRanges> unstable;
  for (size_t r = 0; r < regions.size(); ++r) {
    reference.push_back(c.reference.output_of(c.launch, r));
    actual.push_back(regions[r]);
    diff::UnstableRanges ranges;
    const replay::ByteRanges ignored = c.reference.ignored(r);
    for (const replay::ByteRange& b : ignored.ranges()) ranges.push_back({b.begin, b.end - b.begin});
    unstable.push_back(std::move(ranges));
  }
  return diff::compare_memory(reference, actual, unstable);
}

// What differs outside the mask may be the order in which lanes add floating-point numbers, of which the clean replays have not
// shown every outcome: this region showed some, and more than differs here.
bool may_be_order(const LaunchContext& c, size_t region, uint64_t differing) {
  return differing <= c.reference.ignored(region).bytes() && c.splicer.sums_floats();
}

bool may_be_order(const LaunchContext& c, const diff::MemoryDiff& d) {
  for (size_t r = 0; r < d.regions.size(); ++r)
    if (d.regions[r].differing_outside != 0 && !may_be_order(c, r, d.regions[r].differing_outside)) return false;
  return true;
}

bool may_be_order(const LaunchContext& c, const std::vector<replay::Mismatch>& mismatches) {
  return std::all_of(mismatches.begin(), mismatches.end(),
                     [&](const replay::Mismatch& m) { return may_be_order(c, m.region, m.bytes); });
}

}  // namespace

std::vector<LoadedPart> loaded_parts(const std::vector<CtaPart>& parts, bool rotated, const BufferImage& buffer, uint32_t site_part) {
  std::vector<LoadedPart> all;
  for (const CtaPart& p : parts)
    all.push_back({site_part, p.number, &p.spliced, p.module, buffer, p.records, rotated ? &p.blocks : nullptr});
  return all;
}

void add_clean_facts(const LaunchContext& c, diff::SemanticEvidence& e) {
  e.clean_replays = c.reference.replays;
  if (c.reference.has_recorded_after) {
    e.clean_against_recorded = c.reference.matches_recorded_after               ? diff::OutputMatch::equal
                               : may_be_order(c, c.reference.mismatches) ? diff::OutputMatch::unsettled
                                                                         : diff::OutputMatch::diverged;
    if (!c.reference.mismatches.empty()) {
      const replay::Mismatch& m = c.reference.mismatches[0];
      e.clean_against_recorded_text = fmt::format("{} offset {:#x}: expected {:#04x}, found {:#04x} ({} bytes differ)",
                                                  replay::describe(m.region, c.launch.record.regions[m.region]), m.offset,
                                                  static_cast<int>(m.expected), static_cast<int>(m.found), m.bytes);
    }
  }
  uint64_t written = 0, unstable = 0;
  for (size_t r = 0; r < c.launch.before.size(); ++r) {
    if (!c.reference.written[r]) continue;
    replay::for_each_difference(c.launch.before[r], c.reference.output[r], [&](const replay::ByteRange& range) {
      written += range.end - range.begin;
      return true;
    });
    unstable += c.reference.ignored(r).bytes();
  }
  e.written_bytes = std::max(written, unstable);
  e.written_stable_bytes = e.written_bytes - unstable;
}

Status compare_now(LaunchContext& c, replay::ModuleHandle module, diff::SemanticEvidence& e) {
  XT_TRY(const std::vector<Bytes> regions, c.backend.read_regions(module));
  XT_TRY(diff::MemoryDiff d, compare(c, regions));
  for (bool more = true; more && d.differing_outside != 0;) {
    XT_TRY(more, replay::replay_once_more(c.backend, c.launch, c.reference));
    XT_TRY(d, compare(c, regions));
  }
  const diff::OutputMatch found = d.equal()           ? diff::OutputMatch::equal
                                  : d.unstable_only() ? diff::OutputMatch::unstable_only
                                  : may_be_order(c, d) ? diff::OutputMatch::unsettled
                                                      : diff::OutputMatch::diverged;
  // Over several replays of one configuration the worst stands.
  if (found <= e.output && e.output != diff::OutputMatch::not_compared) return {};
  e.output = found;
  if (d.first) e.output_text = d.first->text();
  return {};
}

diff::SpatialEvidence space_of(const LaunchContext& c, const instrument::SpliceReport& splice,
                               const replay::Resources& clean, const replay::Resources& probed, uint64_t trace_bytes) {
  diff::SpatialEvidence s;
  s.registers_before = clean.registers;
  s.registers_after = probed.registers;
  s.ctas_per_sm_before = clean.ctas_per_sm;
  s.ctas_per_sm_after = probed.ctas_per_sm;
  s.local_bytes_before = clean.local_bytes;
  s.local_bytes_after = probed.local_bytes;
  s.spills = splice.spills;
  s.spill_bytes = splice.spill_frame > splice.original_frame ? splice.spill_frame - splice.original_frame : 0;
  s.shared_bytes_before = clean.static_shared_bytes;
  s.shared_bytes_after = probed.static_shared_bytes;
  s.code_bytes_before = splice.original_code_bytes;
  s.code_bytes_after = splice.new_code_bytes;
  s.trace_bytes = trace_bytes;
  for (const bundle::Region& r : c.launch.record.regions) s.kernel_bytes += r.size;
  return s;
}

std::vector<diff::LossCount> losses_of(const trace::LossCounts& losses) {
  std::vector<diff::LossCount> out;
  for (const trace::LossInfo& info : trace::all_losses()) {
    const auto& row = losses.row(info.loss);
    if (row.occurrences != 0)
      out.push_back({std::string(info.name), std::string(trace::name_of(info.severity)), row.occurrences, row.bytes});
  }
  return out;
}

Status compare_path(const LaunchContext& c, const wire::AddressMap& map, const Counts& counts,
                    std::span<const wire::BlockCount> traced, diff::SemanticEvidence& e) {
  XT_TRY(const trace::CountComparison path, trace::compare_counts(map, counts.blocks, traced, c.splicer.waiting()));
  e.path = path.equal      ? diff::PathMatch::equal
           : path.waited   ? diff::PathMatch::waited
           : counts.stable ? diff::PathMatch::differs
                           : diff::PathMatch::unstable;
  e.path_text = path.text();
  // A function that calls itself: lanes part in it, and meet as they return.
  const std::vector<bool> recursive = c.splicer.recursive();
  for (size_t b = 0; b < recursive.size(); ++b)
    if (recursive[b] && counts.blocks[b].lanes < counts.blocks[b].warps * 32) {
      e.groups_text = fmt::format("B{} of a function that calls itself: {} executions with {} lanes", b, counts.blocks[b].warps, counts.blocks[b].lanes);
      break;
    }
  return {};
}

void compare_warps(const trace::DecodeSummary& summary, diff::SemanticEvidence& e) {
  const uint64_t changed = summary.losses.count(trace::Loss::count_changed);
  e.path = changed == 0 ? diff::PathMatch::equal : diff::PathMatch::differs;
  e.path_text = changed == 0 ? fmt::format("as much as was counted in {} warps", summary.sampled_warps)
                             : fmt::format("{} of {} warps wrote another number of bytes than was counted", changed, summary.sampled_warps);
}

void add_losses(const trace::LossCounts& losses, diff::SemanticEvidence& e) {
  e.lost = losses.count(trace::LossSeverity::lost);
  e.distrusted = losses.count(trace::LossSeverity::distrust);
  e.losses_text = first_loss(losses);
}

}  // namespace xtrace::cli
