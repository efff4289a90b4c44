#include "capture/inject/recorder.h"

#include <unistd.h>

#include <algorithm>

#include "capture/inject/cubin_facts.h"
#include "capture/inject/environment.h"
#include "capture/inject/pending_launch.h"

namespace xtrace::inject {
namespace {

constexpr size_t most_warnings = 200;

template <typename T>
uint64_t number(T handle) {
  return reinterpret_cast<uint64_t>(handle);
}

// The first parameter of many calls.
template <typename T>
T first(const void* params) {
  return *static_cast<const T*>(params);
}

}  // namespace

Recorder::Recorder(bundle::RecordSettings settings, LaunchSelector selector, const DriverApi& driver,
                   const CuptiApi& cupti)
    : settings_(std::move(settings)),
      driver_(driver),
      cupti_(cupti),
      pid_(::getpid()),
      messages_(settings_.session),
      drainer_(driver_, [this] { ++threads_.here().guard; }),
      reader_(driver_),
      execs_(driver_),
      silencer_(driver_),
      selector_(std::move(selector)),
      cubins_(cubin_reader()) {}

Status Recorder::attach(CUpti_CallbackFunc callback, void* user) {
  if (!threads_.ok()) return environment("no pthread key is left");
  classes_.assign(CUPTI_DRIVER_TRACE_CBID_SIZE, CallClass::ignored);
  per_thread_default_.assign(classes_.size(), false);
  for (const DriverCall& call : driver_calls()) {
    classes_[call.cbid] = call.cls;
    per_thread_default_[call.cbid] = call.name.ends_with("_ptsz");
  }
  std::vector<bool> listed(classes_.size(), false);
  for (const DriverCall& call : driver_calls()) listed[call.cbid] = true;

  XT_TRY_STATUS(cupti_.attach(&subscriber_, callback, user));
  // A CUPTI newer than the headers knows names that the table does not.
  for (uint32_t cbid = 1; cbid < classes_.size() + 512; ++cbid) {
    const char* name = nullptr;
    if (cbid < listed.size() && listed[cbid]) continue;
    if (cupti_.get_callback_name(CUPTI_CB_DOMAIN_DRIVER_API, cbid, &name) != CUPTI_SUCCESS || name == nullptr)
      continue;
    const CallClass cls = class_of_unlisted(name);
    if (must_be_listed(name)) warn(fmt::format("this CUPTI has {}, which xtrace was not built for", name));
    if (cls == CallClass::ignored) continue;
    if (cbid >= classes_.size()) {
      classes_.resize(cbid + 1, CallClass::ignored);
      per_thread_default_.resize(cbid + 1, false);
    }
    classes_[cbid] = cls;
  }
  for (uint32_t cbid = 0; cbid < classes_.size(); ++cbid) {
    if (classes_[cbid] == CallClass::ignored) continue;
    const CUptiResult r = cupti_.enable_callback(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, cbid);
    if (r != CUPTI_SUCCESS && is_launch(classes_[cbid]))
      return environment("CUPTI refuses to watch driver call {}: {}", cbid, cupti_.name_of(r));
    if (r != CUPTI_SUCCESS)
      warn(fmt::format("CUPTI refuses to watch driver call {}: {}", cbid, cupti_.name_of(r)));
  }
  for (const uint32_t cbid : {CUPTI_CBID_RESOURCE_MODULE_LOADED, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
                              CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING}) {
    const CUptiResult r = cupti_.enable_callback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, cbid);
    if (r != CUPTI_SUCCESS)
      return environment("CUPTI refuses to watch resource event {}: {}", cbid, cupti_.name_of(r));
  }
  return {};
}

void Recorder::warn(const std::string& text) {
  const std::lock_guard lock(state_);
  if (warnings_.size() >= most_warnings || !warned_.insert(text).second) return;
  warnings_.push_back(text);
  messages_.add(bundle::message_warning, text);
}

void Recorder::stop(const Error& why) noexcept {
  if (stopped_.exchange(true)) return;
  try {
    messages_.add(bundle::message_fatal, why.to_string());
  } catch (...) {
  }
}

void Recorder::on_driver(uint32_t cbid, const CUpti_CallbackData& data) {
  if (::getpid() != pid_ || cbid >= classes_.size()) return;  // a forked child has no CUDA and no bundle
  ThreadState& thread = threads_.here();
  if (thread.guard != 0) return;
  if (data.callbackSite == CUPTI_API_ENTER)
    enter(thread, cbid, classes_[cbid], data);
  else
    exit(thread, cbid, data);
}

void Recorder::enter(ThreadState& thread, uint32_t cbid, CallClass cls, const CUpti_CallbackData& data) {
  if (stopped_ || cls == CallClass::ignored) return;
  // A call that the driver makes inside another one is part of that one.
  bool nested = false;
  for (const Frame& f : thread.frames) nested = nested || f.in_gate || f.records();

  thread.frames.emplace_back();
  Frame& frame = thread.frames.back();
  frame.cbid = cbid;
  frame.correlation = data.correlationId;
  frame.cls = cls;
  if (is_launch(cls) && !nested) {
    if (cls == CallClass::launch_graph)
      enter_graph_launch(thread, frame, data);
    else
      enter_launch(thread, frame, data);
  }
  if (is_gated(cls) && !nested && !frame.records()) {
    gate_.enter();
    frame.in_gate = true;
  }
  // Removed at ENTER: when EXIT comes, another thread may have been given the same address.
  if (cls == CallClass::free || cls == CallClass::unmap) {
    const std::lock_guard lock(state_);
    if (cls == CallClass::free) {
      if (auto a = allocations_.remove(first<CUdeviceptr>(data.functionParams))) frame.removed.push_back(*a);
    } else {
      const auto& p = *static_cast<const cuMemUnmap_params*>(data.functionParams);
      frame.removed = allocations_.remove_range(p.ptr, p.size);
    }
  } else if (cls == CallClass::stream_destroy) {
    const std::lock_guard lock(state_);
    capturing_.erase(number(first<CUstream>(data.functionParams)));
  }
}

void Recorder::exit(ThreadState& thread, uint32_t cbid, const CUpti_CallbackData& data) {
  // The frame of this call; frames above it lost their EXIT.
  size_t at = thread.frames.size();
  while (at != 0) {
    const Frame& f = thread.frames[at - 1];
    if (f.cbid == cbid && f.correlation == data.correlationId) break;
    --at;
  }
  if (at == 0) return;
  while (thread.frames.size() > at) {
    if (thread.frames.back().in_gate) gate_.leave();
    thread.frames.pop_back();
  }
  Frame frame = std::move(thread.frames.back());
  thread.frames.pop_back();
  if (frame.in_gate) gate_.leave();
  if (frame.graph != nullptr) {
    const Guard guard(thread);
    exit_graph_launch(*frame.graph);
  } else if (frame.launch != nullptr) {
    const Guard guard(thread);
    PendingLaunch& pending = *frame.launch;
    settle(pending, stopped_ ? Status(unsupported("stopped: recording ended before the launch did"))
                             : end(frame, pending, data.functionReturnValue != nullptr ? first<CUresult>(data.functionReturnValue)
                                                                                     : CUDA_ERROR_UNKNOWN));
  } else if (!stopped_) {
    const Guard guard(thread);  // what is made of an executable graph is asked of the driver
    note_result(frame, data);
  }
}

void Recorder::note_result(Frame& frame, const CUpti_CallbackData& data) {
  const bool ok =
      data.functionReturnValue != nullptr && first<CUresult>(data.functionReturnValue) == CUDA_SUCCESS;
  const void* params = data.functionParams;
  if (!ok) {
    const std::lock_guard lock(state_);
    for (const Allocation& a : frame.removed) allocations_.add(a);
    if (frame.cls == CallClass::capture_end) {  // an invalidated capture ends all the same
      if (auto it = capturing_.find(number(first<CUstream>(params))); it != capturing_.end())
        capturing_.erase(it);
    }
    return;
  }
  using bundle::RegionKind;
  switch (frame.cls) {
    case CallClass::alloc: {
      const auto& p = *static_cast<const cuMemAlloc_v2_params*>(params);
      return note_allocation(RegionKind::device, *p.dptr, p.bytesize, data);
    }
    case CallClass::alloc_pitch: {
      const auto& p = *static_cast<const cuMemAllocPitch_v2_params*>(params);
      return note_allocation(RegionKind::device, *p.dptr, *p.pPitch * p.Height, data);
    }
    case CallClass::alloc_managed: {
      const auto& p = *static_cast<const cuMemAllocManaged_params*>(params);
      return note_allocation(RegionKind::managed, *p.dptr, p.bytesize, data);
    }
    case CallClass::alloc_async: {  // both calls begin with address and size
      const auto& p = *static_cast<const cuMemAllocAsync_params*>(params);
      return note_allocation(RegionKind::async_pool, *p.dptr, p.bytesize, data);
    }
    case CallClass::map: {
      const auto& p = *static_cast<const cuMemMap_params*>(params);
      return note_allocation(RegionKind::vmm, p.ptr, p.size, data);
    }
    case CallClass::capture_begin: {
      const std::lock_guard lock(state_);
      capturing_.insert(number(first<CUstream>(params)));
      return;
    }
    case CallClass::capture_end: {
      const std::lock_guard lock(state_);
      if (auto it = capturing_.find(number(first<CUstream>(params))); it != capturing_.end())
        capturing_.erase(it);
      return;
    }
    case CallClass::drop_handles: {
      const std::lock_guard lock(state_);
      cubins_.forget_handles();
      return;
    }
    default:
      if (is_graph_call(frame.cls)) return note_graph_call(frame, data);
      if (!frame.loaded.empty()) note_handles(frame, params);
  }
}

void Recorder::note_allocation(bundle::RegionKind kind, uint64_t begin, uint64_t size,
                               const CUpti_CallbackData& data) {
  const uint64_t context = kind == bundle::RegionKind::vmm ? 0 : number(data.context);
  const std::lock_guard lock(state_);
  allocations_.add({begin, size, kind, context});
}

// Everything that the call names belongs to the cubins loaded inside it.
void Recorder::note_handles(const Frame& frame, const void* params) {
  std::vector<uint64_t> handles;
  switch (frame.cls) {
    case CallClass::make_module:
    case CallClass::make_library:
      handles = {*first<uint64_t*>(params)};
      break;
    case CallClass::make_function:
    case CallClass::make_kernel:
    case CallClass::library_module:
    case CallClass::kernel_function: {  // result pointer, then the handle it is made from
      struct Two {
        uint64_t* made;
        uint64_t from;
      };
      const auto& p = *static_cast<const Two*>(params);
      handles = {*p.made, p.from};
      break;
    }
    case CallClass::load_function:
      handles = {first<uint64_t>(params)};
      break;
    case CallClass::launch_kernel:
    case CallClass::launch_kernel_ex:
    case CallClass::launch_cooperative:
      handles = {number(decode_launch(frame.cls, params).function)};
      break;
    default:
      return;
  }
  const std::lock_guard lock(state_);
  for (const uint64_t handle : handles)
    for (const Hash128& cubin : frame.loaded) cubins_.associate(handle, cubin);
}

void Recorder::on_resource(uint32_t cbid, const CUpti_ResourceData& data) {
  if (::getpid() != pid_ || stopped_) return;
  if (cbid == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) {
    const std::lock_guard lock(state_);
    allocations_.remove_context(number(data.context));
    lost_contexts_.push_back(data.context);
    return;
  }
  const auto* module = static_cast<const CUpti_ModuleResourceData*>(data.resourceDescriptor);
  if (module == nullptr) return;
  if (cbid == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING) {
    const std::lock_guard lock(state_);
    cubins_.unloaded(module->moduleId);
    return;
  }
  if (cbid != CUPTI_CBID_RESOURCE_MODULE_LOADED || module->pCubin == nullptr) return;
  std::string complaint;
  {
    const std::lock_guard lock(state_);
    ThreadState& thread = threads_.here();
    // Lazy loading brings the cubin of the last launch that was asked for inside that launch.
    const bool in_launch = std::any_of(thread.frames.begin(), thread.frames.end(),
                                       [](const Frame& f) { return f.records(); });
    if (selector_.exhausted() && !in_launch) return;
    const auto key = cubins_.loaded(module->moduleId,
                                    {reinterpret_cast<const std::byte*>(module->pCubin), module->cubinSize});
    if (!key) {
      complaint = key.error().to_string();
    } else if (!thread.frames.empty()) {
      thread.frames.back().loaded.push_back(*key);
    }
  }
  if (!complaint.empty()) warn("a loaded cubin could not be read: " + complaint);
}

void Recorder::finish() noexcept {
  try {
    if (::getpid() != pid_) return;
    Guard guard(threads_.here());
    // Waits for a launch that another thread is recording just now. The gate is kept until the
    // bundle is complete.
    const bool quiet = gate_.acquire(std::chrono::milliseconds(settings_.drain_timeout_ms + 5000));
    const bool was_stopped = stopped_.exchange(true);
    complete(quiet, was_stopped);
    if (quiet) gate_.release();
  } catch (...) {
    messages_.add(bundle::message_fatal, "an exception ended the recorder");
  }
}

void Recorder::complete(bool quiet, bool was_stopped) {
  const std::lock_guard bundle_lock(bundle_);
  const std::lock_guard lock(state_);
  if (unread_graphs_ != 0) {
    warnings_.push_back(fmt::format(
        "{} graph launches were not looked into: {}", unread_graphs_, unread_graph_));
    messages_.add(bundle::message_warning, warnings_.back());
  }
  auto stat = [this](const char* name, auto value) {
    messages_.add(bundle::message_stat, fmt::format("{} {}", name, value));
  };
  stat("seen", seen_);
  stat("matched", selector_.matched());
  stat("recorded", recorded_);
  stat("skipped", skipped_);
  stat("captured", captured_);
  stat("seconds", seconds_);
  if (writer_ == nullptr || was_stopped) return;
  if (!quiet) {
    messages_.add(bundle::message_fatal, "the application ended while a launch was being recorded");
    return;
  }
  stat("raw_bytes", writer_->raw_bytes());
  bundle::BundleInfo info;
  info.launches_seen = seen_;
  info.warnings = warnings_;
  finished_ = true;
  if (const Status s = writer_->finish(info); !s) messages_.add(bundle::message_fatal, s.error().to_string());
}

}  // namespace xtrace::inject
