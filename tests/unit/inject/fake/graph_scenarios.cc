// Scenarios with graphs. Each prints what it computes, so that a node which ran twice, or not at all, shows.
#include <cstdio>

#include "tests/unit/inject/fake/scenarios.h"

namespace {

constexpr int n = 8;
constexpr uint64_t two = 0x40000000;  // 2.0f

struct Kernel {
  CUdeviceptr data;
  float factor;
  int count = n;
  void* params[3] = {&data, &factor, &count};
  CUDA_KERNEL_NODE_PARAMS node(CUfunction f) {
    CUDA_KERNEL_NODE_PARAMS p{};
    p.func = f;
    p.gridDimX = 4, p.gridDimY = p.gridDimZ = 1;
    p.blockDimX = 128, p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = params;
    return p;
  }
  CUgraphNode add(CUgraph g, CUgraphNode needs, CUfunction f = function("plain", "scale")) {
    const CUDA_KERNEL_NODE_PARAMS p = node(f);
    CUgraphNode out = nullptr;
    cuGraphAddKernelNode(&out, g, &needs, needs != nullptr ? 1 : 0, &p);
    return out;
  }
};

CUDA_MEMSET_NODE_PARAMS fill(CUdeviceptr at, uint64_t bits) {
  CUDA_MEMSET_NODE_PARAMS p{};
  p.dst = at;
  p.value = static_cast<unsigned>(bits);
  p.elementSize = 4;
  p.width = n;
  p.height = 1;
  return p;
}
CUDA_MEMCPY3D copy(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D p{};
  p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  p.srcDevice = from, p.dstDevice = to;
  p.WidthInBytes = n * sizeof(float);
  p.Height = p.Depth = 1;
  return p;
}
CUgraphExec instantiated(CUgraph g) {
  CUgraphExec e = nullptr;
  cuGraphInstantiateWithFlags(&e, g, 0);
  return e;
}
CUstream stream() {
  static CUstream s = nullptr;
  if (s == nullptr) cuStreamCreate(&s, 0);
  return s;
}
void launch(CUgraphExec e) { std::printf("launch %d\n", cuGraphLaunch(e, stream())); }
float value(CUdeviceptr p) {
  cuCtxSynchronize();
  return *reinterpret_cast<float*>(p);
}

// out = 2; out *= 3; copy = out; out *= 5; sum *= 7, three times; the third time with other parameters.
void nodes() {
  const CUfunction f = function("plain", "scale");
  const CUdeviceptr out = floats(n, 1.0f), to = floats(n, 1.0f), other = floats(n, 1.0f), sum = floats(n, 1.0f);
  CUgraph g = nullptr;
  cuGraphCreate(&g, 0);
  CUgraphNode set = nullptr, nothing = nullptr, move = nullptr;
  auto filling = fill(out, two);
  cuGraphAddMemsetNode(&set, g, nullptr, 0, &filling, nullptr);
  cuGraphAddEmptyNode(&nothing, g, &set, 1);
  Kernel by3{out, 3}, by5{out, 5}, by7{sum, 7};
  const CUgraphNode k3 = by3.add(g, nothing);
  auto copying = copy(to, out);
  cuGraphAddMemcpyNode(&move, g, &k3, 1, &copying, nullptr);
  const CUgraphNode k5 = by5.add(g, move);
  by7.add(g, k5);
  const CUgraphExec e = instantiated(g);
  for (int i = 0; i < 3; ++i) {
    if (i == 2) {
      Kernel by11{out, 11};
      const auto p = by11.node(f);
      cuGraphExecKernelNodeSetParams(e, k5, &p);
      filling = fill(out, 0x40800000);  // 4.0f
      cuGraphExecMemsetNodeSetParams(e, set, &filling, nullptr);
      copying = copy(other, out);
      cuGraphExecMemcpyNodeSetParams(e, move, &copying, nullptr);
    }
    launch(e);
    std::printf("out %g copy %g other %g sum %g\n", value(out), value(to), value(other), value(sum));
  }
  cuGraphExecDestroy(e);
  cuGraphDestroy(g);
}

// As a program that captures anew for each launch: the graph that the executable one was made from is gone.
void updates() {
  const CUfunction f = function("plain", "scale");
  const CUdeviceptr data = floats(n, 1.0f);
  CUgraphExec e = nullptr;
  for (int i = 0; i < 3; ++i) {
    CUgraph g = nullptr;
    cuStreamBeginCapture(stream(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    scale(f, data, static_cast<float>(2 + i), n, stream());
    scale(f, data, 10, n, stream());
    cuStreamEndCapture(stream(), &g);
    CUgraphExecUpdateResultInfo info{};
    if (e == nullptr)
      e = instantiated(g);
    else
      cuGraphExecUpdate(e, g, &info);
    cuGraphDestroy(g);
    launch(e);
    std::printf("data %g\n", value(data));
  }
}

// A graph in a graph, twice, and a kernel of its own.
void child() {
  const CUdeviceptr data = floats(n, 1.0f);
  CUgraph inner = nullptr, outer = nullptr;
  cuGraphCreate(&inner, 0);
  cuGraphCreate(&outer, 0);
  Kernel by2{data, 2}, by3{data, 3}, by5{data, 5};
  const CUgraphNode k2 = by2.add(inner, nullptr);
  by3.add(inner, k2);
  CUgraphNode first = nullptr, second = nullptr;
  cuGraphAddChildGraphNode(&first, outer, nullptr, 0, inner);
  const CUgraphNode k5 = by5.add(outer, first);
  cuGraphAddChildGraphNode(&second, outer, &k5, 1, inner);
  const CUgraphExec e = instantiated(outer);
  cuGraphDestroy(inner);
  cuGraphDestroy(outer);
  for (int i = 0; i < 2; ++i) launch(e);
  std::printf("data %g\n", value(data));
}

// The second graph is instantiated when the first has run.
void two_graphs() {
  nodes();
  child();
}

// Fills and copies in memory of both kinds, of lines, from the host, and of what can not be silenced.
void memory() {
  CUdeviceptr pooled = 0;
  cuMemAllocAsync(&pooled, 4096, nullptr);
  cuMemcpyHtoD(pooled, std::vector<float>(1024, 1.0f).data(), 4096);
  const CUdeviceptr owned = floats(1024, 1.0f);
  static float host[n] = {3, 3, 3, 3, 3, 3, 3, 3};
  for (const size_t height : {size_t{1}, size_t{2}}) {
    CUgraph g = nullptr;
    cuGraphCreate(&g, 0);
    CUgraphNode last = nullptr;
    auto lines = fill(pooled, two);
    lines.height = 4;
    lines.pitch = 64;
    cuGraphAddMemsetNode(&last, g, nullptr, 0, &lines, nullptr);
    Kernel by3{pooled, 3}, by5{owned, 5};
    last = by3.add(g, last);
    auto upload = copy(owned, 0);
    upload.srcMemoryType = CU_MEMORYTYPE_HOST;
    upload.srcHost = host;
    CUgraphNode next = nullptr;
    cuGraphAddMemcpyNode(&next, g, &last, 1, &upload, nullptr);
    auto across = copy(pooled + 2048, owned);
    across.srcMemoryType = across.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    across.Height = height;
    cuGraphAddMemcpyNode(&last, g, &next, 1, &across, nullptr);
    by5.add(g, last);
    launch(instantiated(g));
    std::printf("pooled %g %g %g owned %g\n", value(pooled), value(pooled + 192), value(pooled + 2048), value(owned));
  }
}

int calls = 0;

// A kernel, what the recorder can not run, a kernel.
void with_node(void (*between)(CUgraph, CUgraphNode needs, CUgraphNode* made)) {
  const CUdeviceptr data = floats(n, 1.0f);
  CUgraph g = nullptr;
  cuGraphCreate(&g, 0);
  Kernel by2{data, 2}, by3{data, 3};
  CUgraphNode middle = nullptr;
  between(g, by2.add(g, nullptr), &middle);
  by3.add(g, middle);
  launch(instantiated(g));
  std::printf("data %g, calls %d\n", value(data), calls);
}
void host() {
  with_node([](CUgraph g, CUgraphNode needs, CUgraphNode* made) {
    CUDA_HOST_NODE_PARAMS p{[](void*) { ++calls; }, nullptr};
    cuGraphAddHostNode(made, g, &needs, 1, &p);
  });
}
void event() {
  with_node([](CUgraph g, CUgraphNode needs, CUgraphNode* made) { cuGraphAddEventWaitNode(made, g, &needs, 1, nullptr); });
}
void allocation() {
  with_node([](CUgraph g, CUgraphNode needs, CUgraphNode* made) {
    CUDA_MEM_ALLOC_NODE_PARAMS p{};
    cuGraphAddMemAllocNode(made, g, &needs, 1, &p);
  });
}

void disabled() {
  const CUdeviceptr data = floats(n, 1.0f);
  CUgraph g = nullptr;
  cuGraphCreate(&g, 0);
  Kernel by2{data, 2}, by3{data, 3};
  const CUgraphNode k2 = by2.add(g, nullptr);
  by3.add(g, k2);
  const CUgraphExec e = instantiated(g);
  launch(e);
  cuGraphNodeSetEnabled(e, k2, 0);
  launch(e);
  cuGraphNodeSetEnabled(e, k2, 1);
  launch(e);
  std::printf("data %g\n", value(data));
}

// Nodes are changed by their handles after updates: from the graph that they are of, then from another one.
void handles() {
  const CUfunction f = function("plain", "scale");
  const CUdeviceptr data = floats(n, 1.0f);
  CUgraph g = nullptr, other_graph = nullptr;
  cuGraphCreate(&g, 0);
  Kernel by2{data, 2}, by3{data, 3}, by5{data, 5}, by7{data, 7};
  const CUgraphNode k2 = by2.add(g, nullptr);
  by3.add(g, k2);
  const CUgraphExec e = instantiated(g);
  auto p = by5.node(f);
  cuGraphKernelNodeSetParams(k2, &p);
  CUgraphExecUpdateResultInfo info{};
  cuGraphExecUpdate(e, g, &info);
  launch(e);  // 5 * 3
  p = by7.node(f);
  cuGraphExecKernelNodeSetParams(e, k2, &p);
  launch(e);  // 7 * 3
  cuGraphClone(&other_graph, g);
  cuGraphExecUpdate(e, other_graph, &info);
  launch(e);  // 5 * 3
  cuGraphExecKernelNodeSetParams(e, k2, &p);
  launch(e);  // 7 * 3, by a handle of which is not known what it names now
  std::printf("data %g\n", value(data));
}

// A change of a node that the recorder does not follow.
void other() {
  const CUdeviceptr data = floats(n, 1.0f);
  CUgraph g = nullptr;
  cuGraphCreate(&g, 0);
  Kernel by2{data, 2};
  const CUgraphNode k2 = by2.add(g, nullptr);
  CUgraphNode call = nullptr;
  CUDA_HOST_NODE_PARAMS p{[](void*) { ++calls; }, nullptr};
  cuGraphAddHostNode(&call, g, &k2, 1, &p);
  const CUgraphExec e = instantiated(g);
  launch(e);
  p.fn = [](void*) { calls += 10; };
  cuGraphExecHostNodeSetParams(e, call, &p);
  launch(e);
  std::printf("data %g calls %d\n", value(data), calls);
}

// The driver takes the graph, but not its kernels by themselves.
void failing() {
  const CUdeviceptr data = floats(n, 1.0f);
  CUgraph g = nullptr;
  cuGraphCreate(&g, 0);
  CUgraphNode set = nullptr;
  const auto filling = fill(data, two);
  cuGraphAddMemsetNode(&set, g, nullptr, 0, &filling, nullptr);
  Kernel by3{data, 3}, by5{data, 5};
  by5.add(g, by3.add(g, set));
  const CUgraphExec e = instantiated(g);
  fake_fail_launch(CUDA_ERROR_INVALID_VALUE, CUDA_SUCCESS);
  launch(e);
  std::printf("data %g\n", value(data));
}

// The second of three kernels breaks the context.
void fault() {
  const CUdeviceptr data = floats(n, 1.0f), bad = floats(n, 1.0f);
  fake_fault_at(bad);
  CUgraph g = nullptr;
  cuGraphCreate(&g, 0);
  Kernel by2{data, 2}, by3{bad, 3}, by5{data, 5};
  by5.add(g, by3.add(g, by2.add(g, nullptr)));
  const CUgraphExec e = instantiated(g);
  cuGraphLaunch(e, stream());
  std::printf("wait %d\n", cuCtxSynchronize());
}

// The driver refuses to update.
void refused_update() {
  const CUdeviceptr data = floats(n, 1.0f);
  CUgraph g = nullptr;
  cuGraphCreate(&g, 0);
  Kernel by2{data, 2}, by3{data, 3};
  by3.add(g, by2.add(g, nullptr));
  const CUgraphExec e = instantiated(g);
  fake_fail_update();
  for (int i = 0; i < 2; ++i) launch(e);
  std::printf("data %g\n", value(data));
}

// The driver refuses the update that gives the nodes back: the host node runs in the call, behind the first.
void spoiled() {
  const CUdeviceptr data = floats(n, 1.0f);
  CUgraph g = nullptr;
  cuGraphCreate(&g, 0);
  Kernel by2{data, 2};
  const CUgraphNode k2 = by2.add(g, nullptr);
  CUDA_HOST_NODE_PARAMS p{[](void*) { fake_fail_update(); }, nullptr};
  CUgraphNode call = nullptr;
  cuGraphAddHostNode(&call, g, &k2, 1, &p);
  const CUgraphExec e = instantiated(g);
  for (int i = 0; i < 2; ++i) launch(e);
}

void peer() {
  const CUdeviceptr data = floats(n, 1.0f);
  fake_set_device(data, 1);
  CUgraph g = nullptr;
  cuGraphCreate(&g, 0);
  Kernel by2{data, 2};
  by2.add(g, nullptr);
  launch(instantiated(g));
  std::printf("data %g\n", value(data));
}

// A kernel of a library, by its CUkernel, with attributes.
void attributes() {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  cuLibraryLoadData(&library, image_of("plain").data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  cuLibraryGetKernel(&kernel, library, "scale");
  const CUdeviceptr data = floats(n, 1.0f);
  CUgraph g = nullptr;
  cuGraphCreate(&g, 0);
  Kernel by2{data, 2};
  auto p = by2.node(nullptr);
  p.kern = kernel;
  CUgraphNode k = nullptr;
  cuGraphAddKernelNode(&k, g, nullptr, 0, &p);
  CUkernelNodeAttrValue v{};
  v.clusterDim = {2, 1, 1};
  cuGraphKernelNodeSetAttribute(k, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v);
  v = {};
  v.priority = -2;
  cuGraphKernelNodeSetAttribute(k, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v);
  v = {};
  v.programmaticStreamSerializationAllowed = 1;
  cuGraphKernelNodeSetAttribute(k, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, &v);
  launch(instantiated(g));
  std::printf("data %g\n", value(data));
}

}  // namespace

const Scenarios& graph_scenarios() {
  static const Scenarios all = {
      {"graph_nodes", nodes},       {"graph_updates", updates},   {"graph_child", child},
      {"graph_host", host},         {"graph_event", event},       {"graph_allocation", allocation},
      {"graph_disabled", disabled}, {"graph_failing", failing},   {"graph_peer", peer},
      {"graph_other", other},       {"graph_two", two_graphs},
      {"graph_fault", fault},       {"graph_spoiled", spoiled},   {"graph_refused_update", refused_update},
      {"graph_memory", memory},     {"graph_handles", handles},
      {"graph_attributes", attributes},
  };
  return all;
}
