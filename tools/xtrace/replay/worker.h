// Launches are replayed in a child process: a kernel that faults or hangs takes its CUDA context with it, and then the
// next launch gets a fresh process. The child sends one message a launch.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "capture/bundle/bundle_reader.h"
#include "tools/xtrace/replay/options.h"

namespace xtrace::cli {

struct LaunchResult {
  uint64_t ordinal = 0;
  bool reported = false;     // a verdict was reached: text, json and verdict are set
  int verdict = 2;           // exit status of the verdict
  std::string text, json;
  std::vector<std::string> not_written;   // why trusted traces are missing
  std::string error;         // else: why there is no report
  int error_exit = 3;        // exit status that the error asks for
  bool of_device = false;    // the kernel failed or hung, or the driver did
};

// Replays the launches in order and calls `done` after each, in this process. Stops early on SIGINT: `interrupted`.
//
// Where the driver's own mappings lie in the way of recorded memory, the launch is tried again in a process with another
// address layout: the program executes itself anew, with the same arguments, and worker_of() tells it its part. A launch that does not end
// on what it left behind (a semaphore that it leaves taken) takes the device with it, and is replayed once more without being asked for that.
struct WorkerOutcome {
  bool interrupted = false;
};
// Set in a process that was executed to be a worker: it takes over from launch number `first` of the same list.
struct WorkerPart {
  int fd = -1;
  size_t first = 0;
  bool test_repeat = true;   // of the first launch
};
std::optional<WorkerPart> worker_of();
[[noreturn]] void work_as(const WorkerPart& part, const bundle::BundleReader& reader, const std::vector<uint64_t>& ordinals,
                          const ReplayOptions& options);

// `command`: this program's own arguments, to execute it anew.
Result<WorkerOutcome> replay_in_workers(const bundle::BundleReader& reader, const std::vector<uint64_t>& ordinals,
                                        const ReplayOptions& options, const std::vector<std::string>& command,
                                        const std::function<void(const LaunchResult&)>& done);

}  // namespace xtrace::cli
