// Device memory mapped at chosen addresses: single mappings, and the buffers a replay adds for its own use.
#pragma once

#include <map>

#include "replay/address_plan.h"
#include "replay/driver/driver_api.h"

namespace xtrace::replay {

// Creates physical memory, maps it into reserved addresses, makes it readable and writable for the device.
// The span is whole granules. Undone with unmap_physical; a failure leaves nothing behind.
Status map_physical(const DriverApi& api, CUdevice device, const AddressSpan& span);
Status unmap_physical(const DriverApi& api, const AddressSpan& span);

// Where buffers are asked for: far from what CUDA uses on its own (0x2..., 0x3..., 0x7f...) [measured H200],
// and the backend's copies away from the buffers of its caller, whose addresses then do not depend on the
// recorded memory.
constexpr uint64_t caller_buffers_at = 0x100000000000, own_buffers_at = 0x180000000000;

// Contiguous buffers from a fixed address on when that is free, so that two replays of one launch put their
// records at the same place; elsewhere otherwise. Contents are undefined.
class DeviceBuffers {
 public:
  DeviceBuffers(const DriverApi& api, const CUdevice& device, uint64_t first_address)
      : api_(api), device_(device), first_address_(first_address) {}
  DeviceBuffers(const DeviceBuffers&) = delete;
  DeviceBuffers& operator=(const DeviceBuffers&) = delete;

  // environment error when memory or addresses run out.
  Result<CUdeviceptr> allocate(uint64_t bytes, const char* purpose);
  // At this address, which an earlier allocate() of another process gave; unsupported (not_placed) when it is taken here.
  Status allocate_at(CUdeviceptr address, uint64_t bytes, const char* purpose);
  Status release(CUdeviceptr buffer);
  Status release_all();
  void abandon() { live_.clear(); }
  size_t count() const { return live_.size(); }

 private:
  Result<CUdeviceptr> allocate_from(uint64_t hint, uint64_t bytes, const char* purpose);
  struct Buffer {
    AddressSpan reserved;
    AddressSpan mapped;
  };
  const DriverApi& api_;
  const CUdevice& device_;  // the backend knows it only after cuInit
  uint64_t first_address_;
  std::map<CUdeviceptr, Buffer> live_;
};

}  // namespace xtrace::replay
