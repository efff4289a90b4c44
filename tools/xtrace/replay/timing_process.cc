#include "tools/xtrace/replay/timing_process.h"

#include <fcntl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/xtrace/replay/message.h"

extern char** environ;

namespace xtrace::cli {
namespace {

using nlohmann::json;

constexpr const char* process_variable = "XTRACE_TIMING_PROCESS";   // "<fd>"
constexpr int layouts_tried = 6;

json binary(ByteView bytes) {
  const auto* p = reinterpret_cast<const uint8_t*>(bytes.data());
  return json::binary(std::vector<uint8_t>(p, p + bytes.size()));
}
ByteView view(const json& j) {
  const auto& b = j.get_binary();
  return std::as_bytes(std::span(b.data(), b.size()));
}

json result_message(const replay::TimingResult& r) {
  json pairs = json::array();
  for (const auto& variant : r.pairs) {
    json& all = pairs.emplace_back(json::array());
    for (const replay::TimedPair& p : variant)
      all.push_back({p.clean.microseconds, p.clean.cycles, p.variant.microseconds, p.variant.cycles, p.clean_first});
  }
  return {{"pairs", pairs}, {"tick", r.tick_microseconds}, {"caches", r.caches}};
}

replay::TimingResult result_of(const json& m) {
  replay::TimingResult r;
  for (const json& variant : m.at("pairs")) {
    auto& all = r.pairs.emplace_back();
    for (const json& p : variant)
      all.push_back({{p[0].get<double>(), p[1].get<double>()}, {p[2].get<double>(), p[3].get<double>()}, p[4].get<bool>()});
  }
  r.tick_microseconds = m.at("tick").get<double>();
  r.caches = m.at("caches").get<std::string>();
  return r;
}

Result<json> ask(int fd, const json& request) {
  std::optional<json> answer;
  if (send(fd, request)) answer = receive(fd);
  if (!answer) return device("the process ended");
  if (!answer->contains("error")) return std::move(*answer);
  Error e{static_cast<ErrorKind>(answer->at("kind").get<int>()), answer->at("error").get<std::string>(), {}, {}};
  e.hint = answer->at("hint").get<std::string>();
  return tl::make_unexpected(std::move(e));
}

}  // namespace

Result<std::unique_ptr<TimingProcess>> TimingProcess::start(const ReplayOptions& options) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return environment("can not make a socket: {}", std::strerror(errno));
  // Everything is made before the fork: this process has threads.
  std::string name = "xtrace", variable = fmt::format("{}={}", process_variable, fds[1]);
  char* argv[] = {name.data(), nullptr};
  std::vector<char*> environment_of;
  for (char** e = environ; *e != nullptr; ++e) environment_of.push_back(*e);
  environment_of.push_back(variable.data());
  environment_of.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(fds[0]);
    ::close(fds[1]);
    return environment("can not start a timing process: {}", std::strerror(errno));
  }
  if (child == 0) {
    ::fcntl(fds[1], F_SETFD, 0);
    // Under `setarch -R` every process would get the same layout.
    ::personality(static_cast<unsigned long>(::personality(0xffffffff)) & ~ADDR_NO_RANDOMIZE);
    ::execve("/proc/self/exe", argv, environment_of.data());
    ::_exit(127);
  }
  ::close(fds[1]);
  std::unique_ptr<TimingProcess> process(new TimingProcess(fds[0], child));
  XT_TRY_IN(json ready,
            ask(fds[0], {{"bundle", options.bundle.string()}, {"device", options.device}, {"watchdog", options.watchdog_seconds}}),
            "starting a timing process");
  return process;
}

std::unique_ptr<TimingProcess> TimingProcess::adopt(int fd) { return std::unique_ptr<TimingProcess>(new TimingProcess(fd, 0)); }

TimingProcess::~TimingProcess() {
  ::close(fd_);
  int status = 0;
  while (child_ > 0 && ::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
}

Status TimingProcess::open(const TimingKit& kit) {
  json codes = json::array(), buffers = json::array();
  for (ByteView code : kit.codes) codes.push_back(binary(code));
  for (const BufferImage& b : kit.buffers)
    buffers.push_back({{"at", b.at.value}, {"bytes", b.bytes}, {"table", b.table.value}, {"table_bytes", binary(b.table_bytes)}});
  XT_TRY(json opened, ask(fd_, {{"open", kit.ordinal}, {"written", kit.written}, {"codes", codes}, {"buffers", buffers}}));
  return {};
}

Result<replay::TimingResult> TimingProcess::time(const replay::TimingRequest& r, const std::vector<size_t>& variants) {
  XT_TRY(const json answer, ask(fd_, {{"time", variants},
                                      {"pairs", r.pairs},
                                      {"launches", r.launches_per_sample},
                                      {"seed", r.seed},
                                      {"limit", r.time_limit_seconds}}));
  return result_of(answer);
}

Status TimingProcess::close() {
  XT_TRY(json closed, ask(fd_, {{"close", true}}));
  return {};
}

Result<TimingProcess*> TimingProcesses::open(size_t i, const TimingKit& kit) {
  std::unique_ptr<TimingProcess>& process = processes_.at(i);
  for (int layout = 1;; ++layout) {
    if (!process) {
      XT_TRY(process, TimingProcess::start(options_));
    }
    const Status opened = process->open(kit);
    if (opened) return process.get();
    process.reset();   // what it holds of the kit is not known
    const bool in_the_way = opened.error().message.find(replay::not_placed) != std::string::npos;
    if (!in_the_way || layout == layouts_tried) return tl::make_unexpected(opened.error());
  }
}

namespace {

class Server {
 public:
  Server(const MakeBackend& make, const LoadLaunch& load) : make_(make), load_(load) {}

  Result<json> answer(const json& request) {
    if (request.contains("open")) return open(request);
    if (request.contains("time")) return time(request);
    XT_TRY_STATUS(close());
    return json::object();
  }

 private:
  Result<json> open(const json& request) {
    if (!backend_) {
      XT_TRY(backend_, make_());
    }
    XT_TRY_STATUS(close());   // where the last measurement was broken off
    XT_TRY(const replay::LaunchImage launch, load_(request.at("open").get<uint64_t>()));
    XT_TRY_STATUS(backend_->prepare(launch));
    open_ = true;
    for (const json& b : request.at("buffers")) {
      XT_TRY_STATUS(backend_->allocate_at({b.at("at").get<uint64_t>()}, b.at("bytes").get<uint64_t>(), "trace records"));
      if (const ByteView table = view(b.at("table_bytes")); !table.empty())
        XT_TRY_STATUS(backend_->write({b.at("table").get<uint64_t>()}, table));
    }
    modules_.clear();
    for (const json& code : request.at("codes")) {
      XT_TRY(const replay::ModuleHandle module, backend_->load(view(code)));
      modules_.push_back(module);
    }
    backend_->set_written_regions(request.at("written").get<std::vector<bool>>());
    return json::object();
  }

  Result<json> time(const json& request) {
    replay::TimingRequest r;
    r.clean = modules_.at(0);
    for (size_t v : request.at("time").get<std::vector<size_t>>()) r.variants.push_back(modules_.at(v));
    r.pairs = request.at("pairs").get<uint32_t>();
    r.launches_per_sample = request.at("launches").get<uint32_t>();
    r.seed = request.at("seed").get<uint64_t>();
    r.time_limit_seconds = request.at("limit").get<double>();
    XT_TRY(const replay::TimingResult result, backend_->time(r));
    return result_message(result);
  }

  Status close() {
    return std::exchange(open_, false) ? backend_->finish() : Status();
  }

  const MakeBackend& make_;
  const LoadLaunch& load_;
  bool open_ = false;
  std::unique_ptr<replay::Backend> backend_;
  std::vector<replay::ModuleHandle> modules_;
};

}  // namespace

void serve_timing(int fd, const MakeBackend& make, const LoadLaunch& load, const std::function<void()>& end) {
  Server server(make, load);
  while (const auto request = receive(fd)) {
    const Result<json> answer = server.answer(*request);
    if (!send(fd, answer ? *answer : json_of(answer.error()))) break;
  }
  if (end) end();
}

json json_of(const Error& e) { return {{"error", e.message}, {"kind", static_cast<int>(e.kind)}, {"hint", e.hint}}; }

std::optional<int> timing_socket() {
  const char* text = std::getenv(process_variable);
  if (text == nullptr) return std::nullopt;
  return std::atoi(text);
}

}  // namespace xtrace::cli
