#include "trace/warp_access_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace xtrace::trace {
namespace {

// [PTX ISA: cp.async.bulk, cp.async.bulk.tensor, mbarrier]
constexpr uint32_t piece_alignment = 16, box_alignment = 128, map_alignment = 64, barrier_bytes = 8;
constexpr uint64_t sector_bytes = 32;

// Ascending; the first word of what is wrong stays.
class Checks {
 public:
  explicit Checks(SharedMemory shared) : shared_(shared) {}
  void in_shared(uint32_t address, uint64_t bytes, uint32_t alignment, std::string_view what) {
    ++checked;
    if (offset_of(address) % alignment != 0) return fail(fmt::format("{} at {:#x} of shared memory, not aligned to {} bytes", what, address, alignment));
    if (shared_.bytes == 0) return;
    if (rank_of(address) >= std::max(shared_.ctas, 1u))
      return fail(fmt::format("{} at {:#x} of shared memory: CTA {} of a cluster of {}", what, address, rank_of(address), shared_.ctas));
    if (offset_of(address) + bytes > shared_.bytes)
      fail(fmt::format("{} of {} bytes at {:#x} of shared memory, which has {:#x}", what, bytes, offset_of(address), shared_.bytes));
  }
  void fail(std::string text) {
    if (!impossible) impossible = std::move(text);
  }
  uint32_t checked = 0;
  std::optional<std::string> impossible;

 private:
  SharedMemory shared_;
};

}  // namespace

bool holds(const std::vector<MemoryRange>& memory, uint64_t begin, uint64_t end) {
  auto next = std::upper_bound(memory.begin(), memory.end(), begin, [](uint64_t a, const MemoryRange& r) { return a < r.begin; });
  if (next == memory.begin() || end < begin) return false;
  for (auto r = std::prev(next); r != memory.end() && r->begin <= begin && begin < r->end; ++r) {
    if (end <= r->end) return true;
    begin = r->end;
  }
  return false;
}

uint64_t sectors_of_ranges(const std::vector<MemoryRange>& ranges) {
  uint64_t count = 0, next = 0;   // the first sector that was not counted
  for (const MemoryRange& r : ranges) {
    if (r.begin >= r.end) continue;
    const uint64_t first = std::max(r.begin / sector_bytes, next), last = (r.end - 1) / sector_bytes + 1;
    if (last <= first) continue;
    count += last - first;
    next = last;
  }
  return count;
}

WarpAccessAnalysis::Seen WarpAccessAnalysis::add(const wire::Access& access, const WarpAccess& what, const std::vector<MemoryRange>& memory,
                                                 MovedStats& stats) const {
  Checks checks(shared_);
  Seen seen;
  if (what.shared || what.shared_from) stats.copies += what.ctas == 0 ? 1 : static_cast<uint64_t>(std::popcount(what.ctas));
  uint64_t shared_bytes = what.bytes;
  uint32_t alignment = piece_alignment;
  const auto in_global = [&](uint64_t begin, uint64_t end) {
    if (!holds(memory, begin, end)) checks.fail(fmt::format("{} bytes at {:#x}, outside the memory of the launch", end - begin, begin));
    stats.global.add(begin, end);
  };
  if (access.form == wire::Access::Form::bulk) {
    stats.bytes += what.bytes;
    if (what.bytes == 0) checks.fail("no bytes");
    if (access.space == wire::Access::Space::global) {
      ++checks.checked;
      if (what.global % piece_alignment != 0) checks.fail(fmt::format("{} bytes at {:#x}, not aligned to {}", what.bytes, what.global, piece_alignment));
      else in_global(what.global, what.global + what.bytes);
      seen.sectors = sectors_of_ranges({{what.global, what.global + what.bytes}});
    }
  } else {
    ++checks.checked;
    ++stats.maps[what.map];
    alignment = box_alignment;
    shared_bytes = 0;
    if (what.map % map_alignment != 0) checks.fail(fmt::format("a tensor map at {:#x}, not aligned to {} bytes", what.map, map_alignment));
    TensorMaps::Found found = maps_ == nullptr ? TensorMaps::Found(TensorMaps::NotKnown{"nobody asked"}) : maps_->box(access, what);
    if (const auto* box = std::get_if<Box>(&found)) {
      uint64_t inside = 0;
      for (const MemoryRange& r : box->rows) {
        inside += r.end - r.begin;
        in_global(r.begin, r.end);
      }
      stats.bytes += box->bytes;
      stats.outside += box->bytes - std::min(inside, box->bytes);
      seen.sectors = sectors_of_ranges(box->rows);
      shared_bytes = box->shared_bytes;
    } else if (const auto* no = std::get_if<TensorMaps::NotKnown>(&found)) {
      if (stats.not_known++ == 0) stats.why_not_known = no->why;
    } else {
      checks.fail(std::get<TensorMaps::Impossible>(found).what);
    }
  }
  if (what.ctas != 0 && shared_.bytes != 0 && static_cast<unsigned>(std::bit_width(what.ctas)) > std::max(shared_.ctas, 1u))
    checks.fail(fmt::format("CTAs {:#x} of a cluster of {}", what.ctas, shared_.ctas));
  for (const auto& address : {what.shared, what.shared_from}) {
    if (!address) continue;
    checks.in_shared(*address, shared_bytes, alignment, access.form == wire::Access::Form::tensor ? "a box" : "a piece");
    stats.shared.add(offset_of(*address), offset_of(*address) + std::max<uint64_t>(shared_bytes, 1));
  }
  if (what.barrier) checks.in_shared(*what.barrier, barrier_bytes, barrier_bytes, "a barrier");
  seen.checked = checks.checked;
  if (checks.impossible) seen.impossible = fmt::format("{} {} at {:#x}: {}", name_of(access.form), name_of(access.kind), access.pc, *checks.impossible);
  return seen;
}

}  // namespace xtrace::trace
