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
  std::unordered_map<CUgraphNode, size_t> handles;
  for (size_t i = 0; i < source.size(); ++i) handles.emplace(source[i].handle, i);
  if (e.made_from.empty()) e.made_from = handles;
  e.handles_known = e.made_from == handles;
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
  auto e = std::make_shared<ExecGraph>(api_);  // in front of the lock
  if (const Status s = recorded ? take_content(*e, graph) : count_nodes(*e, graph); !s) e->refusal = s.error().message;
  cuuint64_t flags = 0;
  if (e->refusal.empty() && api_.cuGraphExecGetFlags(exec, &flags) == CUDA_SUCCESS && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0)
    e->refusal = "the graph was instantiated to be launched by kernels, too";
  const std::lock_guard lock(mutex_);
  execs_[exec].swap(e);  // what was there goes when the lock is open: its destructor calls the driver
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

// Without a number, the kernels of the graph can not be recorded from here on.
std::optional<size_t> GraphExecs::node_of(ExecGraph& e, CUgraphNode node, std::string_view call) {
  const auto it = e.made_from.find(node);
  if (e.handles_known && it != e.made_from.end()) return it->second;
  if (e.refusal.empty())
    e.refusal = e.handles_known ? fmt::format("{} changed a node that was not seen to belong to it", call)
                                : fmt::format("{} changed a node after an update from another graph", call);
  return std::nullopt;
}

void GraphExecs::changed(CUgraphExec exec, CUgraphNode node, std::string_view call,
                         const std::function<CUresult(CUgraphNode)>& set) {
  const auto e = find(exec);
  if (e == nullptr || !e->refusal.empty()) return;
  const auto found = node_of(*e, node, call);
  if (!found) return;
  const size_t i = *found;
  if (const CUresult r = set(e->nodes[i].handle); r != CUDA_SUCCESS) {
    e->refusal = fmt::format("{} could not be followed: {}", call, api_.name_of(r));
    return;
  }
  if (e->nodes[i].type == CU_GRAPH_NODE_TYPE_KERNEL) e->kernels[i] = kernel_node_name(api_, e->nodes[i].handle);
}

void GraphExecs::switched(CUgraphExec exec, CUgraphNode node, bool on) {
  const auto e = find(exec);
  if (e == nullptr || !e->readable) return;
  if (const auto found = node_of(*e, node, "cuGraphNodeSetEnabled")) e->enabled[*found] = on;
}

void GraphExecs::updated(CUgraphExec exec, CUgraph graph) {
  const auto e = find(exec);
  if (e == nullptr) return;
  if (const Status s = take_content(*e, graph); !s) e->refusal = s.error().message;
}

}  // namespace xtrace::inject
