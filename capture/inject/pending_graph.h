// A graph launch of which kernels are recorded, between its ENTER and its EXIT.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capture/inject/gate.h"
#include "capture/inject/graph_silencer.h"

namespace xtrace::inject {

struct PendingGraph {
  explicit PendingGraph(Gate& g) : gate(g) {}
  ~PendingGraph() { open_gate(); }
  PendingGraph(const PendingGraph&) = delete;
  PendingGraph& operator=(const PendingGraph&) = delete;

  void open_gate() {
    if (std::exchange(holds_gate, false)) gate.release();
  }

  struct Asked {
    size_t node = 0;
    uint64_t ordinal = 0;
  };

  Gate& gate;
  bool holds_gate = false;
  CUgraphExec handle = nullptr;
  std::shared_ptr<ExecGraph> exec;
  std::vector<Asked> asked;  // kernel nodes to be recorded, in the order in which they run
  int32_t number = 0;        // of the graph launch
  std::string api;
  CUstream stream = nullptr;
  CUcontext context = nullptr;
  int device = -1;
  bool silenced = false;
};

}  // namespace xtrace::inject
