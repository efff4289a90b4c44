// A backend of which only time() matters, and a process that has one: in a thread, at the other end of a socket.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "tests/unit/trust/timers.h"
#include "tools/xtrace/replay/timing_process.h"

namespace xtrace::cli {

class TimedBackend final : public replay::Backend {
 public:
  explicit TimedBackend(Timer timer) : timer_(std::move(timer)) {}
  const replay::BackendInfo& info() const override { return info_; }
  Status prepare(const replay::LaunchImage& l) override {
    ordinals.push_back(l.record.ordinal);
    return {};
  }
  Result<DevPtr> allocate(uint64_t, const char*) override { return internal("not asked for in a measurement"); }
  Status allocate_at(DevPtr at, uint64_t bytes, const char*) override {
    buffers[at.value] = Bytes(bytes);
    return {};
  }
  Status release(DevPtr) override { return {}; }
  Status fill(DevPtr, uint64_t, uint8_t) override { return {}; }
  Status write(DevPtr at, ByteView b) override {
    written_to = at.value;
    table.assign(b.begin(), b.end());
    return {};
  }
  Result<Bytes> read(DevPtr, uint64_t n) override { return Bytes(n); }
  uint64_t free_bytes() const override { return 0; }
  Result<replay::ModuleHandle> load(ByteView code) override {
    codes.emplace_back(code.begin(), code.end());
    return static_cast<replay::ModuleHandle>(codes.size());
  }
  Status unload(replay::ModuleHandle) override { return {}; }
  Result<replay::Resources> resources(replay::ModuleHandle) override { return replay::Resources{}; }
  Status restore(replay::ModuleHandle, replay::RestoreScope) override { return {}; }
  Result<replay::RunOutcome> run(replay::ModuleHandle) override { return replay::RunOutcome{}; }
  Result<DevPtr> region_address(replay::ModuleHandle, size_t) override { return unsupported("no addresses"); }
  Result<std::vector<Bytes>> read_regions(replay::ModuleHandle) override { return std::vector<Bytes>(); }
  void set_written_regions(std::vector<bool> w) override { written = std::move(w); }
  Result<replay::TimingResult> time(const replay::TimingRequest& r) override {
    requests.push_back(r);
    if (failing) return device("the kernel hung");
    return timer_(r);
  }
  Status finish() override {
    ++finished;
    return {};
  }

  std::vector<uint64_t> ordinals;
  std::vector<Bytes> codes;
  std::map<uint64_t, Bytes> buffers;
  uint64_t written_to = 0;
  Bytes table;
  std::vector<bool> written;
  std::vector<replay::TimingRequest> requests;
  bool failing = false;
  int finished = 0;

 private:
  Timer timer_;
  replay::BackendInfo info_;
};

// Process number 0 of `processes`.
class OtherProcess {
 public:
  OtherProcess(TimingProcesses& processes, Timer timer) {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    processes.adopt(0, TimingProcess::adopt(fds[0]));
    thread_ = std::thread([this, fd = fds[1], timer] {
      serve_timing(
          fd,
          [&]() -> Result<std::unique_ptr<replay::Backend>> {
            auto made = std::make_unique<TimedBackend>(timer);
            made->failing = fails;
            made_ = made.get();
            return made;
          },
          [](uint64_t ordinal) -> Result<replay::LaunchImage> {
            replay::LaunchImage l;
            l.record.ordinal = ordinal;
            return l;
          },
          [this] {
            if (made_ != nullptr) seen = *made_;
          });
      ::close(fd);
    });
  }
  // When the other end was closed.
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  ~OtherProcess() { join(); }

  bool fails = false;
  TimedBackend seen{Timer{}};   // after join()

 private:
  TimedBackend* made_ = nullptr;
  std::thread thread_;
};

}  // namespace xtrace::cli
