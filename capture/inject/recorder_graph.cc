// Kernels in graphs. CUPTI shows the launch of a graph, not those of its kernels, and what a graph is made of can be read but not
// launched in part. So the recorder runs the nodes itself, one after another in the stream of the launch, up to the last kernel
// that is asked for, with the memory read before and after that kernel as for any launch; silences these nodes in the executable
// graph; and lets the application's own launch run the rest. Every node runs once.
#include <algorithm>

#include "capture/inject/pending_graph.h"
#include "capture/inject/pending_launch.h"
#include "capture/inject/recorder.h"
#include "capture/inject/relaxed_capture.h"

namespace xtrace::inject {
namespace {

constexpr std::string_view graph_class = "graph launch";

}  // namespace

void delete_pending(PendingGraph* p) noexcept { delete p; }

void Recorder::enter_graph_launch(ThreadState& thread, Frame& frame, const CUpti_CallbackData& data) {
  const Guard guard(thread);
  // The structure of the other form names the handle as old drivers did.
  const auto& p = *static_cast<const cuGraphLaunch_ptsz_params*>(data.functionParams);
  const CUstream stream = stream_of(p.hStream, frame.cbid);
  if (captured(stream)) return;  // the driver refuses it
  const auto exec = execs_.find(p.hGraphExec);
  if (exec == nullptr) return skip_unread_graph(data, "it was not seen how the graph was instantiated");
  if (!exec->readable) return skip_unread_graph(data, exec->refusal);

  frame.graph.reset(new PendingGraph(gate_));
  PendingGraph& graph = *frame.graph;
  graph.handle = p.hGraphExec;
  graph.exec = exec;
  graph.stream = stream;
  graph.api = data.functionName != nullptr ? data.functionName : "";
  {
    const std::lock_guard lock(state_);
    graph.number = graph_launches_++;
    for (size_t i = 0; i < exec->nodes.size(); ++i) {
      if (exec->nodes[i].type != CU_GRAPH_NODE_TYPE_KERNEL || !exec->enabled[i]) continue;
      const uint64_t ordinal = seen_++;
      if (!selector_.exhausted() && selector_.next(exec->kernels[i]) == LaunchSelector::Answer::take) graph.asked.push_back({i, ordinal});
    }
  }
  if (!graph.asked.empty() || !writer_made_) {
    if (const Status s = ensure_bundle(data.context); !s) {
      frame.graph.reset();
      return stop(s.error());
    }
  }
  const Status s = graph.asked.empty() ? Status() : run_graph(frame, graph);
  if (!s) refuse_nodes(graph, 0, s.error().message);
  if (!graph.silenced) frame.graph.reset();
}

// One launch of nobody knows how many kernels.
void Recorder::skip_unread_graph(const CUpti_CallbackData& data, const std::string& why) {
  bundle::LaunchRecord record;
  {
    const std::lock_guard lock(state_);
    ++graph_launches_;
    record.ordinal = seen_++;
    const auto answer = selector_.next_unnamed();
    if (answer == LaunchSelector::Answer::other_kernel && unread_graphs_++ == 0) unread_graph_ = why;
    if (answer != LaunchSelector::Answer::take && writer_made_) return;
    record.status = bundle::LaunchStatus::skipped;
    record.skip_reason = answer == LaunchSelector::Answer::take ? fmt::format("{}: {}", graph_class, why) : "";
  }
  if (const Status s = ensure_bundle(data.context); !s) return stop(s.error());
  if (record.skip_reason.empty()) return;
  record.api = data.functionName != nullptr ? data.functionName : "";
  add_record(record);
}

void Recorder::refuse_nodes(const PendingGraph& graph, size_t from, const std::string& why) {
  for (size_t i = from; i < graph.asked.size(); ++i) {
    const PendingGraph::Asked& a = graph.asked[i];
    bundle::LaunchRecord record;
    record.ordinal = a.ordinal;
    record.kernel = graph.exec->kernels[a.node];
    record.api = graph.api;
    record.graph = {graph.number, static_cast<int32_t>(a.node)};
    record.status = bundle::LaunchStatus::skipped;
    record.skip_reason = why;
    add_record(record);
  }
}

Status Recorder::run_graph(Frame& frame, PendingGraph& graph) {
  const ExecGraph& exec = *graph.exec;
  if (!exec.refusal.empty()) return unsupported("{}: {}", graph_class, exec.refusal);
  XT_TRY(const Where where, admit(graph.stream));
  graph.holds_gate = true;
  graph.context = where.context;
  graph.device = where.device;
  const RelaxedCapture relaxed(driver_);

  // The graph keeps the first node that can not be taken from it, and all behind that.
  std::string_view why;
  size_t first_kept = 0;
  for (; first_kept <= graph.asked.back().node; ++first_kept) {
    if (!exec.enabled[first_kept]) continue;
    why = why_not_alone(exec.nodes[first_kept].type);
    if (why.empty()) why = silencer_.why_not(exec.nodes[first_kept]);
    if (!why.empty()) break;
  }
  const auto cut = std::find_if(graph.asked.begin(), graph.asked.end(), [&](const auto& a) { return a.node > first_kept; });
  if (cut != graph.asked.end()) {
    refuse_nodes(graph, static_cast<size_t>(cut - graph.asked.begin()),
                 fmt::format("{}: {} stands before the kernel, and the recorder can not run it instead of the graph", graph_class, why));
    graph.asked.erase(cut, graph.asked.end());
  }
  if (graph.asked.empty()) return {};

  CUresult failure = CUDA_SUCCESS;
  XT_TRY_STATUS(drain(graph.context, &failure));
  if (failure != CUDA_SUCCESS) return unsupported("context: broken before the launch: {}", driver_.name_of(failure));

  const size_t end = graph.asked.back().node + 1;
  if (const Status s = silencer_.silence(graph.handle, exec, graph.context, end); !s)
    return unsupported("{}: {}", graph_class, s.error().message);
  graph.silenced = true;

  size_t next = 0;  // in graph.asked
  for (size_t i = 0; i < end; ++i) {
    const GraphNode& node = exec.nodes[i];
    frame.loaded.clear();  // what is loaded inside belongs to this node's kernel alone
    if (!exec.enabled[i]) continue;
    const bool asked = graph.asked[next].node == i;
    CUresult ran = CUDA_SUCCESS;
    if (asked && !stopped_) {
      ran = record_node(frame, graph, i, graph.asked[next].ordinal);
    } else if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) {
      auto launch = kernel_node_launch(driver_, node.handle, graph.context, graph.stream);
      ran = launch ? launch_kernel_node(driver_, *launch) : CUDA_ERROR_NOT_SUPPORTED;
    } else if (node.type == CU_GRAPH_NODE_TYPE_MEMSET) {
      ran = run_memset_node(driver_, node.handle, graph.stream);
    } else if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
      ran = run_memcpy_node(driver_, node.handle, graph.stream);
    }
    if (asked) ++next;
    if (ran == CUDA_SUCCESS) continue;
    // This node and those behind it are left to the application's launch.
    refuse_nodes(graph, next, fmt::format("{}: node {} could not be run by itself: {}", graph_class, i, driver_.name_of(ran)));
    if (const Status s = silencer_.silence(graph.handle, exec, graph.context, i); !s)
      graph_spoiled(graph, fmt::format("it could not be made to go on at node {}: {}", i, s.error().message));
    break;
  }
  return {};
}

// The status of the launch; what became of the recording is in the bundle.
CUresult Recorder::record_node(Frame& frame, PendingGraph& graph, size_t node, uint64_t ordinal) {
  PendingLaunch pending(gate_);  // the graph holds the gate
  pending.context = graph.context;
  pending.device = graph.device;
  pending.record.ordinal = ordinal;
  pending.record.api = graph.api;
  pending.record.kernel = graph.exec->kernels[node];
  pending.record.graph = {graph.number, static_cast<int32_t>(node)};
  auto launch = kernel_node_launch(driver_, graph.exec->nodes[node].handle, graph.context, graph.stream);
  if (!launch) {
    settle(pending, unsupported("{}: {}", graph_class, launch.error().message));
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Status s;
  {
    const SpentTime spent(pending.seconds);
    pending.take_call(call_of(launch->config(), launch->function, launch->params, launch->extra));
    s = prepare(frame, pending, nullptr);
  }
  const CUresult ran = launch_kernel_node(driver_, *launch);
  if (s) s = end(frame, pending, ran);
  settle(pending, s);
  return ran;
}

void Recorder::exit_graph_launch(PendingGraph& graph) {
  const RelaxedCapture relaxed(driver_);
  if (const Status s = silencer_.restore(graph.handle, *graph.exec); !s)
    graph_spoiled(graph, fmt::format("nodes that were silenced could not be put back: {}", s.error().message));
  graph.open_gate();
}

void Recorder::graph_spoiled(const PendingGraph& graph, const std::string& why) {
  CUresult failure = CUDA_SUCCESS;
  if (drain(graph.context, &failure) && broken_for_good(failure)) return;
  stop(Error{ErrorKind::internal, fmt::format("a graph of the program was spoiled: {}; its results from here on are wrong", why), {}, {}});
}

// A call that made, changed or destroyed an executable graph, and succeeded.
void Recorder::note_graph_call(const Frame& frame, const CUpti_CallbackData& data) {
  const void* params = data.functionParams;
  const std::string_view name = data.functionName != nullptr ? data.functionName : "a call";
  const RelaxedCapture relaxed(driver_);
  bool over = false, named = false;
  {
    const std::lock_guard lock(state_);
    over = selector_.exhausted();
    named = selector_.has_pattern();
  }
  switch (frame.cls) {
    case CallClass::graph_instantiate: {  // all of them begin like this one
      const auto& p = *static_cast<const cuGraphInstantiateWithFlags_params*>(params);
      execs_.instantiated(*p.phGraphExec, p.hGraph, !over);
      if (named && !over && execs_.find(*p.phGraphExec)->nameless())
        warn("the driver does not name the kernels of a graph: --kernel does not find them");
      return;
    }
    case CallClass::graph_destroy_exec:
      return execs_.destroyed(*static_cast<const CUgraphExec*>(params));
    case CallClass::graph_set_kernel: {
      const auto& p = *static_cast<const cuGraphExecKernelNodeSetParams_params*>(params);
      CUDA_KERNEL_NODE_PARAMS now{};
      const CUDA_KERNEL_NODE_PARAMS_v1& given = *p.nodeParams;
      now.func = given.func;
      now.gridDimX = given.gridDimX, now.gridDimY = given.gridDimY, now.gridDimZ = given.gridDimZ;
      now.blockDimX = given.blockDimX, now.blockDimY = given.blockDimY, now.blockDimZ = given.blockDimZ;
      now.sharedMemBytes = given.sharedMemBytes;
      now.kernelParams = given.kernelParams;
      now.extra = given.extra;
      return execs_.changed(p.hGraphExec, p.hNode, name, [&](CUgraphNode n) { return driver_.cuGraphKernelNodeSetParams(n, &now); });
    }
    case CallClass::graph_set_kernel_v2: {
      const auto& p = *static_cast<const cuGraphExecKernelNodeSetParams_v2_params*>(params);
      return execs_.changed(p.hGraphExec, p.hNode, name,
                            [&](CUgraphNode n) { return driver_.cuGraphKernelNodeSetParams(n, p.nodeParams); });
    }
    case CallClass::graph_set_memcpy: {
      const auto& p = *static_cast<const cuGraphExecMemcpyNodeSetParams_params*>(params);
      return execs_.changed(p.hGraphExec, p.hNode, name,
                            [&](CUgraphNode n) { return driver_.cuGraphMemcpyNodeSetParams(n, p.copyParams); });
    }
    case CallClass::graph_set_memset: {
      const auto& p = *static_cast<const cuGraphExecMemsetNodeSetParams_params*>(params);
      return execs_.changed(p.hGraphExec, p.hNode, name,
                            [&](CUgraphNode n) { return driver_.cuGraphMemsetNodeSetParams(n, p.memsetParams); });
    }
    case CallClass::graph_set_node: {
      const auto& p = *static_cast<const cuGraphExecNodeSetParams_params*>(params);
      if (driver_.cuGraphNodeSetParams == nullptr) return execs_.refuse(p.hGraphExec, "this driver has no cuGraphNodeSetParams");
      return execs_.changed(p.hGraphExec, p.hNode, name, [&](CUgraphNode n) { return driver_.cuGraphNodeSetParams(n, p.nodeParams); });
    }
    case CallClass::graph_set_enabled: {
      const auto& p = *static_cast<const cuGraphNodeSetEnabled_params*>(params);
      return execs_.switched(p.hGraphExec, p.hNode, p.isEnabled != 0);
    }
    case CallClass::graph_update: {  // both forms begin like this one
      const auto& p = *static_cast<const cuGraphExecUpdate_v2_params*>(params);
      return over ? void() : execs_.updated(p.hGraphExec, p.hGraph);
    }
    default:
      return execs_.refuse(*static_cast<const CUgraphExec*>(params), fmt::format("{} changed it, which is not followed", name));
  }
}

}  // namespace xtrace::inject
