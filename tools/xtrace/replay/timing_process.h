// Fresh processes that time the launch at hand: where a process happens to put code and data moves a kernel's time by up to a
// percent, so a verdict needs several. They are started once and serve one launch after the other; only one of all the
// processes of a replay uses the GPU at any time.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "replay/backend.h"
#include "tools/xtrace/replay/options.h"

namespace xtrace::cli {

// A buffer that code has the address of: zero, but for `table`.
struct BufferImage {
  DevPtr at;
  uint64_t bytes = 0;
  DevPtr table;
  Bytes table_bytes;
};

// A launch in all its variants, as another process needs it.
struct TimingKit {
  uint64_t ordinal = 0;
  std::vector<bool> written;        // regions that are restored before each sample
  std::vector<ByteView> codes;      // cubins; the first is the clean one
  std::vector<BufferImage> buffers;
};

class TimingProcess {
 public:
  // Executes this program anew, which must then call serve_timing(). Tests have a server at hand: adopt().
  static Result<std::unique_ptr<TimingProcess>> start(const ReplayOptions& options);
  static std::unique_ptr<TimingProcess> adopt(int fd);
  ~TimingProcess();   // ends it
  TimingProcess(const TimingProcess&) = delete;

  // An error of the other process comes back with its kind; device: also when it died.
  Status open(const TimingKit& kit);
  // `variants` number the kit's codes; request.clean and .variants are not looked at.
  Result<replay::TimingResult> time(const replay::TimingRequest& request, const std::vector<size_t>& variants);
  Status close();

 private:
  TimingProcess(int fd, int child) : fd_(fd), child_(child) {}
  int fd_, child_;
};

// All of a replay but the one that asks.
class TimingProcesses {
 public:
  explicit TimingProcesses(const ReplayOptions& options) : options_(options), processes_(options.processes - 1) {}

  size_t count() const { return processes_.size(); }
  // Opens the kit in process `i`, which is started when it does not run. Where its address layout is in the way it is started
  // anew, a few times.
  Result<TimingProcess*> open(size_t i, const TimingKit& kit);
  void drop(size_t i) { processes_[i].reset(); }
  void adopt(size_t i, std::unique_ptr<TimingProcess> process) { processes_[i] = std::move(process); }

 private:
  const ReplayOptions& options_;
  std::vector<std::unique_ptr<TimingProcess>> processes_;
};

// The other end. `make` and `load` are called when the first kit comes.
using MakeBackend = std::function<Result<std::unique_ptr<replay::Backend>>()>;
using LoadLaunch = std::function<Result<replay::LaunchImage>(uint64_t ordinal)>;
// `end`: called before the backend goes (tests).
void serve_timing(int fd, const MakeBackend& make, const LoadLaunch& load, const std::function<void()>& end = {});

// In a process that start() executed: its socket, over which first the hello of start() comes. Nothing in any other.
std::optional<int> timing_socket();
// An error as an answer.
nlohmann::json json_of(const Error& error);

}  // namespace xtrace::cli
