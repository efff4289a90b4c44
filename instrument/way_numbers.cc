#include "instrument/way_numbers.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/bits.h"
#include "instrument/clocks.h"
#include "instrument/implied.h"
#include "trace/wire/record.h"

namespace xtrace::instrument {
namespace {

constexpr BitRange guard_index = bits(14, 12);   // of a guard predicate; 7: there is none [sass.md 1.1]
constexpr uint32_t most_parts = 256;

// An EXIT by its guard alone, so that a store under the same guard is by the lanes that end.
bool ends_by_guard(const CodeInst& inst) {
  const sass::Effects& fx = inst.fx;
  const auto p = static_cast<unsigned>(get_bits(inst.raw, guard_index));
  return fx.use.upred == 0 && fx.use.ur.none() && fx.use.pred == (p == 7 ? 0 : 1u << p);
}

// Lanes that came there one after another may go on together.
bool meet_behind(const Code& code, const ProbeBlock& block) {
  const sass::Effects& last = code.insts[block.last()].fx;
  return last.flow == sass::Flow::next && last.may_switch_path;
}

class Finder {
 public:
  Finder(const Code& code, const Blocks& blocks, const std::vector<bool>& recorded, const std::vector<bool>& implied,
         const std::vector<uint64_t>& executions, const std::vector<bool>& full)
      : code_(code), blocks_(blocks), implied_(implied), executions_(executions), full_(full), before_(blocks.blocks.size()) {
    for (uint32_t b = 0; b < before_.size(); ++b)
      for (const uint32_t s : blocks.successors[b]) before_[s].push_back(b);
    for (uint32_t b = 0; b < before_.size(); ++b) {
      const bool met = std::any_of(before_[b].begin(), before_[b].end(), [&](uint32_t p) { return meet_behind(code, blocks.blocks[p]); });
      may_.push_back(!recorded[b] && !before_[b].empty() && !met && may_number(code, blocks, b));
    }
  }

  std::vector<WayRegion> run() {
    std::vector<std::pair<uint64_t, WayRegion>> found;
    for (uint32_t b = 0; b < before_.size(); ++b) {
      if (implied_[b] || blocks_.returns[b]) continue;
      WayRegion region;
      if (!grow(b, region)) continue;
      if (const uint64_t saved = saves(region); saved != 0 && assign(region)) found.push_back({saved, std::move(region)});
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<bool> taken(before_.size(), false), kept(before_.size(), false);   // in a region; with a record because of one
    std::vector<WayRegion> regions;
    for (auto& [saved, region] : found) {
      bool apart = !taken[region.from] && !taken[region.to];
      for (const WayRegion::Part& p : region.parts) apart = apart && !taken[p.block] && !kept[p.block];
      if (!apart) continue;
      kept[region.from] = kept[region.to] = true;
      for (const WayRegion::Part& p : region.parts) taken[p.block] = true;
      regions.push_back(std::move(region));
    }
    return regions;
  }

 private:
  // All that can be reached from a block through blocks that are entered from there alone: each is taken once all that lead to it are.
  bool grow(uint32_t from, WayRegion& region) const {
    region.from = from;
    std::set<uint32_t> inside;
    const auto known = [&](uint32_t b) { return b == from || inside.contains(b); };
    std::vector<uint32_t> open{from};
    for (size_t k = 0; k < open.size(); ++k)
      for (const uint32_t s : blocks_.successors[open[k]]) {
        if (known(s) || !may_[s] || !std::all_of(before_[s].begin(), before_[s].end(), known)) continue;
        if (inside.size() == most_parts) return false;
        inside.insert(s);
        open.push_back(s);
        region.parts.push_back({s});
      }
    std::set<uint32_t> out;
    for (const uint32_t b : inside)
      for (const uint32_t s : blocks_.successors[b])
        if (!inside.contains(s)) out.insert(s);
    if (out.size() != 1 || *out.begin() == from) return false;
    region.to = *out.begin();
    const std::vector<uint32_t>& last = before_[region.to];
    return std::all_of(last.begin(), last.end(), [&](uint32_t p) { return inside.contains(p); });
  }

  // Cycles of the memory pipe: of records, against those of the numbers. A store without a lane takes one, a column two [measured H200]. Where fewer records are
  // left out for a column, it is too many bytes for a kernel that moves many itself.
  uint64_t saves(const WayRegion& region) const {
    constexpr uint64_t full_record = 2, record = 3, column = 2, empty = 1, full_bytes = 4, bytes = 8;
    const auto cost = [&](uint32_t b) { return executions_[b] * (full_[b] ? full_record : record); };
    uint64_t now = 0, now_bytes = 0, then = executions_[region.to] * column;
    if (implied_[region.to]) then += cost(region.to);
    for (const WayRegion::Part& p : region.parts) {
      if (!implied_[p.block]) now += cost(p.block), now_bytes += executions_[p.block] * (full_[p.block] ? full_bytes : bytes);
      if (may_end(code_, blocks_.blocks[p.block])) then += executions_[p.block] * empty;
    }
    return now > 2 * then && 2 * now_bytes >= executions_[region.to] * wire::column_bytes ? now - then : 0;
  }

  // A number of its own for each block that one way leads to, and a sum of its own for each other. Then without those, hot ones first, which nobody
  // misses.
  bool assign(WayRegion& region) const {
    std::set<uint32_t> alone;
    for (WayRegion::Part& p : region.parts) {
      const std::vector<uint32_t>& leads_there = before_[p.block];
      if (leads_there.size() == 1 && (leads_there[0] == region.from || alone.contains(leads_there[0]))) alone.insert(p.block);
    }
    const auto stride = static_cast<uint32_t>(alone.size() + 1);
    uint32_t number = 0;
    uint64_t sum = stride + 1;
    region.start = stride;
    for (WayRegion::Part& p : region.parts)
      if (alone.contains(p.block)) {
        p.number = ++number;
      } else {
        if (sum >= 1u << 30) return false;
        p.adds = static_cast<uint32_t>(sum);
        sum *= 2;
      }
    if (!tells_ways(code_, blocks_, region)) return false;
    if (const uint32_t start = std::exchange(region.start, 0); !tells_ways(code_, blocks_, region)) region.start = start;
    std::vector<size_t> hot(region.parts.size());
    std::iota(hot.begin(), hot.end(), size_t{0});
    std::stable_sort(hot.begin(), hot.end(), [&](size_t a, size_t b) { return executions_[region.parts[a].block] > executions_[region.parts[b].block]; });
    for (const size_t k : hot) {
      WayRegion::Part& p = region.parts[k];
      const WayRegion::Part as_it_was = std::exchange(p, {p.block});
      if (!tells_ways(code_, blocks_, region)) p = as_it_was;
    }
    return true;
  }

  const Code& code_;
  const Blocks& blocks_;
  const std::vector<bool>& implied_;
  const std::vector<uint64_t>& executions_;
  const std::vector<bool>& full_;
  std::vector<std::vector<uint32_t>> before_;   // predecessors
  std::vector<bool> may_;
};

}  // namespace

bool may_end(const Code& code, const ProbeBlock& block) { return code.insts[block.last()].fx.flow == sass::Flow::exit; }

bool may_number(const Code& code, const Blocks& blocks, uint32_t b) {
  const ProbeBlock& block = blocks.blocks[b];
  if (b == 0 || blocks.returns[b] || blocks.behind_call[b] != Blocks::none || !takes_fixed_time(code, block)) return false;
  for (InstIndex i = block.first; i <= block.last(); ++i)
    if (pace_of(code.insts[i]) == Pace::queued) return false;
  switch (code.insts[block.last()].fx.flow) {
    case sass::Flow::next:
    case sass::Flow::branch: return true;
    case sass::Flow::exit: return ends_by_guard(code.insts[block.last()]);
    default: return false;
  }
}

bool tells_ways(const Code& code, const Blocks& blocks, const WayRegion& region) {
  std::map<uint32_t, const WayRegion::Part*> parts;
  for (const WayRegion::Part& p : region.parts) parts[p.block] = &p;
  std::set<std::pair<uint32_t, uint32_t>> known;   // where a way ends, and its number; Blocks::none: the lane ends
  uint32_t steps = 0;
  struct At {
    uint32_t block, number;   // in front of the block; 0: nobody has set it
  };
  std::vector<At> open;
  for (const uint32_t s : blocks.successors[region.from])
    if (parts.contains(s)) open.push_back({s, region.start});
  while (!open.empty()) {
    auto [b, number] = open.back();
    open.pop_back();
    if (++steps > most_way_steps) return false;
    const WayRegion::Part& p = *parts.at(b);
    if (p.adds != 0 && number == 0) return false;
    number = p.number != 0 ? p.number : number + p.adds;
    if (may_end(code, blocks.blocks[b]) && (number == 0 || !known.insert({Blocks::none, number}).second)) return false;
    for (const uint32_t s : blocks.successors[b]) {
      if (parts.contains(s)) open.push_back({s, number});
      else if (number == 0 || !known.insert({s, number}).second) return false;
    }
  }
  return true;
}

std::vector<WayRegion> way_regions(const Code& code, const Blocks& blocks, const std::vector<bool>& recorded, const std::vector<bool>& implied,
                                   const std::vector<uint64_t>& executions, const std::vector<bool>& full) {
  if (executions.size() != blocks.blocks.size()) return {};
  return Finder(code, blocks, recorded, implied, executions, full).run();
}

}  // namespace xtrace::instrument
