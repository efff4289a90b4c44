// The machine and the process, as the bundle names them.
#pragma once

#include "base/status.h"
#include "capture/bundle/launch_record.h"
#include "capture/inject/driver_api.h"

namespace xtrace::inject {

Result<bundle::Environment> query_environment(const DriverApi& api, CUdevice device);

// "580.159.04" from the text of /proc/driver/nvidia/version; empty when there is none.
std::string kernel_driver_version(const std::string& text);

}  // namespace xtrace::inject
