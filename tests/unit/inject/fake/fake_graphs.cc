// Graphs of the fake driver: nodes in the order in which they were made, executable graphs with nodes of their own. What the real
// driver demands is demanded: executable graphs know only handles of the graph that they were made from, an update needs the same
// types, and what runs a node twice shows in the memory.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>

#include "tests/unit/inject/fake/fake_state.h"

namespace fake {
namespace {

struct Graph;
struct Node {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::vector<Node*> needs;
  CUDA_KERNEL_NODE_PARAMS kernel{};
  std::vector<std::vector<char>> values;  // of the kernel's parameters
  std::vector<void*> pointers;
  std::map<int, CUlaunchAttributeValue> attributes;
  CUDA_MEMSET_NODE_PARAMS memset{};
  CUDA_MEMCPY3D memcpy{};
  CUDA_HOST_NODE_PARAMS host{};
  std::unique_ptr<Graph> child;
  bool enabled = true;
};
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
};
struct Exec {
  Graph graph;
  std::map<Node*, Node*> by_source;
};

Node* node_of(CUgraphNode n) { return reinterpret_cast<Node*>(n); }
Graph* graph_of(CUgraph g) { return reinterpret_cast<Graph*>(g); }
Exec* exec_of(CUgraphExec e) { return reinterpret_cast<Exec*>(e); }
CUgraphNode handle(Node* n) { return reinterpret_cast<CUgraphNode>(n); }

std::map<CUstream, std::pair<std::unique_ptr<Graph>, Node*>>& captures() {
  static auto* all = new std::map<CUstream, std::pair<std::unique_ptr<Graph>, Node*>>;
  return *all;
}

void set_kernel(Node& n, const CUDA_KERNEL_NODE_PARAMS& p) {
  n.kernel = p;
  n.values.clear();
  n.pointers.clear();
  const void* function = p.func != nullptr ? static_cast<const void*>(p.func) : p.kern;
  const auto& params = function_of(function)->kernel->params;
  for (size_t i = 0; i < params.size(); ++i) {
    const auto* value = static_cast<const char*>(p.kernelParams[i]);
    n.values.emplace_back(value, value + params[i].size);
  }
  for (auto& v : n.values) n.pointers.push_back(v.data());
  n.kernel.kernelParams = n.pointers.data();
}

void copy_graph(const Graph& from, Graph& to, std::map<Node*, Node*>& made);

// All but the dependencies.
void copy_contents(const Node& from, Node& to, std::map<Node*, Node*>& made) {
  to.type = from.type;
  if (from.type == CU_GRAPH_NODE_TYPE_KERNEL) set_kernel(to, from.kernel);
  to.attributes = from.attributes;
  to.memset = from.memset;
  to.memcpy = from.memcpy;
  to.host = from.host;
  if (from.child == nullptr) return;
  to.child = std::make_unique<Graph>();
  copy_graph(*from.child, *to.child, made);
}
void copy_graph(const Graph& from, Graph& to, std::map<Node*, Node*>& made) {
  for (const auto& n : from.nodes) {
    to.nodes.push_back(std::make_unique<Node>());
    made[n.get()] = to.nodes.back().get();
    copy_contents(*n, *to.nodes.back(), made);
  }
  for (const auto& n : from.nodes)
    for (Node* needed : n->needs) made.at(n.get())->needs.push_back(made.at(needed));
}

Node* add(Graph& g, CUgraphNodeType type, const CUgraphNode* needs, size_t count) {
  g.nodes.push_back(std::make_unique<Node>());
  Node* n = g.nodes.back().get();
  n->type = type;
  for (size_t i = 0; i < count; ++i) n->needs.push_back(node_of(needs[i]));
  return n;
}

void fill(CUdeviceptr at, unsigned value, unsigned element, size_t width) {
  for (size_t i = 0; i < width; ++i) std::memcpy(memory_at<char>(at) + i * element, &value, element);
}
void copy(const CUDA_MEMCPY3D& p) {
  const void* from = p.srcMemoryType == CU_MEMORYTYPE_HOST ? p.srcHost : memory_at<void>(p.srcDevice);
  void* to = p.dstMemoryType == CU_MEMORYTYPE_HOST ? p.dstHost : memory_at<void>(p.dstDevice);
  std::memcpy(to, from, p.WidthInBytes);
}

void run_graph(const Graph& g, CUstream stream);
void run_node(const Node& n, CUstream stream) {
  if (!n.enabled) return;
  switch (n.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      run(n.kernel.func != nullptr ? n.kernel.func : reinterpret_cast<CUfunction>(n.kernel.kern), stream, n.pointers.data());
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      for (size_t row = 0; row < n.memset.height; ++row)
        fill(n.memset.dst + row * n.memset.pitch, n.memset.value, n.memset.elementSize, n.memset.width);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY: copy(n.memcpy); break;
    case CU_GRAPH_NODE_TYPE_HOST: n.host.fn(n.host.userData); break;
    case CU_GRAPH_NODE_TYPE_GRAPH: run_graph(*n.child, stream); break;
    default: break;
  }
}
void run_graph(const Graph& g, CUstream stream) {
  std::set<const Node*> done;
  const std::function<void(const Node&)> visit = [&](const Node& n) {
    if (!done.insert(&n).second) return;
    for (const Node* needed : n.needs) visit(*needed);
    run_node(n, stream);
  };
  for (const auto& n : g.nodes) visit(*n);
}

// An update must stay in memory of the same context, and copies of several lines where they are.
bool same_memory(const Node& a, const Node& b) {
  if (a.type == CU_GRAPH_NODE_TYPE_MEMSET) return is_pooled(a.memset.dst) == is_pooled(b.memset.dst) && a.memset.height == b.memset.height;
  if (a.type != CU_GRAPH_NODE_TYPE_MEMCPY) return true;
  return a.memcpy.srcMemoryType == b.memcpy.srcMemoryType && a.memcpy.dstMemoryType == b.memcpy.dstMemoryType &&
         is_pooled(a.memcpy.srcDevice) == is_pooled(b.memcpy.srcDevice) && is_pooled(a.memcpy.dstDevice) == is_pooled(b.memcpy.dstDevice);
}
bool same_types(const Graph& a, const Graph& b) {
  return std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), [](const auto& x, const auto& y) {
    return x->type == y->type && x->needs.size() == y->needs.size() && same_memory(*x, *y) && (x->child == nullptr || same_types(*x->child, *y->child));
  });
}
// What is switched off stays so, as in the real driver [measured H200].
void update(Graph& mine, const Graph& from) {
  for (size_t i = 0; i < mine.nodes.size(); ++i) {
    Node& n = *mine.nodes[i];
    const Node& f = *from.nodes[i];
    if (f.child != nullptr) {
      update(*n.child, *f.child);
    } else {
      std::map<Node*, Node*> none;
      copy_contents(f, n, none);
    }
  }
}

CUresult instantiate(CUgraphExec* out, CUgraph g) {
  auto* e = new Exec;
  copy_graph(*graph_of(g), e->graph, e->by_source);
  *out = reinterpret_cast<CUgraphExec>(e);
  return CUDA_SUCCESS;
}

template <typename Change>
CUresult change(CUgraphExec exec, CUgraphNode node, Change change_it) {
  const auto it = exec_of(exec)->by_source.find(node_of(node));
  if (it == exec_of(exec)->by_source.end()) return CUDA_ERROR_INVALID_VALUE;
  change_it(*it->second);
  return CUDA_SUCCESS;
}

}  // namespace

void capture_kernel(CUstream stream, CUfunction function, const CUlaunchConfig& config, const void* const* values) {
  auto& [graph, last] = captures()[stream];
  if (graph == nullptr) graph = std::make_unique<Graph>(), last = nullptr;
  const CUgraphNode needs = handle(last);
  Node* n = add(*graph, CU_GRAPH_NODE_TYPE_KERNEL, &needs, last != nullptr ? 1 : 0);
  CUDA_KERNEL_NODE_PARAMS p{};
  p.func = is_kernel(function) ? nullptr : function;
  p.kern = is_kernel(function) ? reinterpret_cast<CUkernel>(function) : nullptr;
  p.gridDimX = config.gridDimX, p.gridDimY = config.gridDimY, p.gridDimZ = config.gridDimZ;
  p.blockDimX = config.blockDimX, p.blockDimY = config.blockDimY, p.blockDimZ = config.blockDimZ;
  p.kernelParams = const_cast<void**>(values);
  set_kernel(*n, p);
  for (unsigned i = 0; i < config.numAttrs; ++i) n->attributes[config.attrs[i].id] = config.attrs[i].value;
  last = n;
}

CUgraph end_capture(CUstream stream) {
  auto& graph = captures()[stream].first;
  if (graph == nullptr) graph = std::make_unique<Graph>();
  auto* out = reinterpret_cast<CUgraph>(graph.release());
  captures().erase(stream);
  return out;
}

}  // namespace fake

using namespace fake;

extern "C" {

CUresult cuGraphCreate(CUgraph* g, unsigned) { return *g = reinterpret_cast<CUgraph>(new Graph), CUDA_SUCCESS; }
CUresult cuGraphDestroy(CUgraph g) { return delete graph_of(g), CUDA_SUCCESS; }
CUresult cuGraphClone(CUgraph* out, CUgraph g) {
  auto* made = new Graph;
  std::map<Node*, Node*> map;
  for (const auto& n : graph_of(g)->nodes)
    if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) return delete made, CUDA_ERROR_NOT_SUPPORTED;
  copy_graph(*graph_of(g), *made, map);
  return *out = reinterpret_cast<CUgraph>(made), CUDA_SUCCESS;
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph g, const CUgraphNode* needs, size_t count, const CUDA_KERNEL_NODE_PARAMS* p) {
  Node* n = add(*graph_of(g), CU_GRAPH_NODE_TYPE_KERNEL, needs, count);
  set_kernel(*n, *p);
  return *out = handle(n), CUDA_SUCCESS;
}
CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph g, const CUgraphNode* needs, size_t count, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  Node* n = add(*graph_of(g), CU_GRAPH_NODE_TYPE_MEMSET, needs, count);
  n->memset = *p;
  return *out = handle(n), CUDA_SUCCESS;
}
CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* needs, size_t count, const CUDA_MEMCPY3D* p, CUcontext) {
  Node* n = add(*graph_of(g), CU_GRAPH_NODE_TYPE_MEMCPY, needs, count);
  n->memcpy = *p;
  return *out = handle(n), CUDA_SUCCESS;
}
CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph g, const CUgraphNode* needs, size_t count, const CUDA_HOST_NODE_PARAMS* p) {
  Node* n = add(*graph_of(g), CU_GRAPH_NODE_TYPE_HOST, needs, count);
  n->host = *p;
  return *out = handle(n), CUDA_SUCCESS;
}
CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* needs, size_t count) {
  return *out = handle(add(*graph_of(g), CU_GRAPH_NODE_TYPE_EMPTY, needs, count)), CUDA_SUCCESS;
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph g, const CUgraphNode* needs, size_t count, CUevent) {
  return *out = handle(add(*graph_of(g), CU_GRAPH_NODE_TYPE_WAIT_EVENT, needs, count)), CUDA_SUCCESS;
}
CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph g, const CUgraphNode* needs, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS*) {
  return *out = handle(add(*graph_of(g), CU_GRAPH_NODE_TYPE_MEM_ALLOC, needs, count)), CUDA_SUCCESS;
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph g, const CUgraphNode* needs, size_t count, CUgraph child) {
  Node* n = add(*graph_of(g), CU_GRAPH_NODE_TYPE_GRAPH, needs, count);
  n->child = std::make_unique<Graph>();
  std::map<Node*, Node*> map;
  copy_graph(*graph_of(child), *n->child, map);
  return *out = handle(n), CUDA_SUCCESS;
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode n, CUgraph* g) {
  return *g = reinterpret_cast<CUgraph>(node_of(n)->child.get()), CUDA_SUCCESS;
}
CUresult cuGraphGetNodes(CUgraph g, CUgraphNode* nodes, size_t* count) {
  const auto& all = graph_of(g)->nodes;
  if (nodes != nullptr)
    for (size_t i = 0; i < std::min(*count, all.size()); ++i) nodes[i] = handle(all[i].get());
  return *count = all.size(), CUDA_SUCCESS;
}
CUresult cuGraphGetEdges_v2(CUgraph g, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData*, size_t* count) {
  size_t at = 0;
  for (const auto& n : graph_of(g)->nodes)
    for (Node* needed : n->needs) {
      if (from != nullptr) from[at] = handle(needed), to[at] = handle(n.get());
      ++at;
    }
  return *count = at, CUDA_SUCCESS;
}
CUresult cuGraphNodeGetType(CUgraphNode n, CUgraphNodeType* type) { return *type = node_of(n)->type, CUDA_SUCCESS; }
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS* p) { return *p = node_of(n)->kernel, CUDA_SUCCESS; }
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS* p) { return set_kernel(*node_of(n), *p), CUDA_SUCCESS; }
CUresult cuGraphMemsetNodeGetParams(CUgraphNode n, CUDA_MEMSET_NODE_PARAMS* p) { return *p = node_of(n)->memset, CUDA_SUCCESS; }
CUresult cuGraphMemsetNodeSetParams(CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS* p) { return node_of(n)->memset = *p, CUDA_SUCCESS; }
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode n, CUDA_MEMCPY3D* p) { return *p = node_of(n)->memcpy, CUDA_SUCCESS; }
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode n, const CUDA_MEMCPY3D* p) { return node_of(n)->memcpy = *p, CUDA_SUCCESS; }
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode n, CUkernelNodeAttrID id, CUkernelNodeAttrValue* value) {
  const auto it = node_of(n)->attributes.find(id);
  *value = it == node_of(n)->attributes.end() ? CUkernelNodeAttrValue{} : it->second;
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode n, CUkernelNodeAttrID id, const CUkernelNodeAttrValue* value) {
  return node_of(n)->attributes[id] = *value, CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph g, unsigned long long flags) {
  return TRACED(cuGraphInstantiateWithFlags, nullptr, (out, g, flags), { return instantiate(out, g); });
}
CUresult cuGraphExecGetFlags(CUgraphExec, cuuint64_t* flags) { return *flags = 0, CUDA_SUCCESS; }
CUresult cuGraphExecDestroy(CUgraphExec e) {
  return TRACED(cuGraphExecDestroy, nullptr, (e), { return delete exec_of(e), CUDA_SUCCESS; });
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec e, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS* p) {
  return TRACED(cuGraphExecKernelNodeSetParams_v2, nullptr, (e, n, p), { return change(e, n, [&](Node& m) { set_kernel(m, *p); }); });
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext context) {
  return TRACED(cuGraphExecMemsetNodeSetParams, nullptr, (e, n, p, context), { return change(e, n, [&](Node& m) { m.memset = *p; }); });
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_MEMCPY3D* p, CUcontext context) {
  return TRACED(cuGraphExecMemcpyNodeSetParams, nullptr, (e, n, p, context), { return change(e, n, [&](Node& m) { m.memcpy = *p; }); });
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_HOST_NODE_PARAMS* p) {
  return TRACED(cuGraphExecHostNodeSetParams, nullptr, (e, n, p), { return change(e, n, [&](Node& m) { m.host = *p; }); });
}
CUresult cuGraphNodeSetEnabled(CUgraphExec e, CUgraphNode n, unsigned on) {
  return TRACED(cuGraphNodeSetEnabled, nullptr, (e, n, on), { return change(e, n, [&](Node& m) { m.enabled = on != 0; }); });
}
CUresult cuGraphExecUpdate_v2(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo* info) {
  return TRACED(cuGraphExecUpdate_v2, nullptr, (e, g, info), {
    if (std::exchange(state().fail_update, false)) return CUDA_ERROR_UNKNOWN;
    if (state().wait_result != CUDA_SUCCESS) return state().wait_result;
    if (!same_types(exec_of(e)->graph, *graph_of(g))) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    return update(exec_of(e)->graph, *graph_of(g)), CUDA_SUCCESS;
  });
}
CUresult cuGraphLaunch(CUgraphExec e, CUstream s) {
  return TRACED(cuGraphLaunch, nullptr, (e, s), {
    if (state().capturing.contains(s)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (state().wait_result != CUDA_SUCCESS) return state().wait_result;
    if (e != nullptr) run_graph(exec_of(e)->graph, s);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* p, CUstream) { return state().busy = true, copy(*p), CUDA_SUCCESS; }
#define FILL(name, type, bytes)                                                      \
  CUresult cuMemsetD##name##Async(CUdeviceptr at, type value, size_t n, CUstream) {  \
    return state().busy = true, fill(at, value, bytes, n), CUDA_SUCCESS;             \
  }                                                                                  \
  CUresult cuMemsetD2D##name##Async(CUdeviceptr at, size_t pitch, type value, size_t n, size_t rows, CUstream) { \
    for (size_t r = 0; r < rows; ++r) fill(at + r * pitch, value, bytes, n);         \
    return state().busy = true, CUDA_SUCCESS;                                        \
  }
FILL(8, unsigned char, 1)
FILL(16, unsigned short, 2)
FILL(32, unsigned, 4)
#undef FILL
}
