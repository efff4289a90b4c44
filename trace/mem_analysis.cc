#include "trace/mem_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace xtrace::trace {
namespace {

using wire::Access;

constexpr uint32_t sector_bytes = 32, bank_bytes = 4, banks = 32;

// Up to 32 lanes with pieces each: as many distinct numbers as that at most.
class DistinctNumbers {
 public:
  void add(uint64_t n) { numbers_[size_++] = n; }
  uint32_t count() {
    std::sort(numbers_.begin(), numbers_.begin() + size_);
    return static_cast<uint32_t>(std::unique(numbers_.begin(), numbers_.begin() + size_) - numbers_.begin());
  }

 private:
  std::array<uint64_t, 256> numbers_;   // a lane touches at most 4 words or 2 sectors, of local memory 4
  ptrdiff_t size_ = 0;
};

template <typename F>
void for_lanes(uint32_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(static_cast<unsigned>(std::countr_zero(mask)));
}

}  // namespace

uint32_t sectors_of(uint32_t mask, uint32_t bytes, const LaneAddresses& addresses) {
  DistinctNumbers sectors;
  for_lanes(mask, [&](unsigned lane) {
    for (uint64_t s = addresses[lane] / sector_bytes; s <= (addresses[lane] + bytes - 1) / sector_bytes; ++s) sectors.add(s);
  });
  return sectors.count();
}

uint32_t local_sectors_of(uint32_t mask, uint32_t bytes, const LaneAddresses& addresses) {
  constexpr uint32_t lanes = 32;
  DistinctNumbers sectors;
  for_lanes(mask, [&](unsigned lane) {
    for (uint64_t w = addresses[lane] / bank_bytes; w <= (addresses[lane] + bytes - 1) / bank_bytes; ++w)
      sectors.add((w * lanes + lane) * bank_bytes / sector_bytes);
  });
  return sectors.count();
}

namespace {

// What a group of lanes asks of the 32 banks: of the busiest one, and words in all. Lanes that want the same word share it,
// unless each of them changes it.
struct BankLoad {
  uint32_t busiest = 0, words = 0;
};
BankLoad bank_load(uint32_t group, uint32_t words, const LaneAddresses& addresses, bool atomic) {
  std::array<std::array<uint64_t, 32>, banks> seen;
  std::array<uint32_t, banks> count{};
  for_lanes(group, [&](unsigned lane) {
    for (uint32_t k = 0; k < words; ++k) {
      const uint64_t word = addresses[lane] / bank_bytes + k;
      auto& list = seen[word % banks];
      uint32_t& n = count[word % banks];
      if (atomic || std::find(list.begin(), list.begin() + n, word) == list.begin() + n) list[n++] = word;
    }
  });
  return {*std::max_element(count.begin(), count.end()), std::accumulate(count.begin(), count.end(), 0u)};
}

}  // namespace

Wavefronts wavefronts_of(uint32_t mask, uint32_t bytes, const LaneAddresses& addresses, bool atomic) {
  const uint32_t words = std::clamp(bytes / bank_bytes, 1u, 4u), lanes = banks / words;
  const auto group = [&](uint32_t first) { return mask & ((lanes == 32 ? ~0u : (1u << lanes) - 1) << first); };
  Wavefronts sum;
  const auto add = [&](const BankLoad& load) {
    sum.taken += load.busiest;
    sum.least += (load.words + banks - 1) / banks;
  };
  for (uint32_t first = 0; first < 32; first += 2 * lanes) {
    const BankLoad a = bank_load(group(first), words, addresses, atomic);
    if (words == 1) {
      add(a);
      continue;
    }
    const BankLoad b = bank_load(group(first + lanes), words, addresses, atomic),
                   both = bank_load(group(first) | group(first + lanes), words, addresses, atomic);
    if (both.busiest <= std::max(a.busiest, b.busiest)) {
      add(both);
    } else {
      add(a);
      add(b);
    }
  }
  return sum;
}

MemAnalysis::MemAnalysis(const wire::AddressMap& map, std::vector<MemoryRange> memory)
    : map_(map), memory_(std::move(memory)), stats_(map.accesses.size()), blocks_(map.blocks.size()) {}

bool MemAnalysis::in_memory(uint64_t address, uint32_t bytes) {
  const auto holds = [&](const MemoryRange& r) { return address >= r.begin && address < r.end && bytes <= r.end - address; };
  if (last_ < memory_.size() && holds(memory_[last_])) return true;
  const auto next = std::upper_bound(memory_.begin(), memory_.end(), address,
                                     [](uint64_t a, const MemoryRange& r) { return a < r.begin; });
  if (next == memory_.begin() || !holds(*std::prev(next))) return false;
  last_ = static_cast<size_t>(std::prev(next) - memory_.begin());
  return true;
}

Status MemAnalysis::block(uint32_t block, uint32_t active) {
  blocks_[block].warps += 1;
  blocks_[block].lanes += static_cast<uint32_t>(std::popcount(active));
  return {};
}

Status MemAnalysis::access(uint32_t index, uint32_t mask, const LaneAddresses& addresses) {
  const Access& a = map_.accesses[index];
  AccessStats& s = stats_[index];
  s.executions += 1;
  if (mask == 0) return {};
  s.requests += 1;
  s.lanes += static_cast<uint32_t>(std::popcount(mask));
  const bool device = a.space == Access::Space::global || a.space == Access::Space::generic;
  uint32_t inside = 0;
  for_lanes(mask, [&](unsigned lane) {
    const bool found = device && in_memory(addresses[lane], a.bytes);
    if (found) inside |= 1u << lane;
    ++checked_;
    const bool aligned = addresses[lane] % a.bytes == 0;
    if (aligned && (found || a.space != Access::Space::global)) return;
    if (impossible_++ == 0)
      first_ = fmt::format("{} of {} bytes at {:#x}: lane {} at {:#x}, {}", name_of(a.kind), a.bytes, a.pc, lane,
                           addresses[lane], aligned ? "outside the memory of the launch" : "not aligned");
  });
  if (device) {
    if (a.space == Access::Space::generic) s.window_lanes += static_cast<uint32_t>(std::popcount(mask & ~inside));
    s.sectors += sectors_of(inside, a.bytes, addresses);
  } else if (a.space == Access::Space::local) {
    s.sectors += local_sectors_of(mask, a.bytes, addresses);
  } else {
    const Wavefronts w = wavefronts_of(mask, a.bytes, addresses, a.kind == Access::Kind::atomic || a.kind == Access::Kind::reduction);
    s.wavefronts += w.taken;
    s.least_wavefronts += w.least;
  }
  return {};
}

Status MemAnalysis::operands(uint32_t index, uint32_t active, std::span<const uint32_t> words) {
  AccessStats& s = stats_[index];
  s.executions += 1;
  if (active == 0) return {};
  s.requests += 1;
  const WarpAccessAnalysis::Seen seen = moved_.add(map_.accesses[index], warp_access(map_.accesses[index], words), memory_, s.moved);
  s.sectors += seen.sectors;
  checked_ += seen.checked;
  if (seen.impossible && impossible_++ == 0) first_ = *seen.impossible;
  return {};
}

Status MemAnalysis::warp(const MemWarp&) { return {}; }

}  // namespace xtrace::trace
