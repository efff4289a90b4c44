#include "capture/inject/graph_nodes.h"

#include <functional>
#include <queue>
#include <unordered_map>

namespace xtrace::inject {
namespace {

struct NotAlone {
  CUgraphNodeType type;
  std::string_view why;
};
constexpr NotAlone not_alone[] = {
    {CU_GRAPH_NODE_TYPE_HOST, "a host node (it calls a function of the program)"},
    {CU_GRAPH_NODE_TYPE_WAIT_EVENT, "an event node (it waits for work outside of the graph)"},
    {CU_GRAPH_NODE_TYPE_EVENT_RECORD, "an event node (it tells others that the graph got there)"},
    {CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, "a semaphore node"},
    {CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, "a semaphore node"},
    {CU_GRAPH_NODE_TYPE_MEM_ALLOC, "a memory allocation node"},
    {CU_GRAPH_NODE_TYPE_MEM_FREE, "a memory free node"},
    {CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, "a batch of memory operations (they may wait for work outside of the graph)"},
    {CU_GRAPH_NODE_TYPE_CONDITIONAL, "a conditional node"},
};

// The numbers of the nodes of one graph, child graphs not looked into, in their order.
Result<std::vector<size_t>> order_of(const DriverApi& api, CUgraph graph, const std::vector<CUgraphNode>& nodes) {
  std::unordered_map<CUgraphNode, size_t> number;
  for (size_t i = 0; i < nodes.size(); ++i) number.emplace(nodes[i], i);
  size_t edges = 0;
  XT_TRY_DRIVER(api, cuGraphGetEdges_v2, graph, nullptr, nullptr, nullptr, &edges);
  std::vector<CUgraphNode> from(edges), to(edges);
  std::vector<CUgraphEdgeData> data(edges);  // not asked for, the driver refuses graphs with programmatic edges
  if (edges != 0) XT_TRY_DRIVER(api, cuGraphGetEdges_v2, graph, from.data(), to.data(), data.data(), &edges);
  std::vector<std::vector<size_t>> next(nodes.size());
  std::vector<size_t> waits_for(nodes.size(), 0);
  for (size_t i = 0; i < edges; ++i) {
    const auto a = number.find(from[i]), b = number.find(to[i]);
    if (a == number.end() || b == number.end()) return unsupported("an edge leads to a node that is not among the nodes");
    next[a->second].push_back(b->second);
    ++waits_for[b->second];
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waits_for[i] == 0) ready.push(i);
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    order.push_back(i);
    for (const size_t n : next[i])
      if (--waits_for[n] == 0) ready.push(n);
  }
  if (order.size() != nodes.size()) return unsupported("its edges form a circle");
  return order;
}

Status append(const DriverApi& api, CUgraph graph, unsigned depth, std::vector<GraphNode>& out) {
  if (depth > 64) return unsupported("graphs inside graphs, 64 deep");
  size_t count = 0;
  XT_TRY_DRIVER(api, cuGraphGetNodes, graph, nullptr, &count);
  std::vector<CUgraphNode> nodes(count);
  if (count != 0) XT_TRY_DRIVER(api, cuGraphGetNodes, graph, nodes.data(), &count);
  XT_TRY(const std::vector<size_t> order, order_of(api, graph, nodes));
  for (const size_t i : order) {
    GraphNode node{nodes[i], CU_GRAPH_NODE_TYPE_EMPTY, depth != 0};
    XT_TRY_DRIVER(api, cuGraphNodeGetType, node.handle, &node.type);
    if (node.type != CU_GRAPH_NODE_TYPE_GRAPH) {
      out.push_back(node);
      continue;
    }
    CUgraph child = nullptr;
    XT_TRY_DRIVER(api, cuGraphChildGraphNodeGetGraph, node.handle, &child);
    XT_TRY_STATUS(append(api, child, depth + 1, out));
  }
  return {};
}

// Attributes of a kernel node that its launch alone needs, and whether the value is one that was set. Left out: those that let
// it overlap with its neighbours, which it does not here.
struct KeptAttribute {
  CUkernelNodeAttrID id;
  bool (*set)(const CUkernelNodeAttrValue& v);
};
constexpr KeptAttribute kept_attributes[] = {
    {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, [](const CUkernelNodeAttrValue& v) { return v.accessPolicyWindow.num_bytes != 0; }},
    {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, [](const CUkernelNodeAttrValue& v) { return v.cooperative != 0; }},
    {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, [](const CUkernelNodeAttrValue& v) { return v.clusterDim.x != 0; }},
    {CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
     [](const CUkernelNodeAttrValue& v) { return v.clusterSchedulingPolicyPreference != CU_CLUSTER_SCHEDULING_POLICY_DEFAULT; }},
    {CU_LAUNCH_ATTRIBUTE_PRIORITY, [](const CUkernelNodeAttrValue& v) { return v.priority != 0; }},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
     [](const CUkernelNodeAttrValue& v) { return v.memSyncDomain != CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT; }},
};

}  // namespace

std::string missing_graph_call(const DriverApi& api) {
#define XT_ASK(member, symbol) \
  if (api.member == nullptr) return symbol;
  XT_DRIVER_GRAPHS(XT_ASK)
#undef XT_ASK
  return {};
}

Result<std::vector<GraphNode>> nodes_in_order(const DriverApi& api, CUgraph graph) {
  std::vector<GraphNode> out;
  XT_TRY_STATUS(append(api, graph, 0, out));
  return out;
}

std::string_view why_not_alone(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_EMPTY: return {};
    default: break;
  }
  for (const NotAlone& n : not_alone)
    if (n.type == type) return n.why;
  return "a node of a kind that this xtrace does not know";
}

Result<KernelNodeLaunch> kernel_node_launch(const DriverApi& api, CUgraphNode node, CUcontext context, CUstream stream) {
  CUDA_KERNEL_NODE_PARAMS p{};
  XT_TRY_DRIVER(api, cuGraphKernelNodeGetParams, node, &p);
  if (p.func == nullptr && p.ctx != nullptr && p.ctx != context)
    return unsupported("its kernel runs in another context than the one that is current");
  KernelNodeLaunch out;
  out.function = p.func != nullptr ? p.func : reinterpret_cast<CUfunction>(p.kern);
  out.params = p.kernelParams;
  out.extra = p.extra;
  out.shape.gridDimX = p.gridDimX, out.shape.gridDimY = p.gridDimY, out.shape.gridDimZ = p.gridDimZ;
  out.shape.blockDimX = p.blockDimX, out.shape.blockDimY = p.blockDimY, out.shape.blockDimZ = p.blockDimZ;
  out.shape.sharedMemBytes = p.sharedMemBytes;
  out.shape.hStream = stream;
  CUkernelNodeAttrValue cluster{};
  const bool clusters = api.cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &cluster) == CUDA_SUCCESS && cluster.clusterDim.x != 0;
  for (const KeptAttribute& kept : kept_attributes) {
    // Every node has a scheduling policy for clusters [measured H200].
    if (kept.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE && !clusters) continue;
    CUlaunchAttribute a{};
    a.id = kept.id;
    // A driver that does not know an attribute has no node with it.
    if (api.cuGraphKernelNodeGetAttribute(node, kept.id, &a.value) == CUDA_SUCCESS && kept.set(a.value)) out.attributes.push_back(a);
  }
  return out;
}

std::string kernel_node_name(const DriverApi& api, CUgraphNode node) {
  CUDA_KERNEL_NODE_PARAMS p{};
  if (api.cuGraphKernelNodeGetParams(node, &p) != CUDA_SUCCESS) return {};
  const char* name = nullptr;
  if (p.func != nullptr && api.cuFuncGetName != nullptr && api.cuFuncGetName(&name, p.func) == CUDA_SUCCESS && name != nullptr)
    return name;
  const auto kernel = p.kern != nullptr ? p.kern : reinterpret_cast<CUkernel>(p.func);
  if (kernel != nullptr && api.cuKernelGetName != nullptr && api.cuKernelGetName(&name, kernel) == CUDA_SUCCESS && name != nullptr)
    return name;
  return {};
}

CUlaunchConfig KernelNodeLaunch::config() {
  CUlaunchConfig out = shape;
  out.attrs = attributes.data();
  out.numAttrs = static_cast<unsigned>(attributes.size());
  return out;
}

CUresult launch_kernel_node(const DriverApi& api, KernelNodeLaunch& launch) {
  const CUlaunchConfig config = launch.config();
  return api.cuLaunchKernelEx(&config, launch.function, launch.params, launch.extra);
}

CUresult run_memset_node(const DriverApi& api, CUgraphNode node, CUstream stream) {
  CUDA_MEMSET_NODE_PARAMS p{};
  if (const CUresult r = api.cuGraphMemsetNodeGetParams(node, &p); r != CUDA_SUCCESS) return r;
  if (p.width == 0 || p.height == 0) return CUDA_SUCCESS;
  const bool flat = p.height == 1;
  switch (p.elementSize) {
    case 1: {
      const auto v = static_cast<unsigned char>(p.value);
      return flat ? api.cuMemsetD8Async(p.dst, v, p.width, stream) : api.cuMemsetD2D8Async(p.dst, p.pitch, v, p.width, p.height, stream);
    }
    case 2: {
      const auto v = static_cast<unsigned short>(p.value);
      return flat ? api.cuMemsetD16Async(p.dst, v, p.width, stream) : api.cuMemsetD2D16Async(p.dst, p.pitch, v, p.width, p.height, stream);
    }
    case 4:
      return flat ? api.cuMemsetD32Async(p.dst, p.value, p.width, stream)
                  : api.cuMemsetD2D32Async(p.dst, p.pitch, p.value, p.width, p.height, stream);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult run_memcpy_node(const DriverApi& api, CUgraphNode node, CUstream stream) {
  CUDA_MEMCPY3D p{};
  if (const CUresult r = api.cuGraphMemcpyNodeGetParams(node, &p); r != CUDA_SUCCESS) return r;
  return api.cuMemcpy3DAsync(&p, stream);
}

}  // namespace xtrace::inject
