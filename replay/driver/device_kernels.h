// Small kernels of the backend's own, in PTX, which the driver compiles for the device at hand: reading clocks beside a
// launch, and emptying the L2 in front of one.
#pragma once

#include "replay/backend.h"
#include "replay/driver/driver_api.h"

namespace xtrace::replay {

// What stamp() and clocks() write, one after the other. GLOBALTIMER moves in ticks (1 us, where nobody profiles), so both
// wait for its next one, and read the SM clock there.
struct ClockStamp {
  uint64_t sm = 0, clock = 0, nanoseconds = 0;
};
static_assert(sizeof(ClockStamp) == 24);

class DeviceKernels {
 public:
  explicit DeviceKernels(const DriverApi& api) : api_(api) {}
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;

  Status open();   // once; later calls do nothing
  void close();

  // All are queued on `stream`.
  Status stamp(CUstream stream, CUdeviceptr out) const;                       // one ClockStamp
  Status sweep(CUstream stream, CUdeviceptr from, uint64_t bytes, uint32_t ctas) const;   // reads it all, writes nothing
  // `rounds` stamps of each of `ctas` CTAs, of which no two fit on one SM. Behind the stamps lie four bytes that are zero.
  Status clocks(CUstream stream, CUdeviceptr out, uint32_t rounds, uint32_t ctas, uint32_t shared_bytes) const;

 private:
  Status launch(CUfunction function, CUstream stream, uint32_t ctas, uint32_t threads, uint32_t shared, CUdeviceptr address,
                uint64_t number) const;

  const DriverApi& api_;
  CUmodule module_ = nullptr;
  CUfunction sweep_ = nullptr, clocks_ = nullptr;
};

}  // namespace xtrace::replay
