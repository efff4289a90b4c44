#include "trace/aggregate.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace xtrace::trace {

Aggregate::Aggregate(const wire::AddressMap& map, TraceKind kind)
    : map_(map), kind_(kind), blocks_(map.blocks.size()), gaps_(map) {
  for (uint32_t b = 0; b < map.blocks.size(); ++b) {
    first_instruction_.push_back(static_cast<uint32_t>(instructions_.size()));
    for (uint32_t i = 0; i < map.blocks[b].instructions; ++i)
      instructions_.push_back({map.blocks[b].first_pc + i * inst_bytes, b, {}, 0});
  }
}

void Aggregate::add(const WarpTrace& trace) {
  if (kind_ == TraceKind::pair) return;
  for (uint32_t i = 0; i < trace.records(); ++i) {
    wire::BlockCount& c = blocks_[trace.index[i]];
    c.warps += 1;
    c.lanes += static_cast<uint64_t>(std::popcount(trace.mask[i]));
  }
  if (kind_ == TraceKind::inst) add_intervals(trace);
}

void Aggregate::set_counts(std::span<const wire::BlockCount> blocks) {
  XT_CHECK(blocks.size() == blocks_.size(), "a count for each block");
  blocks_.assign(blocks.begin(), blocks.end());
}

Aggregate::Ends Aggregate::ends_of(const wire::Block& block, size_t k, bool next_read) {
  if (!next_read) return Ends::unknown;
  if (block.has_clock(k)) return Ends::read;
  if (block.implied || !block.clock_at[k].waits) return Ends::unknown;
  for (size_t i = k; i-- > 0;) {
    if (block.clock_at[i].waits) return Ends::unknown;
    if (block.has_clock(i)) return Ends::implied;
  }
  return Ends::unknown;
}

void Aggregate::add_intervals(const WarpTrace& trace) {
  size_t gap = 0;
  for (uint32_t i = 0; i < trace.records(); ++i) {
    while (gap < trace.gaps.size() && trace.gaps[gap] <= i) ++gap;
    const bool gap_follows = gap < trace.gaps.size() && trace.gaps[gap] == i + 1;
    const auto clocks = trace.clocks(i);
    const wire::Block& block = map_.blocks[trace.index[i]];
    Instruction* inst = &instructions_[first_instruction_[trace.index[i]]];
    for (size_t k = 0; k < clocks.size(); ++k) inst[k].offset_sum += static_cast<double>(static_cast<int64_t>(clocks[k] - clocks[0]));
    const auto add = [&](Ends ends, uint64_t from, uint64_t to) {
      if (ends == Ends::unknown || to <= from) {
        ++inst->unattributed;
        return;
      }
      inst->ungraded.add(to - from);
      inst->from_implied += ends == Ends::implied;
    };
    for (size_t k = 0; k + 1 < clocks.size(); ++k, ++inst)
      add(ends_of(block, k, block.has_clock(k + 1)), clocks[k], clocks[k + 1]);
    // From the last instruction to the next record, if any lane of this one goes on there.
    const bool follows = i + 1 < trace.records() && !gap_follows && gaps_.none_behind(trace, i) &&
                         (trace.mask[i] & trace.mask[i + 1]) != 0;
    const uint64_t next = follows ? trace.clocks(i + 1).front() : 0;
    const bool next_read = follows && map_.blocks[trace.index[i + 1]].has_clock(0);
    add(ends_of(block, clocks.size() - 1, next_read), clocks.back(), next);
  }
}

uint64_t Aggregate::warp_instructions() const {
  uint64_t sum = 0;
  for (size_t b = 0; b < blocks_.size(); ++b) sum += blocks_[b].warps * map_.blocks[b].instructions;
  return sum;
}

uint64_t Aggregate::thread_instructions() const {
  uint64_t sum = 0;
  for (size_t b = 0; b < blocks_.size(); ++b) sum += blocks_[b].lanes * map_.blocks[b].instructions;
  return sum;
}

std::string CountComparison::text() const {
  std::string left_out;
  if (unrecorded_blocks != 0) left_out += fmt::format("; {} of loops that wait for others are not recorded", unrecorded_blocks);
  if (other_blocks != 0) left_out += fmt::format("; {} are not of this part (site:1/{})", other_blocks, sites_one_in);
  if (equal) return fmt::format("equal in {} blocks", compared_blocks) + left_out;
  if (waited && waiting_blocks == 0)
    return fmt::format("equal in {} blocks, but for in which groups the lanes of {} came", compared_blocks, different_blocks) + left_out;
  if (waited)
    return fmt::format("equal in {} blocks, but for how often {} blocks of waiting loops were executed, and in which groups the "
                       "lanes of {} others",
                       compared_blocks, waiting_blocks, different_blocks - waiting_blocks) +
           left_out;
  return fmt::format(
      "different in {} of {} blocks, first B{}: counted {} executions with {} lanes, traced {} with {}",
      different_blocks, compared_blocks, first->block, first->counted.warps, first->counted.lanes,
      first->traced.warps, first->traced.lanes);
}

Result<CountComparison> compare_counts(const wire::AddressMap& map,
                                       std::span<const wire::BlockCount> counters,
                                       std::span<const wire::BlockCount> traced,
                                       const std::vector<bool>& waiting) {
  XT_CHECK(waiting.empty() || waiting.size() == map.blocks.size(), "a flag for each block");
  const bool any_waits = std::find(waiting.begin(), waiting.end(), true) != waiting.end();
  if (counters.size() != map.blocks.size() || traced.size() != map.blocks.size())
    return bad_input("block counts: the address map has {} blocks, the counters {} and the trace {}",
                     map.blocks.size(), counters.size(), traced.size());
  CountComparison result;
  result.sites_one_in = map.sites_one_in;
  for (uint32_t b = 0; b < map.blocks.size(); ++b) {
    if (map.blocks[b].record_bytes == 0) {
      ++result.skipped_blocks;
      result.unrecorded_blocks += map.blocks[b].unrecorded && !map.blocks[b].other_part;
      result.other_blocks += map.blocks[b].other_part;
      continue;
    }
    ++result.compared_blocks;
    const bool same_warps = counters[b].warps == traced[b].warps || (map.blocks[b].implied && !map.blocks[b].loop);   // see wire::Block
    if (same_warps && counters[b].lanes == traced[b].lanes) continue;
    ++result.different_blocks;
    result.equal = false;
    if (any_waits && waiting[b]) {
      ++result.waiting_blocks;
      continue;
    }
    if (any_waits && counters[b].lanes == traced[b].lanes) continue;
    result.waited = false;
    if (!result.first) result.first = CountComparison::Mismatch{b, counters[b], traced[b]};
  }
  return result;
}

void GradedTimes::add(const wire::AddressMap& map, const WarpTrace& trace) {
  // Edges begun and not ended: a branch may send its lanes to two places, so each is kept until all its lanes
  // arrived.
  struct Open {
    uint32_t site, begun, left, record;
    uint64_t clock;
  };
  std::vector<Open> open;
  auto samples_of = [&](uint32_t site) -> Samples& {
    return samples_[{map.sites[site].pc, std::max(1u, map.layout.one_in)}];
  };
  // What the probe itself adds: a clock read, and for edges the code that stores the first clock ahead of the
  // branch. Part of that may pass while the instruction stalls, and its stall count is known.
  auto interval = [&](uint32_t site, uint64_t from, uint64_t to) {
    const wire::Site& s = map.sites[site];
    const uint64_t d = to - from, own = clock_read_cycles + s.overhead_cycles;
    return std::max<uint64_t>(d > own ? d - own : 0, s.least_cycles);
  };
  size_t gap = 0;
  auto abandon = [&] {
    for (const Open& o : open) ++samples_of(o.site).unmatched_begin;
    open.clear();
  };

  for (uint32_t i = 0; i < trace.records(); ++i) {
    if (gap < trace.gaps.size() && trace.gaps[gap] == i) {
      ++gap;
      abandon();
    }
    const uint32_t site = trace.index[i], mask = trace.mask[i];
    const auto clocks = trace.clocks(i);
    switch (trace.kind[i]) {
      case wire::RecordKind::pair:
        // A step back is a violated invariant, not an interval.
        if (clocks[1] > clocks[0]) samples_of(site).cycles.add(interval(site, clocks[0], clocks[1]));
        break;
      case wire::RecordKind::edge_begin:
        open.push_back({site, mask, mask, i, clocks[0]});
        break;
      case wire::RecordKind::edge_end:
        // The end may be reached without the branch too (another predecessor): then nothing is open and
        // nothing is due.
        for (size_t k = open.size(); k-- > 0;) {
          Open& o = open[k];
          if (o.site != site || (o.left & mask) == 0) continue;
          if (clocks[0] > o.clock) {
            const bool at_once = i == o.record + 1;
            (at_once ? samples_of(site).cycles : samples_of(site).deferred)
                .add(interval(site, o.clock, clocks[0]));
          }
          o.left &= ~mask;
          if (o.left == 0) open.erase(open.begin() + static_cast<ptrdiff_t>(k));
        }
        break;
      default:
        break;
    }
  }
  abandon();
}

std::optional<GradedTimes::Grade> GradedTimes::grade(uint32_t pc, uint64_t enough_samples) const {
  std::optional<Grade> g;
  double lowest = 0, highest = 0;
  for (auto it = samples_.lower_bound({pc, 0}); it != samples_.end() && it->first.pc == pc; ++it) {
    const Distribution& d = it->second.cycles;
    if (d.count() == 0 || d.count() < enough_samples) continue;
    const uint32_t rates = g ? g->rates : 0;
    const double median = d.median();
    lowest = rates ? std::min(lowest, median) : median;
    highest = rates ? std::max(highest, median) : median;
    // Ordered by one_in: the last one is the sparsest, which disturbs least.
    g = Grade{it->first.one_in, median,    d.quantile(0.25),
              d.quantile(0.75), d.mean(),  d.quantile(0.9),
              d.count(),        rates + 1, 0};
  }
  if (g && g->median > 0) g->rate_spread = (highest - lowest) / g->median;
  return g;
}

}  // namespace xtrace::trace
