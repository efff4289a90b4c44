// What each executable graph of the application holds. The driver does not tell: of an executable graph only its launch is
// visible. So the graph that it was made from is cloned, and what the application changes in the executable one afterwards is
// changed in the clone, too; what can not be followed makes it one whose kernels are refused by name.
//
// Makes driver calls: only under the recorder's guard, and not with a lock of the recorder held. An executable graph is used by
// one thread at a time (the driver demands it); the table itself may be used by all.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/inject/graph_nodes.h"

namespace xtrace::inject {

struct ExecGraph {
  explicit ExecGraph(const DriverApi& a) : api(a) {}
  ~ExecGraph();
  ExecGraph(const ExecGraph&) = delete;
  ExecGraph& operator=(const ExecGraph&) = delete;

  // Whether a kernel of it has no name.
  bool nameless() const {
    for (size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].type == CU_GRAPH_NODE_TYPE_KERNEL && kernels[i].empty()) return true;
    return false;
  }

  const DriverApi& api;
  CUgraph content = nullptr;             // ours; null when it could not be had
  std::vector<GraphNode> nodes;          // of `content`; without it, of the graph it was made from, which may be gone
  std::vector<std::string> kernels;      // names, by node; empty for other nodes
  std::vector<bool> enabled;             // by node: the application can switch nodes off, and an update leaves them off
  std::unordered_map<CUgraphNode, size_t> made_from;  // handles by which the application names nodes
  bool handles_known = true;  // false after an update from another graph: how the driver paired the nodes is not known
  std::string refusal;                   // why no kernel of it can be recorded
  bool readable = false;                 // `nodes` is known
};

class GraphExecs {
 public:
  explicit GraphExecs(const DriverApi& api) : api_(api) {}

  // `recorded` false: no kernel of it can be asked for any more, and it is enough to know how many it has.
  void instantiated(CUgraphExec exec, CUgraph graph, bool recorded);
  void destroyed(CUgraphExec exec);
  std::shared_ptr<ExecGraph> find(CUgraphExec exec);

  // `set` changes a node of the clone as `call` changed the node of the executable graph.
  void changed(CUgraphExec exec, CUgraphNode node, std::string_view call, const std::function<CUresult(CUgraphNode)>& set);
  void switched(CUgraphExec exec, CUgraphNode node, bool on);
  void updated(CUgraphExec exec, CUgraph graph);
  void refuse(CUgraphExec exec, std::string_view why);

 private:
  Status take_content(ExecGraph& e, CUgraph graph);
  std::optional<size_t> node_of(ExecGraph& e, CUgraphNode node, std::string_view call);
  Status count_nodes(ExecGraph& e, CUgraph graph);

  const DriverApi& api_;
  std::mutex mutex_;  // the table
  std::unordered_map<CUgraphExec, std::shared_ptr<ExecGraph>> execs_;
};

}  // namespace xtrace::inject
