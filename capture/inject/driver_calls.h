// Every driver entry point that launches, allocates, maps or frees, by CUPTI callback id, and what the
// recorder does about it. One table; the recorder walks it to enable callbacks, and a test compares it with
// the names in the installed cupti_driver_cbid.h, so that a new toolkit fails the build and not the user.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace xtrace::inject {

enum class CallClass : uint8_t {
  // launches
  launch_kernel,
  launch_kernel_ex,
  launch_cooperative,
  launch_legacy,        // cuLaunch, cuLaunchGrid*: parameters set by cuParamSet*; counted, refused
  launch_multi_device,  // counted, refused
  launch_graph,         // its kernels give no callbacks: the recorder runs them (recorder_graph.cc)
  launch_unknown,       // a newer CUPTI knows a launch that this table does not: counted, refused
  // memory
  alloc,  // cuMemAlloc_v2
  alloc_pitch,
  alloc_managed,
  alloc_async,  // both of cuMemAllocAsync and FromPoolAsync
  map,
  free,  // first parameter is the address: cuMemFree_v2, cuMemFreeAsync
  unmap,
  // handles: what a cubin loaded inside the call belongs to
  make_module,      // first parameter CUmodule*
  make_library,     // first parameter CUlibrary*
  make_function,    // cuModuleGetFunction: CUfunction*, CUmodule
  make_kernel,      // cuLibraryGetKernel: CUkernel*, CUlibrary
  library_module,   // cuLibraryGetModule: CUmodule*, CUlibrary
  kernel_function,  // cuKernelGetFunction: CUfunction*, CUkernel
  load_function,    // cuFuncLoad: CUfunction
  drop_handles,     // cuModuleUnload, cuLibraryUnload
  // stream capture
  capture_begin,  // first parameter CUstream
  capture_end,
  stream_destroy,
  // executable graphs: what they hold (graph_execs.h). The first parameters are the executable graph and a node or a graph.
  graph_instantiate,  // CUgraphExec*, CUgraph
  graph_destroy_exec,
  graph_set_kernel,     // CUDA_KERNEL_NODE_PARAMS_v1
  graph_set_kernel_v2,
  graph_set_memcpy,
  graph_set_memset,
  graph_set_node,       // any of these by cuGraphExecNodeSetParams
  graph_set_enabled,
  graph_set_other,      // what can not be followed
  graph_update,
  // the rest
  writes,   // may write device memory: held back while a snapshot is taken
  ignored,  // `why` says why it does not matter
};

struct DriverCall {
  uint32_t cbid = 0;
  std::string_view name;
  CallClass cls = CallClass::ignored;
  std::string_view why;  // ignored only
};

// By cbid. Classes `writes` and `launch_unknown` are found by name at run time (class_of_unlisted).
std::span<const DriverCall> driver_calls();

// For a name that the table does not list: `writes` for copies, fills and stream writes; launch_unknown for
// launches; graph_set_other for what concerns executable graphs; else ignored.
CallClass class_of_unlisted(std::string_view name);
// Whether the table must list this name.
bool must_be_listed(std::string_view name);

constexpr bool is_graph_call(CallClass c) {
  return c >= CallClass::graph_instantiate && c <= CallClass::graph_update;
}
constexpr bool is_launch(CallClass c) { return c <= CallClass::launch_unknown; }
// Held back while another thread takes a snapshot.
constexpr bool is_gated(CallClass c) { return c <= CallClass::unmap || c == CallClass::writes; }

}  // namespace xtrace::inject
