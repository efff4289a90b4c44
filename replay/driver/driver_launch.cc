// Launching of the driver backend.
#include <chrono>

#include "replay/driver/driver_backend_impl.h"

namespace xtrace::replay {

namespace {

// Failures of cuLaunchKernelEx itself: nothing was launched, the context lives.
bool rejected_launch(CUresult r) {
  switch (r) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED:
      return true;
    default:
      return false;
  }
}

}  // namespace

CUresult DriverBackend::queue_launch(LoadedModule& m) {
  const CUlaunchConfig config = launch_.config(stream_.handle());
  size_t size = launch_.record.param_block.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, launch_.record.param_block.data(),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  const CUresult r = api_.LaunchKernelEx(&config, m.function, nullptr, size > 0 ? extra : nullptr);
  m.launched |= r == CUDA_SUCCESS;
  return r;
}

Status DriverBackend::queue_restore(const LoadedModule& m, RestoreScope scope) {
  XT_TRY_STATUS(scope == RestoreScope::all ? memory_.restore_all() : memory_.restore_written());
  for (const BoundVariable& v : m.variables)
    if (scope == RestoreScope::all || written_[v.region])
      XT_CU(api_, MemcpyDtoDAsync, v.live, variables_pristine_ + variable_offset_[v.region], v.size,
            stream_.handle());
  return {};
}

Status DriverBackend::restore(ModuleHandle handle, RestoreScope scope) {
  XT_TRY_STATUS(usable(true));
  XT_TRY(LoadedModule * m, module(handle));
  return watch(queue_restore(*m, scope));
}

// The first launch of a module is not gated: the driver may have to grow local memory for it, which waits for
// the whole device, and that would wait for the gate. Its time therefore contains launch latency.
Result<RunOutcome> DriverBackend::run(ModuleHandle handle) {
  XT_TRY_STATUS(usable(true));
  XT_TRY(LoadedModule * m, module(handle));
  XT_TRY_STATUS(drain("restoring memory"));
  RunOutcome outcome;
  CUresult launched = CUDA_SUCCESS;
  {
    if (m->launched) XT_TRY_STATUS(watch(stream_.close_gate()));
    GateGuard gate(stream_);
    XT_TRY_STATUS(watch(stream_.record(0)));
    launched = queue_launch(*m);
    if (launched == CUDA_SUCCESS) XT_TRY_STATUS(watch(stream_.record(1)));
  }
  if (launched != CUDA_SUCCESS) {
    outcome.failure = fmt::format("cuLaunchKernelEx failed: {}", api_.text(launched));
    if (!rejected_launch(launched))
      die(device("{} of kernel {}", outcome.failure, launch_.record.kernel).value());
    return outcome;
  }
  Result<LaunchStream::Wait> w = stream_.wait_event(1, options_.watchdog_seconds);
  if (!w) {
    outcome.failure = w.error().message;
    die(device("kernel {} failed: {}", launch_.record.kernel, w.error().message).value());
    return outcome;
  }
  if (*w == LaunchStream::Wait::timed_out) {
    outcome.failure = fmt::format("watchdog: no end after {} s", options_.watchdog_seconds);
    die(with_hint(device("kernel {} was given up by the watchdog after {} s", launch_.record.kernel,
                         options_.watchdog_seconds),
                  "the kernel may still run; start the replay in a new process")
            .value());
    return outcome;
  }
  XT_TRY(outcome.microseconds, watch(stream_.microseconds_between(0, 1)));
  outcome.completed = true;
  return outcome;
}

// Copies inside device memory run on the SMs. They start at once, the launch comes when `amount` times some 10 us of them are
// queued or under way.
Result<RunOutcome> DriverBackend::run_disturbed(ModuleHandle handle, uint32_t amount) {
  constexpr uint64_t half = 16ull << 20;
  XT_TRY_STATUS(usable(true));
  if (beside_ == nullptr)
    XT_TRY_STATUS(watch(api_.check(api_.StreamCreate(&beside_, CU_STREAM_NON_BLOCKING), "cuStreamCreate")));
  const Result<DevPtr> room = allocate(2 * half, "work beside a launch");
  if (!room && room.error().kind == ErrorKind::environment) return run(handle);   // no memory for it
  XT_TRY(const DevPtr buffer, room);
  for (uint32_t k = 0; k < amount; ++k)
    XT_TRY_STATUS(watch(api_.check(api_.MemcpyDtoDAsync(buffer.value + half * (k % 2), buffer.value + half * ((k + 1) % 2),
                                                        half, beside_),
                                   "cuMemcpyDtoDAsync")));
  XT_TRY(RunOutcome outcome, run(handle));
  if (!outcome.completed) return outcome;   // the backend may be dead
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    const CUresult now = api_.StreamQuery(beside_);
    if (now == CUDA_SUCCESS) break;
    if (now != CUDA_ERROR_NOT_READY) XT_TRY_STATUS(watch(api_.check(now, "cuStreamQuery")));
    if (std::chrono::steady_clock::now() - start > std::chrono::duration<double>(options_.watchdog_seconds)) {
      die(device("watchdog: copies beside a launch did not end after {} s", options_.watchdog_seconds).value());
      return tl::make_unexpected(*dead_);
    }
  }
  XT_TRY_STATUS(release(buffer));
  return outcome;
}

}  // namespace xtrace::replay
