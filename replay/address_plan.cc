#include "replay/address_plan.h"

#include <algorithm>

namespace xtrace::replay {

using bundle::Region;
using bundle::RegionKind;

namespace {

// bundle::name_of belongs to the bundle library; the plan stays free of it so that it can be tested alone.
const char* kind_name(RegionKind kind) {
  switch (kind) {
    case RegionKind::device:
      return "device";
    case RegionKind::async_pool:
      return "async_pool";
    case RegionKind::vmm:
      return "vmm";
    case RegionKind::managed:
      return "managed";
    case RegionKind::asked:
      return "asked";
    case RegionKind::global:
      return "global";
    case RegionKind::constant:
      return "constant";
  }
  return "unknown";
}

AddressSpan span_of(const Region& r) { return {r.address.value, r.address.value + r.size}; }

// The window for one run alone.
AddressSpan window_of(const AddressSpan& run) {
  uint64_t begin = align_down(run.begin, window_alignment);
  uint64_t end = std::max(align_up(run.end, window_alignment), begin + window_minimum);
  if (end > address_limit) {
    end = address_limit;
    begin = std::min(begin, address_limit - window_minimum);
  }
  return {begin, end};
}

}  // namespace

bool is_placed(RegionKind kind) { return kind != RegionKind::global && kind != RegionKind::constant; }

std::string describe(size_t index, const Region& region) {
  std::string s = fmt::format("{} region {} ({:#x}, {} bytes)", kind_name(region.kind), index,
                              region.address.value, region.size);
  if (!region.symbol.empty()) s += fmt::format(" {}", region.symbol);
  return s;
}

Result<AddressPlan> plan_addresses(std::span<const Region> regions) {
  std::vector<size_t> order;
  for (size_t i = 0; i < regions.size(); ++i) {
    const Region& r = regions[i];
    if (!is_placed(r.kind) || r.size == 0) continue;
    if (r.address.value < lowest_address)
      return unsupported("{} lies below {:#x}, where no device memory can be reserved", describe(i, r),
                         lowest_address);
    if (r.address.value >= address_limit || r.size > address_limit - r.address.value)
      return with_hint(
          unsupported("{} reaches beyond {:#x}: addresses of more than 47 bits can not be reserved",
                      describe(i, r), address_limit),
          "memory mapped above 2^47 (heterogeneous memory management, some multicast mappings) is not "
          "replayed");
    order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return regions[a].address.value < regions[b].address.value; });

  AddressPlan plan;
  for (size_t k = 0; k < order.size(); ++k) {
    const AddressSpan region = span_of(regions[order[k]]);
    if (k > 0 && span_of(regions[order[k - 1]]).overlaps(region))
      return bad_input("{} overlaps {}; the regions of a launch must be disjoint",
                       describe(order[k], regions[order[k]]), describe(order[k - 1], regions[order[k - 1]]));
    const AddressSpan granules{align_down(region.begin, map_granule), align_up(region.end, map_granule)};
    if (!plan.runs.empty() && granules.begin <= plan.runs.back().span.end) {
      MappedRun& run = plan.runs.back();
      run.span.end = std::max(run.span.end, granules.end);
      run.regions.push_back(order[k]);
    } else {
      plan.runs.push_back({granules, {order[k]}});
    }
  }

  for (size_t k = 0; k < plan.runs.size(); ++k) {
    plan.mapped_bytes += plan.runs[k].span.size();
    const AddressSpan wanted = window_of(plan.runs[k].span);
    if (!plan.windows.empty() && wanted.begin < plan.windows.back().span.end) {
      Window& w = plan.windows.back();
      // A run that fits into the window of its predecessor does not make it larger.
      if (plan.runs[k].span.end > w.span.end)
        w.span.end = std::min(align_up(plan.runs[k].span.end, window_alignment), address_limit);
      w.runs.push_back(k);
    } else {
      plan.windows.push_back({wanted, {k}});
    }
  }
  return plan;
}

std::vector<ReserveAttempt> reserve_attempts(const AddressSpan& needed) {
  std::vector<ReserveAttempt> attempts;
  const auto add = [&](uint64_t begin, uint64_t end, uint64_t alignment) {
    begin = std::max(begin, lowest_address);
    end = std::min(end, address_limit);
    const ReserveAttempt a{begin, end - begin, alignment};
    if (begin <= needed.begin && end >= needed.end &&
        std::find(attempts.begin(), attempts.end(), a) == attempts.end())
      attempts.push_back(a);
  };
  const uint64_t low = align_down(needed.begin, window_alignment),
                 high = align_up(needed.end, window_alignment);
  const uint64_t low_granule = align_down(needed.begin, map_granule);
  const uint64_t high_granule = align_up(needed.end, map_granule);
  add(low, std::max(high, low + window_minimum), 0);
  add(low, high, 0);
  if (high > window_minimum) add(std::min(low, high - window_minimum), high, 0);
  add(low_granule, std::max(high_granule, low_granule + window_minimum), map_granule);
  add(low_granule, high_granule, map_granule);
  add(low, std::max(high, low + 8 * window_minimum), 0);
  return attempts;
}

std::vector<AddressSpan> gaps_of(const MappedRun& run, std::span<const Region> regions) {
  std::vector<AddressSpan> gaps;
  uint64_t at = run.span.begin;
  for (size_t i : run.regions) {
    const AddressSpan r = span_of(regions[i]);
    if (r.begin > at) gaps.push_back({at, r.begin});
    at = r.end;
  }
  if (at < run.span.end) gaps.push_back({at, run.span.end});
  return gaps;
}

std::vector<AddressSpan> copy_spans(const MappedRun& run, std::span<const Region> regions,
                                    const std::vector<bool>& chosen, uint64_t join) {
  std::vector<AddressSpan> spans;
  for (size_t i : run.regions) {
    if (i < chosen.size() && !chosen[i]) continue;
    const AddressSpan r = span_of(regions[i]);
    if (!spans.empty() && r.begin - spans.back().end < join)
      spans.back().end = r.end;
    else
      spans.push_back(r);
  }
  return spans;
}

}  // namespace xtrace::replay
