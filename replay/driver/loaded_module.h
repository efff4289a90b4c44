// One loaded code variant: its kernel, and its module variables bound to the recorded ones.
#pragma once

#include <optional>
#include <vector>

#include "replay/backend.h"
#include "replay/driver/driver_api.h"
#include "replay/driver/launch_attributes.h"
#include "replay/driver/pinned_variables.h"
#include "replay/pointer_scan.h"

namespace xtrace::replay {

// A recorded module variable and where it lives in a loaded module.
struct BoundVariable {
  size_t region = 0;  // index into record.regions
  CUdeviceptr live = 0;
  uint64_t size = 0;
};

struct LoadedModule {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  std::vector<BoundVariable> variables;
  bool launched = false;  // the first launch may wait for the whole device, see DriverBackend::run()
};

// Everything a module needs of the launch it belongs to.
struct LaunchContext {
  bundle::LaunchRecord record;  // regions without chunk lists
  LaunchSetup setup;
  std::vector<std::optional<PointerHit>> pointer_hits;  // per region, see pointers_to_variables()
  PinnedVariables pinned;                               // whose regions are placed ones in `record`

  // The configuration for cuLaunchKernelEx; points into this object.
  CUlaunchConfig config(CUstream stream);
};

// Checks that sections and headers of an ELF file lie inside the bytes: cuModuleLoadData takes no size and
// would read beyond a truncated file.
Status check_elf_extent(ByteView elf);

// Loads, finds the kernel, sets the recorded function attributes, binds the variables. Errors name the
// kernel. unsupported: a variable is missing, has another size, or moved while memory points to it.
Result<LoadedModule> load_module(const DriverApi& api, ByteView cubin, const LaunchContext& launch);

Result<Resources> module_resources(const DriverApi& api, const LoadedModule& module, LaunchContext& launch);

}  // namespace xtrace::replay
