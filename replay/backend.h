// Where a recorded launch runs. The driver backend runs it on the GPU; the CPU interpreter will stand behind the same
// interface. A Backend holds one launch at a time: prepare() it, load code variants, run them, read memory, time them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "capture/bundle/launch_record.h"

namespace xtrace::replay {

// A launch with its bytes at hand.
struct LaunchImage {
  bundle::LaunchRecord record;
  Bytes code;                          // the recorded cubin
  std::vector<Bytes> before, after;    // parallel to record.regions; after may be empty
  std::vector<std::string> notes;      // what is not as it was recorded, for the report; one sentence each
};

struct BackendInfo {
  std::string name;                    // "driver", "interp" or "interp-late"
  std::string device;                  // "NVIDIA H200"
  uint32_t sm = 0, sm_count = 0;
  uint64_t l2_bytes = 0;               // 0: there is none, or it is not known
  std::string driver;                  // "13.0 (580.159.04)"
  bool measures_time = false;
};

using ModuleHandle = uint32_t;

struct Resources {                     // of one loaded variant
  uint32_t registers = 0, local_bytes = 0, static_shared_bytes = 0;
  uint32_t ctas_per_sm = 0;            // occupancy, asked of the driver
  uint32_t active_clusters = 0;        // cluster launches: clusters resident on the whole device; 0 otherwise
};

enum class RestoreScope {
  all,      // every region
  written,  // only regions the clean replays were seen to write (timing loops)
};

struct RunOutcome {
  bool completed = false;
  std::string failure;                 // driver error name and text, or "watchdog: no end after 10 s"
  double microseconds = 0;             // by events; 0 when the backend does not measure time
};

// Pairs of samples: the clean code and a variant, one after the other from the same restored memory, in random order, each
// order as often as the other. A sample is one launch, or several behind each other where repeating the launch without
// restoring was shown to give the same output.
struct TimingRequest {
  ModuleHandle clean = 0;
  std::vector<ModuleHandle> variants;
  uint32_t pairs = 8;                  // of each variant; the variants of a round come in random order
  uint32_t launches_per_sample = 1;    // at most `most_launches_per_sample`
  uint64_t seed = 1;
  double time_limit_seconds = 60;      // no round is begun after that; one is always made
};
inline constexpr uint32_t most_launches_per_sample = 32;

// One launch of a sample, on average. `cycles`: of the SM clock; 0 when it was not read.
struct TimedSample {
  double microseconds = 0, cycles = 0;
  bool operator==(const TimedSample&) const = default;
};
struct TimedPair {
  TimedSample clean, variant;
  bool clean_first = true;
  bool operator==(const TimedPair&) const = default;
};
struct TimingResult {
  std::vector<std::vector<TimedPair>> pairs;  // [variant][round]
  double tick_microseconds = 0;               // smallest step that event times were seen to take
  std::string caches;                         // what a sample finds in the L2, a phrase: "flushed by reading 120 MB"
};

// The SM clock and the common clock (GLOBALTIMER, ns) of one SM, read at a tick of the common one.
struct ClockReading {
  uint32_t sm = 0;
  uint64_t clock = 0, nanoseconds = 0;
};

// In the message of the error when a region's recorded address is taken: another process may find it free.
inline constexpr std::string_view not_placed = "can not be placed at its recorded address";

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;

  // Maps every region at its recorded address and uploads `before`. Whatever can not be placed is an unsupported error
  // that names the region and the address; nothing is relocated.
  virtual Status prepare(const LaunchImage& launch) = 0;
  // A zeroed device buffer at `preferred` (hint; the address obtained is returned), for records. Freed by finish().
  virtual Result<DevPtr> allocate(uint64_t bytes, const char* purpose) = 0;
  // The same at an address where another process had it; an unsupported error (`not_placed`) where that is taken.
  virtual Status allocate_at(DevPtr address, uint64_t bytes, const char* purpose) {
    static_cast<void>(bytes);
    return unsupported("{} {}: {:#x}", purpose, not_placed, address.value);
  }
  virtual Status release(DevPtr buffer) = 0;
  virtual Status fill(DevPtr address, uint64_t bytes, uint8_t value) = 0;
  virtual Status write(DevPtr address, ByteView bytes) = 0;
  virtual Result<Bytes> read(DevPtr address, uint64_t bytes) = 0;
  virtual uint64_t free_bytes() const = 0;

  // Loads a cubin (the recorded one, or a spliced one) and finds the recorded kernel in it.
  virtual Result<ModuleHandle> load(ByteView cubin) = 0;
  virtual Status unload(ModuleHandle module) = 0;
  virtual Result<Resources> resources(ModuleHandle module) = 0;

  // Restores memory, globals and constants of the module to `before`.
  virtual Status restore(ModuleHandle module, RestoreScope scope) = 0;
  // Launches once with the recorded attributes and waits under the watchdog. After a device error or a watchdog stop the
  // backend is unusable (RunOutcome says so, later calls give the same error): the process must be restarted.
  virtual Result<RunOutcome> run(ModuleHandle module) = 0;
  // The same beside other work on the device, of which `amount` says how much, where the backend has any to give: CTAs start in
  // another order and atomics meet in another. Its time says nothing.
  virtual Result<RunOutcome> run_disturbed(ModuleHandle module, uint32_t amount) {
    static_cast<void>(amount);
    return run(module);
  }
  // Where a region lies for this module: as recorded, but for the module's own variables, which the loader places.
  virtual Result<DevPtr> region_address(ModuleHandle module, size_t index) = 0;
  // Contents of every region now (parallel to record.regions).
  virtual Result<std::vector<Bytes>> read_regions(ModuleHandle module) = 0;
  // Contents of one region now. The default reads all of them; a backend that can do better overrides it, so that
  // comparing gigabytes needs room for one region only.
  virtual Result<Bytes> read_region(ModuleHandle module, size_t index) {
    XT_TRY(std::vector<Bytes> all, read_regions(module));
    if (index >= all.size()) return internal("region {} asked of a launch with {}", index, all.size());
    return std::move(all[index]);
  }
  // Tells the backend which regions launches write (by index), for RestoreScope::written.
  virtual void set_written_regions(std::vector<bool> written) = 0;

  virtual Result<TimingResult> time(const TimingRequest& request) = 0;
  // Several readings of every SM's clocks, none where there are none to read. Launches made before and after it lie before
  // and after it.
  virtual Result<std::vector<ClockReading>> read_clocks() { return std::vector<ClockReading>(); }

  // What this replay does differently from the recorded launch ("programmatic stream serialization: replayed without
  // overlap"), one sentence each. Filled by prepare() and load().
  virtual std::vector<std::string> notes() const { return {}; }

  // Unmaps everything of the current launch.
  virtual Status finish() = 0;
};

}  // namespace xtrace::replay
