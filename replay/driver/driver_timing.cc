// Timing of the driver backend: samples of launches in random order, with the SM clock read before and after each.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "replay/driver/driver_backend_impl.h"

namespace xtrace::replay {

namespace {

// Times of events are steps of a clock: the smallest difference among intervals between events that follow each other.
double smallest_step(std::vector<double> intervals) {
  constexpr double rounding = 0.0009;   // microseconds; event times come as floats of milliseconds
  intervals.push_back(0);
  std::sort(intervals.begin(), intervals.end());
  double step = 0;
  for (size_t i = 1; i < intervals.size(); ++i) {
    const double d = intervals[i] - intervals[i - 1];
    if (d > rounding && (step == 0 || d < step)) step = d;
  }
  return step;
}

}  // namespace

// Memory for the stamps of a round, and twice the L2 to read through it.
Status DriverBackend::open_timing(size_t samples) {
  XT_TRY_STATUS(kernels_.open());
  if (const uint64_t bytes = 2 * samples * sizeof(ClockStamp); bytes > stamps_bytes_) {
    if (stamps_ != 0) XT_TRY_STATUS(pristine_.release(std::exchange(stamps_, 0)));
    XT_TRY(stamps_, pristine_.allocate(bytes, "clocks beside a launch"));
    stamps_bytes_ = bytes;
  }
  if (sweep_ != 0) return {};
  int l2 = 0;
  XT_CU(api_, DeviceGetAttribute, &l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device_);
  sweep_bytes_ = align_up(2 * static_cast<uint64_t>(std::max(l2, 1)), map_granule);
  const Result<CUdeviceptr> room = pristine_.allocate(sweep_bytes_, "emptying the L2");
  if (!room && room.error().kind != ErrorKind::environment) return tl::make_unexpected(room.error());
  if (!room) return {};   // TimingResult::caches says so
  sweep_ = *room;
  XT_CU(api_, MemsetD8Async, sweep_, 0, sweep_bytes_, stream_.handle());
  return {};
}

Result<double> DriverBackend::event_tick() {
  constexpr size_t events = 33;
  if (event_tick_ != 0) return event_tick_;
  for (size_t i = 0; i < events; ++i) XT_TRY_STATUS(stream_.record(i));
  XT_TRY_STATUS(drain("events"));
  std::vector<double> intervals;
  for (size_t i = 0; i + 1 < events; ++i) {
    XT_TRY(const double us, stream_.microseconds_between(i, i + 1));
    intervals.push_back(us);
  }
  return event_tick_ = smallest_step(std::move(intervals));
}

// Sample number i of a round: events 2 i and 2 i + 1 around the launches, stamps of the same numbers around those. Everything
// is queued behind a closed gate, so that the CPU's launch latency is not in it; what the device takes from one launch to the
// next is, for all variants alike. Memory is restored first, and then the L2 is brought to the same state for all: several
// launches are warmed by one more in front of them, a single one finds the L2 without its data.
Status DriverBackend::queue_sample(LoadedModule& m, uint32_t launches, size_t sample) {
  const auto launch = [&](uint32_t n) -> Status {
    for (uint32_t k = 0; k < n; ++k) XT_TRY_STATUS(api_.check(queue_launch(m), "cuLaunchKernelEx"));
    return {};
  };
  const CUdeviceptr stamps = stamps_ + 2 * sample * sizeof(ClockStamp);
  XT_TRY_STATUS(queue_restore(m, RestoreScope::written));
  if (launches == 1 && sweep_ != 0)
    XT_TRY_STATUS(kernels_.sweep(stream_.handle(), sweep_, sweep_bytes_, 4 * info_.sm_count));
  if (m.launched) XT_TRY_STATUS(stream_.close_gate());  // else see run()
  GateGuard gate(stream_);
  if (launches > 1) XT_TRY_STATUS(launch(1));
  XT_TRY_STATUS(kernels_.stamp(stream_.handle(), stamps));
  XT_TRY_STATUS(stream_.record(2 * sample));
  XT_TRY_STATUS(launch(launches));
  XT_TRY_STATUS(stream_.record(2 * sample + 1));
  return kernels_.stamp(stream_.handle(), stamps + sizeof(ClockStamp));
}

Status DriverBackend::queue_samples(const std::vector<LoadedModule*>& modules, uint32_t launches) {
  for (size_t i = 0; i < modules.size(); ++i) XT_TRY_STATUS(queue_sample(*modules[i], launches, i));
  return {};
}

// Waits for the samples one by one, each under the watchdog.
Result<std::vector<TimedSample>> DriverBackend::collect_samples(size_t samples, uint32_t launches) {
  std::vector<TimedSample> all(samples);
  for (size_t i = 0; i < samples; ++i) {
    const double limit = options_.watchdog_seconds * launches;
    XT_TRY(const LaunchStream::Wait w, stream_.wait_event(2 * i + 1, limit));
    if (w == LaunchStream::Wait::timed_out)
      return with_hint(device("watchdog: a timing sample of {} launches of {} did not end after {} s", launches,
                              launch_.record.kernel, limit),
                       "the kernel may still run; start the replay in a new process");
    XT_TRY(const double us, stream_.microseconds_between(2 * i, 2 * i + 1));
    all[i].microseconds = us / launches;
  }
  std::vector<ClockStamp> stamps(2 * samples);
  XT_CU(api_, MemcpyDtoHAsync, stamps.data(), stamps_, stamps.size() * sizeof(ClockStamp), stream_.handle());
  XT_TRY_STATUS(drain("reading clocks"));
  for (size_t i = 0; i < samples; ++i) {
    const ClockStamp &a = stamps[2 * i], &b = stamps[2 * i + 1];
    if (a.sm != b.sm || b.nanoseconds <= a.nanoseconds || b.clock <= a.clock) continue;
    all[i].cycles = all[i].microseconds * 1000 * static_cast<double>(b.clock - a.clock) /
                    static_cast<double>(b.nanoseconds - a.nanoseconds);
  }
  return all;
}

// In the order of `modules`.
Result<std::vector<TimedSample>> DriverBackend::take_samples(const std::vector<LoadedModule*>& modules, uint32_t launches) {
  if (Status queued = queue_samples(modules, launches); !queued) {
    // A rejected launch leaves the context alive; what was queued before it has to end all the same.
    Error error = std::move(queued).error().in(fmt::format("timing kernel {}", launch_.record.kernel));
    XT_TRY_STATUS(drain("a broken-off timing round"));
    return watch(Result<std::vector<TimedSample>>(tl::make_unexpected(std::move(error))));
  }
  Result<std::vector<TimedSample>> samples = collect_samples(modules.size(), launches);
  if (samples) return samples;
  die(std::move(samples).error().in("timing"));
  return tl::make_unexpected(*dead_);
}

Result<TimingResult> DriverBackend::time(const TimingRequest& request) {
  XT_TRY_STATUS(usable(true));
  const uint32_t launches = request.launches_per_sample;
  if (request.variants.empty() || request.pairs == 0 || launches == 0 || launches > most_launches_per_sample)
    return internal("timing asked for {} pairs of {} variants, {} launches a sample", request.pairs,
                    request.variants.size(), launches);
  const size_t n = request.variants.size();
  XT_TRY_IN(LoadedModule * clean, module(request.clean), "timing the clean kernel");
  std::vector<LoadedModule*> variants;
  for (ModuleHandle v : request.variants) {
    XT_TRY_IN(LoadedModule * m, module(v), "timing a variant");
    variants.push_back(m);
    XT_TRY_STATUS(watch(queue_restore(*m, RestoreScope::all)));
  }
  XT_TRY_STATUS(watch(queue_restore(*clean, RestoreScope::all)));
  XT_TRY_STATUS(watch(open_timing(2 * n)));
  XT_TRY_STATUS(drain("restoring memory"));

  TimingResult result;
  XT_TRY(result.tick_microseconds, watch(event_tick()));
  result.caches = launches > 1 ? "warmed by one launch"
                  : sweep_ != 0 ? fmt::format("emptied by reading {} MiB", sweep_bytes_ >> 20)
                                : "as restoring left it: no memory to empty it with";
  result.pairs.resize(n);
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(request.seed);
  std::vector<bool> clean_first(n);
  const auto start = std::chrono::steady_clock::now();
  // One sample of each warms up (clocks, instruction caches, first-touch costs) and is dropped.
  std::vector<LoadedModule*> round = variants;
  round.push_back(clean);
  XT_TRY_STATUS(take_samples(round, launches));
  for (uint32_t r = 0; r < request.pairs; ++r) {
    std::shuffle(order.begin(), order.end(), random);
    // Of two pairs of a variant one begins with the clean code and one with the variant, at random which.
    for (size_t v = 0; v < n; ++v) clean_first[v] = r % 2 == 0 ? random() % 2 == 0 : !clean_first[v];
    round.clear();
    for (size_t v : order) {
      round.push_back(clean_first[v] ? clean : variants[v]);
      round.push_back(clean_first[v] ? variants[v] : clean);
    }
    XT_TRY(const std::vector<TimedSample> samples, take_samples(round, launches));
    for (size_t k = 0; k < n; ++k) {
      const size_t v = order[k];
      const TimedSample &first = samples[2 * k], &second = samples[2 * k + 1];
      result.pairs[v].push_back(clean_first[v] ? TimedPair{first, second, true} : TimedPair{second, first, false});
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (passed.count() > request.time_limit_seconds) break;
  }
  return result;
}

// One CTA an SM, as no two fit beside each other; all SMs at the same time, so each is read at the same ticks.
Result<std::vector<ClockReading>> DriverBackend::read_clocks() {
  constexpr uint32_t rounds = 8, attempts = 8;
  XT_TRY_STATUS(usable(true));
  XT_TRY_STATUS(watch(kernels_.open()));
  int shared = 0;
  XT_TRY_STATUS(watch(api_.check(
      api_.DeviceGetAttribute(&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device_), "cuDeviceGetAttribute")));
  std::vector<ClockStamp> stamps(size_t{info_.sm_count} * rounds);
  const uint64_t bytes = stamps.size() * sizeof(ClockStamp);
  XT_TRY(const CUdeviceptr buffer, watch(pristine_.allocate(bytes + sizeof(uint32_t), "clocks of the SMs")));
  // One CTA an SM, as no more fit and all wait for the last to begin; but others may hold an SM meanwhile. [Without the wait an SM had no
  // readings in two of four runs on an H200.]
  for (uint32_t k = 0; k < attempts; ++k) {
    Status read = api_.check(api_.MemsetD8Async(buffer + bytes, 0, sizeof(uint32_t), stream_.handle()), "cuMemsetD8Async");
    if (read) read = kernels_.clocks(stream_.handle(), buffer, rounds, info_.sm_count, static_cast<uint32_t>(shared));
    if (read)
      read = api_.check(api_.MemcpyDtoHAsync(stamps.data(), buffer, bytes, stream_.handle()), "cuMemcpyDtoHAsync");
    XT_TRY_STATUS(drain("reading clocks"));
    XT_TRY_STATUS(watch(std::move(read)));
    std::set<uint64_t> seen;
    for (const ClockStamp& s : stamps) seen.insert(s.sm);
    if (seen.size() == info_.sm_count) break;
  }
  XT_TRY_STATUS(watch(pristine_.release(buffer)));
  std::vector<ClockReading> readings;
  for (const ClockStamp& s : stamps) readings.push_back({static_cast<uint32_t>(s.sm), s.clock, s.nanoseconds});
  return readings;
}

}  // namespace xtrace::replay
