#include "tools/xtrace/replay/worker.h"

#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/notice.h"
#include "replay/session.h"
#include "tools/xtrace/replay/launch_replay.h"
#include "tools/xtrace/replay/make_backend.h"
#include "tools/xtrace/replay/message.h"
#include "tools/xtrace/replay/timing_process.h"
#include "tools/xtrace/replay/whole_launch.h"

namespace xtrace::cli {
namespace {

using nlohmann::json;

// Of a user; of a CI job that is cancelled; of a terminal that is closed.
constexpr int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};
volatile sig_atomic_t interrupted = 0;
volatile pid_t current_worker = 0;
// A terminal sends the signal to the worker too, `kill` does not, and a launch may take long. Its end closes the pipe.
void on_interrupt(int) {
  interrupted = 1;
  if (current_worker > 0) ::kill(current_worker, SIGINT);
}

constexpr const char* part_variable = "XTRACE_REPLAY_WORKER";   // "<fd>:<first>", and ":once" where the first is not to be repeated
constexpr unsigned layouts_tried = 6;

json message_of(uint64_t ordinal, const Error& error) {
  return {{"ordinal", ordinal}, {"error", error.to_string()}, {"error_exit", exit_code(error.kind)},
          {"of_device", error.kind == ErrorKind::device}};
}

// The child: replays until the end of the list or until the device is gone. Never returns.
[[noreturn]] void work(int fd, const bundle::BundleReader& reader, const std::vector<uint64_t>& ordinals, size_t first, bool test_repeat,
                       const ReplayOptions& options) {
  std::string why;
  auto backend = make_backend(options, why);
  if (backend && first == 0 && !why.empty() && !options.announced_by.empty())
    notice("xtrace {}: backend interp, the CPU interpreter: {}\n", options.announced_by, why);
  if (!backend) {
    json message = message_of(ordinals[first], backend.error());
    message["fatal"] = true;   // the next launch would meet the same
    send(fd, message);
    _exit(1);
  }
  TimingProcesses processes(options);
  for (size_t i = first; i < ordinals.size(); ++i) {
    auto launch = load_whole_launch(reader, ordinals[i]);
    ReplayOptions of_launch = options;
    of_launch.test_repeat = options.test_repeat && (i != first || test_repeat);
    auto report = launch ? replay_launch(**backend, *launch, of_launch, &processes)
                         : Result<diff::ReplayReport>(tl::make_unexpected(launch.error()));
    if (report) {
      if (!send(fd, {{"ordinal", ordinals[i]},
                     {"text", diff::render_text(*report)},
                     {"json", diff::render_json(*report)},
                     {"verdict", diff::exit_status(report->verdict())},
                     {"not_written", report->not_written}}))
        _exit(1);
      continue;
    }
    const bool gone = report.error().kind == ErrorKind::device;
    const bool in_the_way = report.error().message.find(replay::not_placed) != std::string::npos;
    json message = message_of(ordinals[i], report.error());
    message["in_the_way"] = in_the_way;
    message["not_repeatable"] = gone && report.error().message.find(replay::not_repeatable) != std::string::npos;
    if (!send(fd, message) || gone || in_the_way) _exit(1);
    if (launch && !(*backend)->finish()) _exit(1);
  }
  _exit(0);
}

LaunchResult result_of(const json& message) {
  LaunchResult r;
  r.ordinal = message.value("ordinal", uint64_t{0});
  r.error = message.value("error", "");
  r.error_exit = message.value("error_exit", 3);
  r.of_device = message.value("of_device", false);
  r.reported = r.error.empty();
  r.text = message.value("text", "");
  r.json = message.value("json", "");
  r.verdict = message.value("verdict", 2);
  r.not_written = message.value("not_written", std::vector<std::string>());
  return r;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit status {}", WEXITSTATUS(status));
}

// What a worker that was killed had begun to write of this launch (stem_of in launch_replay.cc): it has its final name once it is whole.
void remove_what_was_begun(const ReplayOptions& options, uint64_t ordinal) {
  const std::string of_launch = fmt::format("launch{}-", ordinal);
  for (const std::filesystem::path& folder : {options.traces, options.keep_code}) {
    std::error_code ec;
    if (folder.empty()) continue;
    for (std::filesystem::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
      const std::string name = it->path().filename().string();
      std::error_code none;
      if (name.starts_with(of_launch) && name.ends_with(".tmp")) std::filesystem::remove(it->path(), none);
    }
  }
}

}  // namespace

std::optional<WorkerPart> worker_of() {
  const char* text = std::getenv(part_variable);
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  WorkerPart part;
  part.fd = static_cast<int>(std::strtol(text, &end, 10));
  if (*end == ':') part.first = std::strtoul(end + 1, &end, 10);
  part.test_repeat = *end != ':';
  return part;
}

void work_as(const WorkerPart& part, const bundle::BundleReader& reader, const std::vector<uint64_t>& ordinals,
             const ReplayOptions& options) {
  XT_CHECK(part.first < ordinals.size(), "a worker's part of the list");
  work(part.fd, reader, ordinals, part.first, part.test_repeat, options);
}

Result<WorkerOutcome> replay_in_workers(const bundle::BundleReader& reader, const std::vector<uint64_t>& ordinals,
                                        const ReplayOptions& options, const std::vector<std::string>& command,
                                        const std::function<void(const LaunchResult&)>& done) {
  struct sigaction action = {}, before[std::size(ending_signals)] = {};
  action.sa_handler = on_interrupt;
  for (size_t k = 0; k < std::size(ending_signals); ++k) {
    sigaction(ending_signals[k], nullptr, &before[k]);
    if (ending_signals[k] != SIGHUP || before[k].sa_handler != SIG_IGN) sigaction(ending_signals[k], &action, nullptr);   // ignored: nohup
  }
  interrupted = 0;
  size_t next = 0;
  unsigned layouts = 1;   // tried for the next launch
  bool test_repeat = true;   // likewise
  bool fatal = false;
  while (next < ordinals.size() && !interrupted && !fatal) {
    int pipe_fd[2];
    if (::pipe(pipe_fd) != 0) return environment("can not make a pipe: {}", std::strerror(errno));
    const pid_t child = ::fork();
    if (child < 0) return environment("can not start a worker process: {}", std::strerror(errno));
    if (child == 0) {
      ::close(pipe_fd[0]);
      for (size_t k = 0; k < std::size(ending_signals); ++k)
        if (ending_signals[k] != SIGHUP || before[k].sa_handler != SIG_IGN) ::signal(ending_signals[k], SIG_DFL);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);   // who would read what it finds is gone
      if (layouts > 1) {
        ::setenv(part_variable, fmt::format("{}:{}{}", pipe_fd[1], next, test_repeat ? "" : ":once").c_str(), 1);
        // Under `setarch -R` every process would get the layout that was in the way.
        ::personality(static_cast<unsigned long>(::personality(0xffffffff)) & ~ADDR_NO_RANDOMIZE);
        std::vector<char*> argv;
        for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
        argv.push_back(nullptr);
        ::execv("/proc/self/exe", argv.data());
      }
      work(pipe_fd[1], reader, ordinals, next, test_repeat, options);
    }
    ::close(pipe_fd[1]);
    current_worker = child;
    if (interrupted) ::kill(child, SIGINT);   // it came before the line above
    while (auto message = receive(pipe_fd[0])) {
      if (message->value("in_the_way", false) && layouts < layouts_tried) {
        ++layouts;
        break;
      }
      if (message->value("not_repeatable", false) && test_repeat) {
        test_repeat = false;
        break;
      }
      const LaunchResult r = result_of(*message);
      fatal |= message->value("fatal", false);
      done(r);
      ++next;
      layouts = 1;
      test_repeat = true;
    }
    ::close(pipe_fd[0]);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    current_worker = 0;
    const bool ended_by_itself = WIFEXITED(status);
    if (!ended_by_itself && next < ordinals.size()) remove_what_was_begun(options, ordinals[next]);
    if (!ended_by_itself && !interrupted && next < ordinals.size()) {
      LaunchResult r;
      r.ordinal = ordinals[next++];
      r.error = "the worker process was " + how_it_ended(status);
      r.error_exit = exit_internal;
      done(r);
    }
  }
  for (size_t k = 0; k < std::size(ending_signals); ++k) sigaction(ending_signals[k], &before[k], nullptr);
  return WorkerOutcome{interrupted != 0};
}

}  // namespace xtrace::cli
