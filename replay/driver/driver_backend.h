// The backend that replays a launch on the GPU through the CUDA driver.
//
// One backend at a time in a process; use it from the thread that made it. After a device error or a watchdog
// stop every call gives the same device error, the destructor leaves the driver alone, and the process should
// end by _exit: a kernel that does not end can not be stopped, and an orderly exit would wait for it.
#pragma once

#include <memory>

#include "base/status.h"
#include "replay/backend.h"
#include "replay/driver/driver_api.h"

namespace xtrace::replay {

struct DriverOptions {
  int device = 0;                // ordinal, after CUDA_VISIBLE_DEVICES
  double watchdog_seconds = 10;  // for one launch
  uint64_t keep_free_bytes =
      4ull << 30;  // device memory left for trace buffers when pristine copies are made
};

// Opens the driver (CUDA_MODULE_LOADING=EAGER unless set), the device's primary context, and a stream.
// environment error, with a hint, when there is no driver or no device.
Result<std::unique_ptr<Backend>> make_driver_backend(const DriverOptions& options);
// The same on a given table of driver functions.
Result<std::unique_ptr<Backend>> make_driver_backend(const DriverApi& api, const DriverOptions& options);

}  // namespace xtrace::replay
