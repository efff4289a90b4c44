// Turns callbacks into a bundle. A recorder is made once in the process that claimed the session, and never
// destroyed: callbacks can come until the very end of the process.
//
// Locks, in the order in which they may be taken: gate (launches and snapshots), then state_ (maps; never
// held across a driver call), then bundle_ (records). Callbacks of CUPTI can come with locks of the driver
// held; they take state_ only for table work.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>

#include "capture/bundle/bundle_writer.h"
#include "capture/bundle/record_settings.h"
#include "capture/inject/allocations.h"
#include "capture/inject/cubin_index.h"
#include "capture/inject/cupti_api.h"
#include "capture/inject/device_reader.h"
#include "capture/inject/drainer.h"
#include "capture/inject/driver_api.h"
#include "capture/inject/driver_calls.h"
#include "capture/inject/gate.h"
#include "capture/inject/graph_execs.h"
#include "capture/inject/graph_silencer.h"
#include "capture/inject/kernel_handle.h"
#include "capture/inject/launch_call.h"
#include "capture/inject/messages.h"
#include "capture/inject/selection.h"
#include "capture/inject/snapshot.h"
#include "capture/inject/thread_state.h"

namespace xtrace::inject {

class Recorder {
 public:
  Recorder(bundle::RecordSettings settings, LaunchSelector selector, const DriverApi& driver,
           const CuptiApi& cupti);

  // Subscribes to CUPTI and enables the callbacks of driver_calls.h. `callback` gets `user`.
  Status attach(CUpti_CallbackFunc callback, void* user);

  void on_driver(uint32_t cbid, const CUpti_CallbackData& data);
  void on_resource(uint32_t cbid, const CUpti_ResourceData& data);

  // Stops recording for good; the application goes on. The first reason is reported.
  void stop(const Error& why) noexcept;
  // At the end of the process: completes the bundle.
  void finish() noexcept;

  MessageFile& messages() { return messages_; }

 private:
  // recorder.cc: calls and what is known from them
  void enter(ThreadState& thread, uint32_t cbid, CallClass cls, const CUpti_CallbackData& data);
  void exit(ThreadState& thread, uint32_t cbid, const CUpti_CallbackData& data);
  void note_result(Frame& frame, const CUpti_CallbackData& data);
  void note_allocation(bundle::RegionKind kind, uint64_t begin, uint64_t size,
                       const CUpti_CallbackData& data);
  void note_handles(const Frame& frame, const void* params);
  void warn(const std::string& text);
  void complete(bool quiet, bool was_stopped);

  // recorder_launch.cc: launches
  void enter_launch(ThreadState& thread, Frame& frame, const CUpti_CallbackData& data);
  Status ensure_bundle(CUcontext context);
  Status begin(Frame& frame, PendingLaunch& pending, const CUpti_CallbackData& data);
  // What the null stream stands for in this call.
  CUstream stream_of(CUstream given, uint32_t cbid) const;
  // Whether a launch into this stream becomes a node of a graph instead of running; counts it.
  bool captured(CUstream stream);
  struct Where {
    CUcontext context = nullptr;
    int device = -1;
  };
  // What has to hold before anything is recorded: a context of the bundle's device, no capture, no other thread at work. The gate
  // is held when this succeeded.
  Result<Where> admit(CUstream stream);
  Status refuse_capture(CUstream stream);
  // Everything between the decoded call and the launch: its kernel, code, parameters, and the memory before it.
  Status prepare(Frame& frame, PendingLaunch& pending, const char* symbol);
  Status read_parameters(PendingLaunch& pending);
  Status choose_cubin(Frame& frame, PendingLaunch& pending);
  Result<std::vector<KnownRegion>> variables_of(const PendingLaunch& pending);
  Status drain(CUcontext context, CUresult* failure);
  Status end(Frame& frame, PendingLaunch& pending, CUresult launched);
  void settle(PendingLaunch& pending, const Status& status);
  void add_record(const bundle::LaunchRecord& record);
  // The bundle can take no more: its last record says so, if even that fits, and recording stops.
  void give_up(const bundle::LaunchRecord& record, const Error& why);

  // recorder_graph.cc: graphs
  void enter_graph_launch(ThreadState& thread, Frame& frame, const CUpti_CallbackData& data);
  void exit_graph_launch(PendingGraph& graph);
  void skip_unread_graph(const CUpti_CallbackData& data, const std::string& why);
  // Runs the nodes up to the last that is recorded. What could not be recorded has its reason when this returns.
  Status run_graph(Frame& frame, PendingGraph& graph);
  CUresult record_node(Frame& frame, PendingGraph& graph, size_t node, uint64_t ordinal);
  // The nodes of an executable graph are not what the program takes them for: recording stops, and says so. Not where a kernel
  // broke the context, after which nothing runs.
  void graph_spoiled(const PendingGraph& graph, const std::string& why);
  void refuse_nodes(const PendingGraph& graph, size_t from, const std::string& why);
  void note_graph_call(const Frame& frame, const CUpti_CallbackData& data);

  bundle::RecordSettings settings_;
  const DriverApi driver_;
  const CuptiApi cupti_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  const int pid_;
  std::vector<CallClass> classes_;        // by cbid
  std::vector<bool> per_thread_default_;  // by cbid: null stream means the thread's own
  ThreadStates threads_;
  MessageFile messages_;
  std::atomic<bool> stopped_{false};

  Gate gate_;
  Drainer drainer_;
  DeviceReader reader_;  // under the exclusive side of the gate
  GraphExecs execs_;
  GraphSilencer silencer_;  // under the exclusive side of the gate

  std::mutex state_;
  LaunchSelector selector_;
  AllocationMap allocations_;
  CubinIndex cubins_;
  std::multiset<uint64_t> capturing_;     // streams
  std::vector<CUcontext> lost_contexts_;  // destroyed; the reader has not heard yet
  uint64_t seen_ = 0, captured_ = 0, unread_graphs_ = 0;
  std::string unread_graph_;  // why the first of them was not read
  int32_t graph_launches_ = 0;
  std::vector<std::string> warnings_;
  std::unordered_set<std::string> warned_;

  std::mutex bundle_;
  std::unique_ptr<bundle::BundleWriter> writer_;
  std::atomic<bool> writer_made_{false};
  bool finished_ = false;
  int device_ = -1;
  uint64_t recorded_ = 0, skipped_ = 0;
  double seconds_ = 0;
};

}  // namespace xtrace::inject
