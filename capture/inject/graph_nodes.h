// The nodes of a CUDA graph in the order in which they can run one after another, and how one of them is run by itself.
#pragma once

#include <cuda.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "capture/inject/driver_api.h"
#include "capture/inject/launch_call.h"

namespace xtrace::inject {

struct GraphNode {
  CUgraphNode handle = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  bool of_child = false;  // of a graph inside the graph
};

// Of two nodes that should be one and its clone.
inline bool same_kind(const GraphNode& a, const GraphNode& b) { return a.type == b.type && a.of_child == b.of_child; }

// The first call that graphs are read and run by and that this driver lacks; empty when it has them all.
std::string missing_graph_call(const DriverApi& api);

// Every node, those of child graphs in place of the node that holds them. Topological: of the nodes that could be next, the
// one that was made first, so that a captured stream keeps its order. A clone of a graph gives the same list.
Result<std::vector<GraphNode>> nodes_in_order(const DriverApi& api, CUgraph graph);

// Why a node of this type can not be run by itself; empty when it can.
std::string_view why_not_alone(CUgraphNodeType type);

// A kernel node as a launch. Pointers are the node's own.
struct KernelNodeLaunch {
  CUlaunchConfig shape{};  // without attributes
  std::vector<CUlaunchAttribute> attributes;
  CUfunction function = nullptr;  // may be a CUkernel in disguise
  void** params = nullptr;
  void** extra = nullptr;
  // Points into this object.
  CUlaunchConfig config();
};
// `context` is the current one.
Result<KernelNodeLaunch> kernel_node_launch(const DriverApi& api, CUgraphNode node, CUcontext context, CUstream stream);
// The name of a node's kernel; empty when the driver does not tell it.
std::string kernel_node_name(const DriverApi& api, CUgraphNode node);

CUresult launch_kernel_node(const DriverApi& api, KernelNodeLaunch& launch);
CUresult run_memset_node(const DriverApi& api, CUgraphNode node, CUstream stream);
CUresult run_memcpy_node(const DriverApi& api, CUgraphNode node, CUstream stream);

}  // namespace xtrace::inject
