#include "replay/driver/physical.h"

#include "replay/backend.h"

namespace xtrace::replay {

namespace {
CUmemAllocationProp device_memory(CUdevice device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  return prop;
}
}  // namespace

Status map_physical(const DriverApi& api, CUdevice device, const AddressSpan& span) {
  const CUmemAllocationProp prop = device_memory(device);
  CUmemGenericAllocationHandle handle = 0;
  XT_CU(api, MemCreate, &handle, span.size(), &prop, 0);
  const CUresult mapped = api.MemMap(span.begin, span.size(), 0, handle, 0);
  // The mapping keeps the memory alive; the handle is not needed again.
  const CUresult released = api.MemRelease(handle);
  XT_TRY_STATUS(api.check(mapped, "cuMemMap"));
  CUmemAccessDesc access{};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const CUresult accessible = api.MemSetAccess(span.begin, span.size(), &access, 1);
  if (accessible != CUDA_SUCCESS || released != CUDA_SUCCESS) {
    api.MemUnmap(span.begin, span.size());
    XT_TRY_STATUS(api.check(accessible, "cuMemSetAccess"));
    XT_TRY_STATUS(api.check(released, "cuMemRelease"));
  }
  return {};
}

Status unmap_physical(const DriverApi& api, const AddressSpan& span) {
  XT_CU(api, MemUnmap, span.begin, span.size());
  return {};
}

namespace {
// Bytes of addresses that a buffer takes.
uint64_t reserved_for(uint64_t bytes) {
  return std::max(align_up(align_up(bytes, map_granule), window_alignment), window_minimum);
}
}  // namespace

Result<CUdeviceptr> DeviceBuffers::allocate(uint64_t bytes, const char* purpose) {
  const uint64_t reserve = bytes > address_limit / 2 ? 0 : reserved_for(bytes);
  // The lowest gap between live buffers: a released buffer's address comes back.
  uint64_t hint = first_address_;
  for (const auto& [address, buffer] : live_) {
    if (buffer.reserved.end <= hint) continue;
    if (buffer.reserved.begin >= hint + reserve) break;
    hint = buffer.reserved.end;
  }
  return allocate_from(hint, bytes, purpose);
}

Status DeviceBuffers::allocate_at(CUdeviceptr address, uint64_t bytes, const char* purpose) {
  XT_TRY(const CUdeviceptr at, allocate_from(address, bytes, purpose));
  if (at == address) return {};
  XT_TRY_STATUS(release(at));
  return unsupported("{} {}: {:#x}", purpose, not_placed, address);
}

Result<CUdeviceptr> DeviceBuffers::allocate_from(uint64_t hint, uint64_t bytes, const char* purpose) {
  if (bytes == 0) return internal("a buffer of 0 bytes was asked for {}", purpose);
  if (bytes > address_limit / 2) return environment("{} needs {} bytes of device memory", purpose, bytes);
  const uint64_t mapped = align_up(bytes, map_granule);
  const uint64_t reserve = reserved_for(bytes);
  CUdeviceptr at = 0;
  const CUresult reserved = api_.MemAddressReserve(&at, reserve, 0, hint, 0);
  if (Status s = api_.check(reserved, "cuMemAddressReserve"); !s)
    return tl::make_unexpected(
        std::move(s).error().in(fmt::format("reserving {} bytes of addresses for {}", reserve, purpose)));
  if (Status s = map_physical(api_, device_, {at, at + mapped}); !s) {
    api_.MemAddressFree(at, reserve);
    return tl::make_unexpected(
        std::move(s).error().in(fmt::format("allocating {} bytes of device memory for {}", mapped, purpose)));
  }
  live_[at] = {{at, at + reserve}, {at, at + mapped}};
  return at;
}

Status DeviceBuffers::release(CUdeviceptr buffer) {
  const auto it = live_.find(buffer);
  if (it == live_.end()) return internal("release of {:#x}, which is no buffer of the backend", buffer);
  const Buffer b = it->second;
  live_.erase(it);
  XT_TRY_STATUS(unmap_physical(api_, b.mapped));
  XT_CU(api_, MemAddressFree, b.reserved.begin, b.reserved.size());
  return {};
}

Status DeviceBuffers::release_all() {
  Status first;
  while (!live_.empty())
    if (Status s = release(live_.begin()->first); !s && first) first = std::move(s);
  return first;
}

}  // namespace xtrace::replay
