#include "capture/inject/graph_silencer.h"

#include <algorithm>

namespace xtrace::inject {
namespace {

constexpr size_t scratch_bytes = 2 << 20;  // what is written goes to the first half, what is read comes from the second
// An update may give fills and copies other addresses, and lines another length; the shape of several lines has to stay.
constexpr size_t largest = scratch_bytes / 2;
constexpr char nothing_ptx[] =
    ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry xtrace_silent()\n{\n  ret;\n}\n";

struct GraphDestroyer {
  const DriverApi& api;
  CUgraph graph;
  ~GraphDestroyer() { api.cuGraphDestroy(graph); }
};

// Where one end of a copy is.
enum class End { device, host };
End end_of(const DriverApi& api, CUmemorytype type, CUdeviceptr address) {
  if (type != CU_MEMORYTYPE_UNIFIED) return type == CU_MEMORYTYPE_HOST ? End::host : End::device;
  unsigned memory = 0;
  CUpointer_attribute asked = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* value = &memory;
  if (api.cuPointerGetAttributes(1, &asked, &value, address) != CUDA_SUCCESS) return End::host;
  return memory == CU_MEMORYTYPE_DEVICE ? End::device : End::host;
}

}  // namespace

Result<GraphSilencer::Nothing> GraphSilencer::nothing_of(CUcontext context) {
  if (const auto it = nothing_.find(context); it != nothing_.end()) return it->second;
  Nothing n;
  CUmodule module = nullptr;
  CUresult r = api_.cuModuleLoadData(&module, nothing_ptx);
  if (r == CUDA_SUCCESS) r = api_.cuModuleGetFunction(&n.kernel, module, "xtrace_silent");
  if (r != CUDA_SUCCESS) return unsupported("a kernel that does nothing could not be loaded: {}", api_.name_of(r));
  r = api_.cuMemAlloc(&n.owned, scratch_bytes);
  if (r == CUDA_SUCCESS) r = api_.cuMemHostAlloc(&n.host, scratch_bytes, CU_MEMHOSTALLOC_PORTABLE);
  if (r != CUDA_SUCCESS) return unsupported("{} bytes for copies to nowhere could not be had: {}", scratch_bytes, api_.name_of(r));
  if (api_.cuMemAllocAsync != nullptr && api_.cuMemAllocAsync(&n.pooled, scratch_bytes, nullptr) != CUDA_SUCCESS) n.pooled = 0;
  XT_TRY_DRIVER(api_, cuCtxSynchronize);
  nothing_.emplace(context, n);
  return n;
}

CUdeviceptr GraphSilencer::memory_like(CUdeviceptr address, const Nothing& nothing) const {
  CUcontext context = nullptr;
  CUpointer_attribute asked = CU_POINTER_ATTRIBUTE_CONTEXT;
  void* value = &context;
  const bool owned = api_.cuPointerGetAttributes(1, &asked, &value, address) == CUDA_SUCCESS && context != nullptr;
  return owned || nothing.pooled == 0 ? nothing.owned : nothing.pooled;
}

std::string_view GraphSilencer::why_not(const GraphNode& node) const {
  if (node.type == CU_GRAPH_NODE_TYPE_MEMSET) {
    CUDA_MEMSET_NODE_PARAMS p{};
    if (api_.cuGraphMemsetNodeGetParams(node.handle, &p) != CUDA_SUCCESS) return "a fill of which the driver does not tell where";
    return p.height > 1 && p.pitch * p.height > largest ? "a fill of lines over more than 1 MiB" : "";
  }
  if (node.type != CU_GRAPH_NODE_TYPE_MEMCPY) return {};
  CUDA_MEMCPY3D p{};
  if (api_.cuGraphMemcpyNodeGetParams(node.handle, &p) != CUDA_SUCCESS) return "a copy of which the driver does not tell where";
  if (p.srcMemoryType == CU_MEMORYTYPE_ARRAY || p.dstMemoryType == CU_MEMORYTYPE_ARRAY) return "a copy from or to an array";
  return p.Height > 1 || p.Depth > 1 ? "a copy of several lines" : "";  // an update refuses it [measured H200]
}

Status GraphSilencer::silence_kernel(CUgraphNode node, const Nothing& nothing) {
  CUDA_KERNEL_NODE_PARAMS p{};
  XT_TRY_DRIVER(api_, cuGraphKernelNodeGetParams, node, &p);
  CUkernelNodeAttrValue cluster{};
  if (api_.cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &cluster) != CUDA_SUCCESS) cluster = {};
  p.func = nothing.kernel;
  p.kern = nullptr;
  p.ctx = nullptr;
  p.gridDimX = std::max(1u, cluster.clusterDim.x);
  p.gridDimY = std::max(1u, cluster.clusterDim.y);
  p.gridDimZ = std::max(1u, cluster.clusterDim.z);
  p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  p.sharedMemBytes = 0;
  p.kernelParams = nullptr;
  p.extra = nullptr;
  XT_TRY_DRIVER(api_, cuGraphKernelNodeSetParams, node, &p);
  return {};
}

Status GraphSilencer::silence_memset(CUgraphNode node, const Nothing& nothing) {
  CUDA_MEMSET_NODE_PARAMS p{};
  XT_TRY_DRIVER(api_, cuGraphMemsetNodeGetParams, node, &p);
  p.dst = memory_like(p.dst, nothing);
  if (p.height <= 1)
    p.width = 1;
  XT_TRY_DRIVER(api_, cuGraphMemsetNodeSetParams, node, &p);
  return {};
}

Status GraphSilencer::silence_memcpy(CUgraphNode node, const Nothing& nothing) {
  CUDA_MEMCPY3D p{};
  XT_TRY_DRIVER(api_, cuGraphMemcpyNodeGetParams, node, &p);
  const End from = end_of(api_, p.srcMemoryType, p.srcDevice), to = end_of(api_, p.dstMemoryType, p.dstDevice);
  char* const host = static_cast<char*>(nothing.host);
  const CUdeviceptr source = from == End::host ? reinterpret_cast<CUdeviceptr>(host + largest)
                                               : memory_like(p.srcDevice, nothing) + largest;
  const CUdeviceptr target = to == End::host ? reinterpret_cast<CUdeviceptr>(host) : memory_like(p.dstDevice, nothing);
  if (p.srcMemoryType == CU_MEMORYTYPE_HOST)
    p.srcHost = reinterpret_cast<const void*>(source);
  else
    p.srcDevice = source;
  if (p.dstMemoryType == CU_MEMORYTYPE_HOST)
    p.dstHost = reinterpret_cast<void*>(target);
  else
    p.dstDevice = target;
  p.srcXInBytes = p.srcY = p.srcZ = p.dstXInBytes = p.dstY = p.dstZ = 0;
  p.WidthInBytes = 1;
  XT_TRY_DRIVER(api_, cuGraphMemcpyNodeSetParams, node, &p);
  return {};
}

Status GraphSilencer::update(CUgraphExec handle, CUgraph graph) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult r = api_.cuGraphExecUpdate(handle, graph, &info);
  if (r != CUDA_SUCCESS) return unsupported("cuGraphExecUpdate failed: {} ({})", api_.name_of(r), static_cast<int>(info.result));
  return {};
}

Status GraphSilencer::restore(CUgraphExec handle, const ExecGraph& exec) { return update(handle, exec.content); }

Status GraphSilencer::silence(CUgraphExec handle, const ExecGraph& exec, CUcontext context, size_t end) {
  XT_TRY(const Nothing nothing, nothing_of(context));
  CUgraph silent = nullptr;
  if (const CUresult r = api_.cuGraphClone(&silent, exec.content); r != CUDA_SUCCESS)
    return unsupported("its graph could not be cloned: {}", api_.name_of(r));
  const GraphDestroyer destroyer{api_, silent};
  XT_TRY(const std::vector<GraphNode> nodes, nodes_in_order(api_, silent));
  const bool same = std::equal(nodes.begin(), nodes.end(), exec.nodes.begin(), exec.nodes.end(), same_kind);
  if (!same) return unsupported("the nodes of its clone stand in another order");
  for (size_t i = 0; i < end; ++i) {
    const CUgraphNode node = nodes[i].handle;
    Status s;
    if (nodes[i].type == CU_GRAPH_NODE_TYPE_KERNEL) s = silence_kernel(node, nothing);
    if (nodes[i].type == CU_GRAPH_NODE_TYPE_MEMSET) s = silence_memset(node, nothing);
    if (nodes[i].type == CU_GRAPH_NODE_TYPE_MEMCPY) s = silence_memcpy(node, nothing);
    if (!s) return unsupported("node {} can not be silenced: {}", i, s.error().message);
  }
  return update(handle, silent);
}

}  // namespace xtrace::inject
