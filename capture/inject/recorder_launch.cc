#include <algorithm>

#include "capture/bundle/signals_blocked.h"
#include "capture/inject/cubin_facts.h"
#include "capture/inject/environment.h"
#include "capture/inject/param_block.h"
#include "capture/inject/pending_launch.h"
#include "capture/inject/recorder.h"
#include "capture/inject/relaxed_capture.h"

namespace xtrace::inject {
namespace {

// Why launches of this class are refused; empty when they are not.
std::string_view refusal(CallClass cls) {
  switch (cls) {
    case CallClass::launch_multi_device:
      return "multi-device launch: cuLaunchCooperativeKernelMultiDevice is not recorded";
    case CallClass::launch_legacy:
      return "legacy launch: cuLaunch and cuLaunchGrid are not recorded";
    case CallClass::launch_unknown:
      return "unknown launch call: this driver is newer than xtrace";
    default:
      return {};
  }
}

// Errors that end the recording, not only this launch.
bool concerns_bundle(const Error& e) {
  return e.kind == ErrorKind::environment || e.kind == ErrorKind::internal || e.kind == ErrorKind::bad_input;
}

tl::unexpected<Error> in_class(std::string_view reason_class, const Error& e) {
  return unsupported("{}: {}", reason_class, e.message);
}

bool same_layout(const std::vector<bundle::Param>& a, const std::vector<bundle::Param>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](auto& x, auto& y) { return x.offset == y.offset && x.size == y.size; });
}

}  // namespace

void delete_pending(PendingLaunch* p) noexcept { delete p; }

void Recorder::enter_launch(ThreadState& thread, Frame& frame, const CUpti_CallbackData& data) {
  const Guard guard(thread);
  const std::string_view refused = refusal(frame.cls);
  if (refused.empty() && captured(stream_of(decode_launch(frame.cls, data.functionParams).stream, frame.cbid))) return;
  std::string symbol = data.symbolName != nullptr ? data.symbolName : "";
  bool want_name = false;
  {
    const std::lock_guard lock(state_);
    want_name = symbol.empty() && refused.empty() && selector_.has_pattern();
  }
  if (want_name)
    if (auto handle =
            resolve_kernel(driver_, decode_launch(frame.cls, data.functionParams).function, nullptr))
      symbol = handle->name;

  bundle::LaunchRecord record;
  {
    const std::lock_guard lock(state_);
    record.ordinal = seen_++;
    const auto answer = refused.empty() ? selector_.next(symbol) : selector_.next_unnamed();
    if (answer != LaunchSelector::Answer::take && writer_made_) return;
    if (answer != LaunchSelector::Answer::take) record.status = bundle::LaunchStatus::skipped;
  }
  if (const Status s = ensure_bundle(data.context); !s) return stop(s.error());
  if (record.status == bundle::LaunchStatus::skipped) return;  // not asked for

  record.api = data.functionName != nullptr ? data.functionName : "";
  record.kernel = symbol;
  if (!refused.empty()) {
    record.status = bundle::LaunchStatus::skipped;
    record.skip_reason = refused;
    return add_record(record);
  }
  frame.launch.reset(new PendingLaunch(gate_));
  PendingLaunch& pending = *frame.launch;
  pending.record = std::move(record);
  const Status s = begin(frame, pending, data);
  if (s) return;
  settle(pending, s);
  frame.launch.reset();
}

Status Recorder::ensure_bundle(CUcontext context) {
  const std::lock_guard lock(bundle_);
  if (writer_ != nullptr) return {};
  if (context == nullptr) return {};  // the launch will fail by itself
  CUdevice dev = 0;
  if (const CUresult r = driver_.cuCtxGetDevice(&dev); r != CUDA_SUCCESS)
    return environment("the device of the first launch could not be had: {}", driver_.name_of(r));
  XT_TRY(const bundle::Environment env, query_environment(driver_, dev));
  bundle::WriterOptions options;
  options.zstd_level = static_cast<int>(settings_.zstd_level);
  options.overwrite = settings_.overwrite != 0;
  const bundle::SignalsBlocked blocked;
  XT_TRY(writer_, bundle::BundleWriter::create(settings_.output, env, options));
  device_ = dev;
  writer_made_ = true;
  return {};
}

CUstream Recorder::stream_of(CUstream given, uint32_t cbid) const {
  if (given != nullptr) return given;
  return per_thread_default_[cbid] ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

bool Recorder::captured(CUstream stream) {
  {
    const std::lock_guard lock(state_);
    if (capturing_.empty()) return false;
  }
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver_.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return false;
  const std::lock_guard lock(state_);
  ++captured_;
  return true;
}

Status Recorder::refuse_capture(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // Asked of the legacy stream while another one is captured, the driver answers with an error.
  const CUresult r = driver_.cuStreamIsCapturing(stream, &status);
  if (r == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
    return unsupported("stream capture: the launch is being captured into a graph and does not run now");
  const std::lock_guard lock(state_);
  if (r == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || !capturing_.empty())
    return unsupported(
        "stream capture: another stream is being captured, and waiting for the device would break that");
  if (broken_for_good(r)) return unsupported("context: broken before the launch: {}", driver_.name_of(r));
  if (r != CUDA_SUCCESS)
    return unsupported("stream: whether it is being captured could not be had: {}", driver_.name_of(r));
  return {};
}

Status Recorder::drain(CUcontext context, CUresult* failure) {
  const Drainer::Outcome o = drainer_.drain(context, std::chrono::milliseconds(settings_.drain_timeout_ms));
  if (!o.idle) return unsupported("busy device: {}", o.why);
  *failure = o.result;
  return {};
}

Status Recorder::read_parameters(PendingLaunch& pending) {
  std::vector<bundle::Param> layout = pending.handle.layout;
  if (!pending.handle.layout_known) {
    if (!pending.cubin)
      return unsupported(
          "parameters: the driver does not tell their layout and no cubin with the kernel was seen");
    layout = pending.cubin->facts.layout;
  }
  auto block = [&]() -> Result<ParamBlock> {
    if (pending.call.kernel_params == nullptr)
      if (const auto buffer = param_buffer(pending.call.extra))
        return from_buffer(std::move(layout), buffer->data, buffer->size);
    return from_pointers(std::move(layout), pending.call.kernel_params);
  }();
  if (!block) return in_class("parameters", block.error());
  pending.record.params = std::move(block->params);
  pending.record.param_block = std::move(block->bytes);
  return {};
}

// Leaves pending.cubin empty when the cubin may still come: lazy loading can load it inside the launch
// itself.
Status Recorder::choose_cubin(Frame& frame, PendingLaunch& pending) {
  const std::vector<uint64_t> handles = pending.handle.handles();
  ObservedFunction observed = observed_function(pending.record.function);
  std::vector<std::string> names;
  {
    const std::lock_guard lock(state_);
    for (const uint64_t handle : handles)
      for (const Hash128& cubin : frame.loaded) cubins_.associate(handle, cubin);
    if (!cubins_.defines(pending.handle.name)) return {};
    names = cubins_.telling_names(pending.handle.name, handles, observed);
  }
  for (const std::string& name : names)   // the driver may load a module now, and tell the recorder
    if (has_kernel(driver_, pending.handle, name)) observed.beside.insert(name);
  const std::lock_guard lock(state_);
  auto choice = cubins_.choose(pending.handle.name, handles, observed);
  if (!choice) return in_class("code", choice.error());
  if (pending.handle.layout_known && !choice->facts.layout.empty() &&
      !same_layout(choice->facts.layout, pending.handle.layout))
    return unsupported("code: the cubin found for '{}' takes other parameters than the driver says",
                       pending.handle.name);
  pending.cubin = std::move(*choice);
  return {};
}

Result<std::vector<KnownRegion>> Recorder::variables_of(const PendingLaunch& pending) {
  std::vector<KnownRegion> out;
  if (!pending.cubin) return out;
  auto variables = module_variables(*pending.cubin->bytes);
  if (!variables) return in_class("code", variables.error());
  for (const ModuleVariable& v : *variables) {
    CUdeviceptr address = 0;
    size_t size = 0;
    CUresult r = CUDA_ERROR_NOT_FOUND;
    if (pending.handle.module != nullptr)
      r = driver_.cuModuleGetGlobal(&address, &size, pending.handle.module, v.name.c_str());
    if (r != CUDA_SUCCESS && pending.handle.library != nullptr && driver_.cuLibraryGetGlobal != nullptr)
      r = driver_.cuLibraryGetGlobal(&address, &size, pending.handle.library, v.name.c_str());
    if (r != CUDA_SUCCESS || size == 0) {
      warn(fmt::format(
          "the driver does not know the variable {} of cubin {}: its contents are not recorded ({})", v.name,
          pending.cubin->cubin.hex(), driver_.name_of(r)));
      continue;
    }
    out.push_back({address, size, v.kind, v.name, false});
  }
  return out;
}

Status Recorder::begin(Frame& frame, PendingLaunch& pending, const CUpti_CallbackData& data) {
  const SpentTime spent(pending.seconds);
  pending.take_call(decode_launch(frame.cls, data.functionParams));
  XT_TRY(const Where where, admit(stream_of(pending.call.stream, frame.cbid)));
  pending.holds_gate = true;
  pending.context = where.context;
  pending.device = where.device;
  const RelaxedCapture relaxed(driver_);
  return prepare(frame, pending, data.symbolName);
}

Result<Recorder::Where> Recorder::admit(CUstream stream) {
  Where where;
  if (driver_.cuCtxGetCurrent(&where.context) != CUDA_SUCCESS || where.context == nullptr)
    return unsupported("context: none is current");
  XT_TRY_STATUS(refuse_capture(stream));
  CUdevice dev = -1;
  if (const CUresult r = driver_.cuCtxGetDevice(&dev); r != CUDA_SUCCESS)
    return unsupported("context: its device could not be had: {}", driver_.name_of(r));
  if (dev != device_)
    return unsupported("other device: launched on device {}, this bundle holds launches of device {}", dev,
                       device_);
  where.device = dev;

  const auto timeout = std::chrono::milliseconds(settings_.drain_timeout_ms);
  if (!gate_.acquire(timeout))
    return unsupported("busy device: driver calls of other threads did not end within {} ms",
                       timeout.count());
  if (!stopped_) return where;
  gate_.release();
  return unsupported("stopped: the application is ending");
}

Status Recorder::prepare(Frame& frame, PendingLaunch& pending, const char* symbol) {
  bundle::LaunchRecord& record = pending.record;
  auto handle = resolve_kernel(driver_, pending.call.function, symbol);
  if (!handle) return in_class("function", handle.error());
  pending.handle = std::move(*handle);
  record.kernel = pending.handle.name;
  record.function = function_attributes(driver_, pending.handle);
  if (record.cluster.count() == 0) record.cluster = required_cluster(driver_, pending.handle);
  XT_TRY_STATUS(choose_cubin(frame, pending));
  XT_TRY_STATUS(read_parameters(pending));

  CUresult failure = CUDA_SUCCESS;
  XT_TRY_STATUS(drain(pending.context, &failure));
  if (failure != CUDA_SUCCESS)
    return unsupported("context: broken before the launch: {}", driver_.name_of(failure));

  SnapshotRequest request;
  request.context = pending.context;
  request.device = pending.device;
  request.param_block = record.param_block;
  request.all = settings_.scope == "all";
  request.max_bytes = settings_.max_bytes;
  XT_TRY(request.variables, variables_of(pending));
  {
    const std::lock_guard lock(state_);
    request.allocations = allocations_.all();
    for (const CUcontext lost : std::exchange(lost_contexts_, {})) reader_.forget(lost);
  }
  pending.snapshot =
      std::make_unique<Snapshot>(driver_, reader_, *writer_, [this](const std::string& t) { warn(t); });
  return pending.snapshot->before(request);
}

Status Recorder::end(Frame& frame, PendingLaunch& pending, CUresult launched) {
  const SpentTime spent(pending.seconds);
  const RelaxedCapture relaxed(driver_);
  if (launched != CUDA_SUCCESS) return unsupported("launch failed: {}", driver_.name_of(launched));

  if (!pending.cubin) {
    XT_TRY_STATUS(choose_cubin(frame, pending));
    if (!pending.cubin) return unsupported("code: no cubin that defines '{}' was seen", pending.handle.name);
    XT_TRY(const auto variables, variables_of(pending));
    if (!variables.empty())
      return unsupported(
          "code: its cubin came inside the launch itself, so the {} variables of the module were not read "
          "before it; launch it once more",
          variables.size());
  }
  CUresult failure = CUDA_SUCCESS;
  XT_TRY_STATUS(drain(pending.context, &failure));
  if (failure == CUDA_SUCCESS) {
    XT_TRY_STATUS(pending.snapshot->after());
  } else {
    warn(fmt::format("launch {} ({}) failed on the device: {}; there are no images after it",
                     pending.record.ordinal, pending.record.kernel, driver_.name_of(failure)));
  }
  XT_TRY(pending.record.code, writer_->put_code(*pending.cubin->bytes));
  pending.record.regions = pending.snapshot->regions();
  return {};
}

// Ends a launch one way or the other.
void Recorder::settle(PendingLaunch& pending, const Status& status) {
  pending.open_gate();
  bundle::LaunchRecord& record = pending.record;
  record.snapshot_seconds = pending.seconds;
  if (!status && concerns_bundle(status.error())) {
    const std::lock_guard lock(bundle_);
    return give_up(record, status.error());
  }
  if (!status) {
    record.status = bundle::LaunchStatus::skipped;
    record.skip_reason = status.error().message;
    record.regions.clear();
    record.code = {};
  }
  add_record(record);
}

void Recorder::add_record(const bundle::LaunchRecord& record) {
  const std::lock_guard lock(bundle_);
  if (writer_ == nullptr || finished_) return;
  if (const Status s = writer_->add_launch(record); !s) return give_up(record, s.error());
  (record.status == bundle::LaunchStatus::recorded ? recorded_ : skipped_) += 1;
  seconds_ += record.snapshot_seconds;
}

void Recorder::give_up(const bundle::LaunchRecord& record, const Error& why) {
  if (stopped_) return;
  bundle::LaunchRecord last = record;
  last.status = bundle::LaunchStatus::skipped;
  last.skip_reason = fmt::format("{}: {}; nothing was recorded from here on",
                                 why.kind == ErrorKind::internal ? "fault of xtrace" : "bundle", why.message);
  last.regions.clear();
  last.code = {};
  if (writer_ != nullptr && !finished_ && writer_->give_up(last)) ++skipped_;
  stop(why);
}

}  // namespace xtrace::inject
