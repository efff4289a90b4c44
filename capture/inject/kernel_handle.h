// What the driver says about the thing being launched. A CUkernel may be passed where the prototype says
// CUfunction (cudart 12 and later do), so both kinds are tried.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "capture/bundle/launch_record.h"
#include "capture/inject/cubin_index.h"
#include "capture/inject/driver_api.h"

namespace xtrace::inject {

struct KernelHandle {
  CUfunction function = nullptr;  // of the current context; null when it could not be had
  CUkernel kernel = nullptr;      // null for a plain CUfunction
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  std::string name;  // mangled
  bool layout_known = false;
  std::vector<bundle::Param> layout;

  // In the order in which CubinIndex trusts them.
  std::vector<uint64_t> handles() const;
};

// Loads the function (lazy loading), so that its cubin has been seen when this returns. `symbol` is the name
// that CUPTI gave, may be null. Calls the driver: only under the recorder's guard.
Result<KernelHandle> resolve_kernel(const DriverApi& api, CUfunction launched, const char* symbol);

bundle::FunctionAttributes function_attributes(const DriverApi& api, const KernelHandle& handle);
// Whether the library, or else the module, that the kernel comes from defines this one, too.
bool has_kernel(const DriverApi& api, const KernelHandle& handle, const std::string& name);
ObservedFunction observed_function(const bundle::FunctionAttributes& attributes);
// __cluster_dims__ of the kernel; 0,0,0 when it has none.
Dim3 required_cluster(const DriverApi& api, const KernelHandle& handle);

}  // namespace xtrace::inject
