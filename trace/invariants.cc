#include "trace/invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace xtrace::trace {
namespace {

constexpr InvariantInfo table[] = {
#define XTRACE_INVARIANT(name, text) {Invariant::name, #name, text},
#include "trace/invariants.def"
#undef XTRACE_INVARIANT
};

// Where a lane is, when it is not in a block.
constexpr uint32_t before_entry = 0xffffffff, unknown_place = 0xfffffffe;

}  // namespace

std::span<const InvariantInfo> all_invariants() { return table; }

uint64_t InvariantResult::violations() const {
  uint64_t sum = 0;
  for (const Row& r : rows) sum += r.violated;
  return sum;
}

InvariantChecker::InvariantChecker(const wire::AddressMap& map, TraceKind kind) : map_(map), kind_(kind) {
  if (kind == TraceKind::pair || map.blocks.empty()) return;
  next_.reserve(map.blocks.size());
  for (const wire::Block& b : map.blocks) {
    Next n = follow(b.successors);
    n.any |= b.indirect;
    n.exits |= b.exits;
    next_.push_back(std::move(n));
  }
  uint32_t entry = 0;
  for (uint32_t i = 1; i < map.blocks.size(); ++i)
    if (map.blocks[i].first_pc < map.blocks[entry].first_pc) entry = i;
  entry_ = follow({entry});
}

InvariantChecker::Next InvariantChecker::follow(std::vector<uint32_t> starts) const {
  Next n;
  std::vector<bool> seen(map_.blocks.size(), false);
  while (!starts.empty()) {
    const uint32_t b = starts.back();
    starts.pop_back();
    if (b >= map_.blocks.size() || seen[b]) continue;
    seen[b] = true;
    const wire::Block& block = map_.blocks[b];
    if (block.record_bytes != 0) {
      n.blocks.push_back(b);
      continue;
    }
    n.any |= block.indirect;
    n.exits |= block.exits;
    starts.insert(starts.end(), block.successors.begin(), block.successors.end());
  }
  std::sort(n.blocks.begin(), n.blocks.end());
  return n;
}

bool InvariantChecker::allowed(const Next& next, uint32_t block) const {
  return next.any || std::binary_search(next.blocks.begin(), next.blocks.end(), block);
}

std::string InvariantChecker::describe(const Next& next) const {
  std::string s;
  for (uint32_t b : next.blocks) s += fmt::format("{}B{}", s.empty() ? "" : " or ", b);
  if (next.any) s += s.empty() ? "any block" : " or any block";
  return s.empty() ? "nothing" : s;
}

void InvariantChecker::violated(Invariant i, const WarpTrace& trace, uint32_t record, std::string expected,
                                std::string found) {
  InvariantResult::Row& row = result_.rows[static_cast<size_t>(i)];
  ++row.violated;
  if (!row.first) row.first = Violation{trace.warp, record, std::move(expected), std::move(found)};
}

void InvariantChecker::check(const WarpTrace& trace) {
  check_clocks(trace);
  for (uint32_t i = 0; i < trace.records(); ++i)
    if (trace.mask[i] == 0) violated(Invariant::mask, trace, i, "at least one active lane", "mask 0x0");
  passed(Invariant::mask, trace.records());
  if (kind_ != TraceKind::pair) check_paths(trace);
}

void InvariantChecker::check_clocks(const WarpTrace& trace) {
  uint32_t record = 0;
  for (size_t i = 1; i < trace.clock.size(); ++i) {
    while (trace.clock_begin[record + 1] <= i) ++record;
    // A clock that nobody read lies between its neighbours, and may be one of them.
    const bool first = i == trace.clock_begin[record];   // else the one before is of the same record
    const bool placed = is_placed(trace, record, i) || is_placed(trace, first ? record - 1 : record, i - 1);
    if (placed ? trace.clock[i] < trace.clock[i - 1] : trace.clock[i] <= trace.clock[i - 1])
      violated(Invariant::clock_order, trace, record, fmt::format("a clock above {}", trace.clock[i - 1]),
               fmt::format("{} (clock {} of the record)", trace.clock[i], i - trace.clock_begin[record]));
  }
  if (!trace.clock.empty()) passed(Invariant::clock_order, trace.clock.size() - 1);
}

bool InvariantChecker::is_placed(const WarpTrace& trace, uint32_t record, size_t clock) const {
  if (kind_ == TraceKind::pair) return false;
  const wire::Block& block = map_.blocks[trace.index[record]];
  return kind_ == TraceKind::block ? block.implied || block.placed : !block.has_clock(clock - trace.clock_begin[record]);
}

void InvariantChecker::check_paths(const WarpTrace& trace) {
  // Lanes that are in the same place are checked once: groups of lanes, by the block they executed last.
  struct Group {
    uint32_t lanes, place;
  };
  std::vector<Group> groups{{0xffffffff, before_entry}};
  size_t gap = 0;
  auto forget = [&](uint32_t record) {
    if (gap >= trace.gaps.size() || trace.gaps[gap] != record) return;
    ++gap;
    groups.assign(1, {0xffffffff, unknown_place});
  };

  for (uint32_t i = 0; i < trace.records(); ++i) {
    forget(i);
    const uint32_t mask = trace.mask[i], block = trace.index[i];
    size_t kept = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      Group group = groups[g];
      const uint32_t moved = group.lanes & mask;
      if (moved != 0) {
        if (group.place == before_entry) {
          passed(Invariant::entry);
          if (!allowed(entry_, block))
            violated(Invariant::entry, trace, i, fmt::format("{} first", describe(entry_)),
                     fmt::format("B{} (lanes {:#x})", block, moved));
        } else if (group.place != unknown_place) {
          passed(Invariant::successor);
          if (!allowed(next_[group.place], block))
            violated(Invariant::successor, trace, i,
                     fmt::format("{} after B{}", describe(next_[group.place]), group.place),
                     fmt::format("B{} (lanes {:#x})", block, moved));
        }
      }
      group.lanes &= ~mask;
      if (group.lanes != 0) groups[kept++] = group;
    }
    groups.resize(kept);
    // Lanes of a record that names the same place as another group stay two groups only if they differ.
    bool joined = false;
    for (Group& g : groups)
      if (g.place == block) {
        g.lanes |= mask;
        joined = true;
        break;
      }
    if (!joined && mask != 0) groups.push_back({mask, block});
  }
  if (trace.tail_missing() || !trace.exited) return;
  for (const Group& g : groups) {
    if (g.place == before_entry || g.place == unknown_place) continue;
    passed(Invariant::exit);
    if (!next_[g.place].exits)
      violated(Invariant::exit, trace, trace.records() - 1, "a block that can end the warp",
               fmt::format("B{} as the last block of lanes {:#x}", g.place, g.lanes));
  }
}

}  // namespace xtrace::trace
