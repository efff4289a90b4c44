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

// Whether a copy's end is in host memory; arrays have no address to change.
enum class End { device, host, array };
End end_of(const DriverApi& api, CUmemorytype type, CUdeviceptr address) {
  if (type == CU_MEMORYTYPE_ARRAY) return End::array;
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
  r = api_.cuMemAlloc(&n.device, scratch_bytes);
  if (r == CUDA_SUCCESS) r = api_.cuMemHostAlloc(&n.host, scratch_bytes, CU_MEMHOSTALLOC_PORTABLE);
  if (r != CUDA_SUCCESS) return unsupported("{} bytes for copies to nowhere could not be had: {}", scratch_bytes, api_.name_of(r));
  nothing_.emplace(context, n);
  return n;
}

CUresult GraphSilencer::silence_kernel(CUgraphNode node, const Nothing& nothing) {
  CUDA_KERNEL_NODE_PARAMS p{};
  if (const CUresult r = api_.cuGraphKernelNodeGetParams(node, &p); r != CUDA_SUCCESS) return r;
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
  return api_.cuGraphKernelNodeSetParams(node, &p);
}

CUresult GraphSilencer::silence_memset(CUgraphNode node, const Nothing& nothing) {
  CUDA_MEMSET_NODE_PARAMS p{};
  if (const CUresult r = api_.cuGraphMemsetNodeGetParams(node, &p); r != CUDA_SUCCESS) return r;
  p.dst = nothing.device;
  if (p.height <= 1)
    p.width = 1;
  else if (p.pitch * p.height > largest)
    return CUDA_ERROR_NOT_SUPPORTED;
  return api_.cuGraphMemsetNodeSetParams(node, &p);
}

CUresult GraphSilencer::silence_memcpy(CUgraphNode node, const Nothing& nothing) {
  CUDA_MEMCPY3D p{};
  if (const CUresult r = api_.cuGraphMemcpyNodeGetParams(node, &p); r != CUDA_SUCCESS) return r;
  const End from = end_of(api_, p.srcMemoryType, p.srcDevice), to = end_of(api_, p.dstMemoryType, p.dstDevice);
  if (from == End::array || to == End::array) return CUDA_ERROR_NOT_SUPPORTED;
  char* const host = static_cast<char*>(nothing.host);
  const bool unified_from = p.srcMemoryType == CU_MEMORYTYPE_UNIFIED, unified_to = p.dstMemoryType == CU_MEMORYTYPE_UNIFIED;
  const CUdeviceptr source = from == End::host ? reinterpret_cast<CUdeviceptr>(host + scratch_bytes / 2) : nothing.device + scratch_bytes / 2;
  const CUdeviceptr target = to == End::host ? reinterpret_cast<CUdeviceptr>(host) : nothing.device;
  if (from == End::host && !unified_from) p.srcHost = reinterpret_cast<const void*>(source);
  else p.srcDevice = source;
  if (to == End::host && !unified_to) p.dstHost = reinterpret_cast<void*>(target);
  else p.dstDevice = target;
  p.srcXInBytes = p.srcY = p.srcZ = p.dstXInBytes = p.dstY = p.dstZ = 0;
  if (p.Height <= 1 && p.Depth <= 1) {
    p.WidthInBytes = 1;
  } else if (std::max(p.srcPitch * std::max(p.srcHeight, p.Height), p.dstPitch * std::max(p.dstHeight, p.Height)) * p.Depth > largest) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return api_.cuGraphMemcpyNodeSetParams(node, &p);
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
  const bool same = std::equal(nodes.begin(), nodes.end(), exec.nodes.begin(), exec.nodes.end(),
                               [](const GraphNode& a, const GraphNode& b) { return a.type == b.type && a.of_child == b.of_child; });
  if (!same) return unsupported("the nodes of its clone stand in another order");
  for (size_t i = 0; i < end; ++i) {
    const CUgraphNode node = nodes[i].handle;
    CUresult r = CUDA_SUCCESS;
    if (nodes[i].type == CU_GRAPH_NODE_TYPE_KERNEL) r = silence_kernel(node, nothing);
    if (nodes[i].type == CU_GRAPH_NODE_TYPE_MEMSET) r = silence_memset(node, nothing);
    if (nodes[i].type == CU_GRAPH_NODE_TYPE_MEMCPY) r = silence_memcpy(node, nothing);
    if (r != CUDA_SUCCESS) return unsupported("node {} could not be silenced: {}", i, api_.name_of(r));
  }
  return update(handle, silent);
}

}  // namespace xtrace::inject
