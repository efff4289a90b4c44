// Where recorded memory has to lie on replay, as pure arithmetic: regions -> runs of mapping granules ->
// windows of address space to reserve. The driver backend carries the plan out and says by name what the
// driver refused.
//
// Facts the plan rests on [measured H200, driver 580]: cuMemAddressReserve honours its hint for reservations
// of 1 GiB and more at every free address below 2^47, rounded up to 64 MiB; reservations of a few MiB ignore
// it; memory is mapped in granules of 2 MiB.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "capture/bundle/launch_record.h"

namespace xtrace::replay {

constexpr uint64_t map_granule = 2ull << 20;
constexpr uint64_t window_alignment = 64ull << 20;
constexpr uint64_t window_minimum = 1ull << 30;
constexpr uint64_t lowest_address = 1ull << 20;  // no device memory below; a region there is a damaged record
constexpr uint64_t address_limit = 1ull << 47;   // CUDA_ERROR_OUT_OF_MEMORY from here on [measured H200]

// Half-open range of addresses.
struct AddressSpan {
  uint64_t begin = 0, end = 0;
  bool operator==(const AddressSpan&) const = default;
  uint64_t size() const { return end - begin; }
  bool contains(const AddressSpan& o) const { return begin <= o.begin && o.end <= end; }
  bool overlaps(const AddressSpan& o) const { return begin < o.end && o.begin < end; }
};

// Consecutive granules, backed by one physical allocation. Regions that share or touch granules share the
// run.
struct MappedRun {
  AddressSpan span;             // multiples of map_granule
  std::vector<size_t> regions;  // indices into the record's regions, by address
  bool operator==(const MappedRun&) const = default;
};

// One reservation to ask for: 64 MiB aligned, at least 1 GiB, covering `runs`.
struct Window {
  AddressSpan span;
  std::vector<size_t> runs;  // indices into AddressPlan::runs
  bool operator==(const Window&) const = default;
};

struct AddressPlan {
  std::vector<MappedRun> runs;  // by address, disjoint, never touching
  std::vector<Window> windows;  // by address, disjoint
  uint64_t mapped_bytes = 0;    // sum of the runs
};

// True for the kinds that are placed by address; module variables live where the loader puts them.
bool is_placed(bundle::RegionKind kind);

// "device region 3 (0x7f0000000000, 4096 bytes)"
std::string describe(size_t index, const bundle::Region& region);

// Regions of size 0 and module variables take no part. Errors: unsupported for a region outside [1 MiB,
// 2^47); bad_input for regions that overlap. The order of `regions` does not matter.
Result<AddressPlan> plan_addresses(std::span<const bundle::Region> regions);

// One call of cuMemAddressReserve.
struct ReserveAttempt {
  uint64_t hint = 0, size = 0, alignment = 0;
  bool operator==(const ReserveAttempt&) const = default;
};

// Reservations that cover `needed` when the hint is honoured, the likeliest first: a window that grows
// upward, the same cut short, one that grows downward (neighbours above are taken), the exact granules, and a
// large one.
std::vector<ReserveAttempt> reserve_attempts(const AddressSpan& needed);

// Parts of `span` not covered by the regions with these indices: bytes nobody recorded.
std::vector<AddressSpan> gaps_of(const MappedRun& run, std::span<const bundle::Region> regions);

// Contiguous copies that together cover the chosen regions of a run: neighbours closer than `join` bytes
// become one.
std::vector<AddressSpan> copy_spans(const MappedRun& run, std::span<const bundle::Region> regions,
                                    const std::vector<bool>& chosen, uint64_t join);

}  // namespace xtrace::replay
