#include "capture/inject/graph_execs.h"

#include <algorithm>

namespace xtrace::inject {

ExecGraph::~ExecGraph() {
  if (content != nullptr) api.cuGraphDestroy(content);
}

std::shared_ptr<ExecGraph> GraphExecs::find(CUgraphExec exec) {
  const std::lock_guard lock(mutex_);
  const auto it = execs_.find(exec);
  return it == execs_.end() ? nullptr : it->second;
}

// On an error the nodes are those of `graph` itself, if even they could be had: enough to count its kernels.
Status GraphExecs::take_content(ExecGraph& e, CUgraph graph) {
  e.readable = false;
  if (const std::string missing = missing_graph_call(api_); !missing.empty())
    return unsupported("this driver has no {}", missing);
  XT_TRY(std::vector<GraphNode> source, nodes_in_order(api_, graph));
  CUgraph clone = nullptr;
  const CUresult cloned = api_.cuGraphClone(&clone, graph);
  if (e.content != nullptr) api_.cuGraphDestroy(e.content);
  e.content = cloned == CUDA_SUCCESS ? clone : nullptr;
  e.nodes = source;
  auto mine = e.content != nullptr ? nodes_in_order(api_, e.content) : Result<std::vector<GraphNode>>(source);
  const bool same = mine && std::equal(mine->begin(), mine->end(), source.begin(), source.end(), same_kind);
  if (same) e.nodes = std::move(*mine);
  e.kernels.assign(e.nodes.size(), {});
  for (size_t i = 0; i < e.nodes.size(); ++i)
    if (e.nodes[i].type == CU_GRAPH_NODE_TYPE_KERNEL) e.kernels[i] = kernel_node_name(api_, e.nodes[i].handle);
  e.enabled.resize(e.nodes.size(), true);
  e.readable = true;
  if (e.made_from.empty())
    for (size_t i = 0; i < source.size(); ++i) e.made_from.emplace(source[i].handle, i);
  if (cloned != CUDA_SUCCESS) return unsupported("its graph could not be cloned: {}", api_.name_of(cloned));
  if (!same) return unsupported("the nodes of its clone stand in another order");
  return {};
}

Status GraphExecs::count_nodes(ExecGraph& e, CUgraph graph) {
  if (const std::string missing = missing_graph_call(api_); !missing.empty())
    return unsupported("this driver has no {}", missing);
  XT_TRY(e.nodes, nodes_in_order(api_, graph));
  e.kernels.resize(e.nodes.size());
  e.enabled.assign(e.nodes.size(), true);
  for (size_t i = 0; i < e.nodes.size(); ++i) e.made_from.emplace(e.nodes[i].handle, i);
  e.readable = true;
  e.refusal = "instantiated when no kernel of it was asked for any more";
  return {};
}

void GraphExecs::instantiated(CUgraphExec exec, CUgraph graph, bool recorded) {
  auto e = std::make_shared<ExecGraph>(api_);
  if (const Status s = recorded ? take_content(*e, graph) : count_nodes(*e, graph); !s) e->refusal = s.error().message;
  cuuint64_t flags = 0;
  if (e->refusal.empty() && api_.cuGraphExecGetFlags(exec, &flags) == CUDA_SUCCESS && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0)
    e->refusal = "the graph was instantiated to be launched by kernels, too";
  const std::lock_guard lock(mutex_);
  execs_.insert_or_assign(exec, std::move(e));
}

void GraphExecs::destroyed(CUgraphExec exec) {
  std::shared_ptr<ExecGraph> last;  // its destructor calls the driver: not under the lock
  const std::lock_guard lock(mutex_);
  if (const auto it = execs_.find(exec); it != execs_.end()) {
    last = std::move(it->second);
    execs_.erase(it);
  }
}

void GraphExecs::refuse(CUgraphExec exec, std::string_view why) {
  if (const auto e = find(exec); e != nullptr && e->refusal.empty()) e->refusal = why;
}

void GraphExecs::changed(CUgraphExec exec, CUgraphNode node, std::string_view call,
                         const std::function<CUresult(CUgraphNode)>& set) {
  const auto e = find(exec);
  if (e == nullptr || !e->refusal.empty()) return;
  const auto it = e->made_from.find(node);
  if (it == e->made_from.end()) {
    e->refusal = fmt::format("{} changed a node that was not seen to belong to it", call);
    return;
  }
  const size_t i = it->second;
  if (const CUresult r = set(e->nodes[i].handle); r != CUDA_SUCCESS) {
    e->refusal = fmt::format("{} could not be followed: {}", call, api_.name_of(r));
    return;
  }
  if (e->nodes[i].type == CU_GRAPH_NODE_TYPE_KERNEL) e->kernels[i] = kernel_node_name(api_, e->nodes[i].handle);
}

void GraphExecs::switched(CUgraphExec exec, CUgraphNode node, bool on) {
  const auto e = find(exec);
  if (e == nullptr || !e->readable) return;
  const auto it = e->made_from.find(node);
  if (it != e->made_from.end())
    e->enabled[it->second] = on;
  else if (e->refusal.empty())
    e->refusal = "cuGraphNodeSetEnabled concerns a node that was not seen to belong to it";
}

void GraphExecs::updated(CUgraphExec exec, CUgraph graph) {
  const auto e = find(exec);
  if (e == nullptr) return;
  const std::vector<GraphNode> before = e->nodes;
  const Status s = take_content(*e, graph);
  if (!s) e->refusal = s.error().message;
  // The driver pairs the nodes in the order in which they were made. Where that order differs, the handles that the application
  // has name other nodes than those of the same number.
  const bool same = std::equal(before.begin(), before.end(), e->nodes.begin(), e->nodes.end(), same_kind);
  if (!same) e->made_from = {{nullptr, 0}};
}

}  // namespace xtrace::inject
