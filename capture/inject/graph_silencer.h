// Keeps an executable graph from running, once, the nodes that were run by themselves before it: they are made to do nothing, and
// what they were is put back when the launch is on its way (a launch that is enqueued keeps what it was enqueued with).
//
// cuGraphNodeSetEnabled would be the short way, but it takes nodes of the graph that the executable one was made from, and
// programs destroy that one as soon as they can (PyTorch). So the executable graph is updated from a clone of its content in
// which kernels are one that does nothing, and fills and copies go to memory of the recorder's.
#pragma once

#include <unordered_map>

#include "capture/inject/graph_execs.h"

namespace xtrace::inject {

class GraphSilencer {
 public:
  explicit GraphSilencer(const DriverApi& api) : api_(api) {}

  // Why this node can not be silenced; empty when it can, or when only the driver's answer will show it.
  std::string_view why_not(const GraphNode& node) const;
  // Silences the nodes in front of `end` and no other. Where this fails, the executable graph is as it was. `context` is current.
  Status silence(CUgraphExec handle, const ExecGraph& exec, CUcontext context, size_t end);
  Status restore(CUgraphExec handle, const ExecGraph& exec);

 private:
  struct Nothing {  // of a context
    CUfunction kernel = nullptr;
    CUdeviceptr owned = 0, pooled = 0;  // pooled 0: this driver has no pools
    void* host = nullptr;
  };
  Result<Nothing> nothing_of(CUcontext context);
  // The copies of an update must stay in memory of the same context, and memory of pools and mappings has none [measured H200].
  CUdeviceptr memory_like(CUdeviceptr address, const Nothing& nothing) const;
  Status update(CUgraphExec handle, CUgraph graph);
  Status silence_kernel(CUgraphNode node, const Nothing& nothing);
  Status silence_memset(CUgraphNode node, const Nothing& nothing);
  Status silence_memcpy(CUgraphNode node, const Nothing& nothing);

  const DriverApi& api_;
  std::unordered_map<CUcontext, Nothing> nothing_;  // given back by the end of the process
};

}  // namespace xtrace::inject
