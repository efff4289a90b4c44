#include "replay/backend.h"
#include "replay/driver/placed_memory.h"

#include <algorithm>

#include "replay/driver/own_mappings.h"

namespace xtrace::replay {

namespace {
// Neighbouring regions closer than this are restored by one copy: a copy costs about as much as moving this
// much.
constexpr uint64_t join_copies = 256 << 10;
// Waiting for plain copies: far beyond any of them.
constexpr double copy_seconds = 300;
}  // namespace

Status PlacedMemory::place(const std::vector<bundle::Region>& regions, const std::vector<Bytes>& before, uint64_t keep_free) {
  XT_CHECK(plan_.runs.empty() && reservations_.empty(), "place() on memory that is in use");
  regions_ = regions;
  XT_TRY(plan_, plan_addresses(regions_));
  const auto all = [&]() -> Status {
    XT_TRY_STATUS(reserve());
    XT_TRY_STATUS(map());
    XT_TRY_STATUS(upload(before));
    return make_pristine(keep_free);
  };
  Status s = all();
  if (!s) {
    // The first error is the one to report; undoing a half-done placement may fail for the same reason.
    static_cast<void>(remove());
    return s;
  }
  for (size_t k = 0; k < plan_.runs.size(); ++k) copy_all_.push_back({k, plan_.runs[k].span});
  copy_written_ = copy_all_;
  return {};
}

bool PlacedMemory::reserved(const AddressSpan& span) const {
  return std::any_of(reservations_.begin(), reservations_.end(),
                     [&](const AddressSpan& r) { return r.contains(span); });
}

// The recorded addresses are not kept free by mappings of our own until this call: the driver then never gives
// an address in such a range, not even after munmap; it gives the first one past it. Without them every
// placement succeeded. [measured H200, driver 580.159.04, 2026-11-29: asked for 0x7f3c10000000, obtained
// 0x7f3c50000000]
Result<bool> PlacedMemory::reserve_span(const AddressSpan& needed) {
  for (const ReserveAttempt& a : reserve_attempts(needed)) {
    CUdeviceptr got = 0;
    const CUresult r = api_.MemAddressReserve(&got, a.size, a.alignment, a.hint, 0);
    if (r != CUDA_SUCCESS) {  // nothing to free: a failed reservation must not be freed
      last_refusal_ = fmt::format("asked for {:#x} ({} bytes), obtained {}", a.hint, a.size, api_.text(r));
      continue;
    }
    const AddressSpan obtained{got, got + a.size};
    if (obtained.contains(needed)) {
      reservations_.push_back(obtained);
      return true;
    }
    last_refusal_ = fmt::format("asked for {:#x} ({} bytes), obtained {:#x}", a.hint, a.size, got);
    XT_CU(api_, MemAddressFree, got, a.size);
  }
  return false;
}

Status PlacedMemory::reserve() {
  std::vector<size_t> unplaced;
  for (const Window& w : plan_.windows) {
    const AddressSpan needed{plan_.runs[w.runs.front()].span.begin, plan_.runs[w.runs.back()].span.end};
    XT_TRY(const bool whole, reserve_span(needed));
    if (whole) continue;
    // Something sits between the runs of this window: reserve around it.
    for (size_t k : w.runs) {
      if (reserved(plan_.runs[k].span)) continue;
      XT_TRY(const bool single, reserve_span(plan_.runs[k].span));
      if (!single) unplaced.push_back(k);
    }
  }
  if (unplaced.empty()) return {};
  XT_TRY_STATUS(place_in_pool(unplaced));
  if (!unplaced.empty()) return refuse(unplaced.front());
  return {};
}

Status PlacedMemory::place_in_pool(std::vector<size_t>& unplaced) {
  CUmemoryPool pool = nullptr;
  XT_CU(api_, DeviceGetDefaultMemPool, &pool, device_);
  // Where does the pool begin in this process? [measured H200: 0x302000000, the same in every run]
  CUdeviceptr base = 0;
  XT_CU(api_, MemAllocFromPoolAsync, &base, map_granule, pool, stream_.handle());
  XT_CU(api_, MemFreeAsync, base, stream_.handle());
  XT_TRY_STATUS(settle("the memory pool"));

  size_t free = 0, total = 0;
  XT_CU(api_, MemGetInfo, &free, &total);
  uint64_t end = 0;
  for (size_t k : unplaced) {
    const AddressSpan& run = plan_.runs[k].span;
    if (run.begin >= base && run.end - base <= free) end = std::max(end, run.end);
  }
  if (end == 0) return {};
  CUdeviceptr got = 0;
  const CUresult r = api_.MemAllocFromPoolAsync(&got, end - base, pool, stream_.handle());
  if (r != CUDA_SUCCESS) {
    last_refusal_ += fmt::format("; the memory pool gave {} for {} bytes", api_.text(r), end - base);
    return {};
  }
  pool_allocation_ = AddressSpan{got, got + (end - base)};
  XT_TRY_STATUS(settle("the memory pool"));
  std::erase_if(unplaced, [&](size_t k) { return pool_allocation_->contains(plan_.runs[k].span); });
  if (!unplaced.empty()) last_refusal_ += fmt::format("; the memory pool begins at {:#x}", got);
  return {};
}

tl::unexpected<Error> PlacedMemory::refuse(size_t run) {
  const MappedRun& r = plan_.runs[run];
  return with_hint(
      unsupported("{} {}: {}", describe(r.regions.front(), regions_[r.regions.front()]), not_placed, last_refusal_),
      fmt::format("{}; run again: another address layout",
                  mapping_neighbours(read_own_mappings(), r.span)));
}

Status PlacedMemory::map() {
  size_t free = 0, total = 0;
  XT_CU(api_, MemGetInfo, &free, &total);
  uint64_t needed = 0;
  const auto in_pool = [&](const MappedRun& run) {
    return pool_allocation_ && pool_allocation_->contains(run.span);
  };
  for (const MappedRun& run : plan_.runs)
    if (!in_pool(run)) needed += run.span.size();
  if (needed > free)
    return with_hint(environment("the recorded memory needs {} MiB of device memory, {} MiB are free",
                                 needed >> 20, free >> 20),
                     "other processes on this GPU may hold memory");
  for (const MappedRun& run : plan_.runs) {
    if (in_pool(run)) continue;
    if (Status s = map_physical(api_, device_, run.span); !s)
      return tl::make_unexpected(
          std::move(s).error().in("mapping " + describe(run.regions.front(), regions_[run.regions.front()])));
    mappings_.push_back(run.span);
  }
  return {};
}

Status PlacedMemory::upload(const std::vector<Bytes>& before) {
  for (const MappedRun& run : plan_.runs) {
    for (const AddressSpan& gap : gaps_of(run, regions_))
      XT_CU(api_, MemsetD8Async, gap.begin, poison, gap.size(), stream_.handle());
    for (size_t i : run.regions)
      XT_CU(api_, MemcpyHtoDAsync, regions_[i].address.value, before[i].data(), regions_[i].size,
            stream_.handle());
  }
  return settle("uploading the recorded memory");
}

Status PlacedMemory::make_pristine(uint64_t keep_free) {
  size_t free = 0, total = 0;
  XT_CU(api_, MemGetInfo, &free, &total);
  uint64_t budget = free > keep_free ? free - keep_free : 0;
  pristine_.resize(plan_.runs.size());
  for (size_t k = 0; k < plan_.runs.size(); ++k) {
    const AddressSpan& span = plan_.runs[k].span;
    if (span.size() <= budget) {
      XT_TRY(pristine_[k].device, buffers_.allocate(span.size(), "the pristine copy of recorded memory"));
      budget -= span.size();
      XT_CU(api_, MemcpyDtoDAsync, pristine_[k].device, span.begin, span.size(), stream_.handle());
    } else {
      const CUresult r = api_.MemHostAlloc(&pristine_[k].host, span.size(), 0);
      if (r != CUDA_SUCCESS) {
        pristine_[k].host = nullptr;
        return with_hint(
            environment("no room for the pristine copy of {} MiB: {} MiB of device memory may be used, "
                        "pinned host memory gives {}",
                        span.size() >> 20, budget >> 20, api_.text(r)),
            "the limit on locked memory may be too low (ulimit -l)");
      }
      pristine_host_bytes_ += span.size();
      XT_CU(api_, MemcpyDtoHAsync, pristine_[k].host, span.begin, span.size(), stream_.handle());
    }
  }
  return settle("copying the recorded memory");
}

void PlacedMemory::set_written(const std::vector<bool>& written) {
  copy_written_.clear();
  for (size_t k = 0; k < plan_.runs.size(); ++k)
    for (const AddressSpan& span : copy_spans(plan_.runs[k], regions_, written, join_copies))
      copy_written_.push_back({k, span});
}

Status PlacedMemory::queue(const std::vector<Copy>& copies) {
  for (const Copy& c : copies) {
    const Pristine& p = pristine_[c.run];
    const uint64_t offset = c.span.begin - plan_.runs[c.run].span.begin;
    if (p.host != nullptr)
      XT_CU(api_, MemcpyHtoDAsync, c.span.begin, static_cast<const std::byte*>(p.host) + offset,
            c.span.size(), stream_.handle());
    else
      XT_CU(api_, MemcpyDtoDAsync, c.span.begin, p.device + offset, c.span.size(), stream_.handle());
  }
  return {};
}

Status PlacedMemory::restore_all() { return queue(copy_all_); }
Status PlacedMemory::restore_written() { return queue(copy_written_); }

Status PlacedMemory::settle(const char* what) {
  XT_TRY_IN(const LaunchStream::Wait w, stream_.wait_idle(copy_seconds), "{}", what);
  if (w == LaunchStream::Wait::timed_out) return device("{} did not end within {} s", what, copy_seconds);
  return {};
}

Status PlacedMemory::remove() {
  Status first;
  const auto note = [&first](Status s) {
    if (!s && first) first = std::move(s);
  };
  note(settle("pending copies"));
  for (Pristine& p : pristine_) {
    if (p.device != 0) note(buffers_.release(p.device));
    if (p.host != nullptr) note(api_.check(api_.MemFreeHost(p.host), "cuMemFreeHost"));
  }
  for (const AddressSpan& m : mappings_) note(unmap_physical(api_, m));
  for (const AddressSpan& r : reservations_) {
    note(api_.check(api_.MemAddressFree(r.begin, r.size()), "cuMemAddressFree"));
  }
  if (pool_allocation_) {
    note(api_.check(api_.MemFreeAsync(pool_allocation_->begin, stream_.handle()), "cuMemFreeAsync"));
    note(settle("the memory pool"));
  }
  abandon();
  return first;
}

void PlacedMemory::abandon() {
  regions_.clear();
  plan_ = {};
  reservations_.clear();
  mappings_.clear();
  pool_allocation_.reset();
  pristine_.clear();
  pristine_host_bytes_ = 0;
  copy_all_.clear();
  copy_written_.clear();
}

}  // namespace xtrace::replay
