#include "tests/values/workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <fstream>
#include <future>
#include <mutex>
#include <sstream>
#include <thread>

#ifdef XTRACE_VALUES_DRIVER
#include "replay/driver/driver_backend.h"
#endif

namespace xtrace::values {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string hex_of(const PlaceSet& set) {
  std::string s;
  for (unsigned n = 0; n < places; n += 4) {
    unsigned v = 0;
    for (unsigned k = 0; k < 4 && n + k < places; ++k) v |= static_cast<unsigned>(set[n + k]) << k;
    s += "0123456789abcdef"[v];
  }
  const size_t last = s.find_last_not_of('0');
  return last == std::string::npos ? "-" : s.substr(0, last + 1);
}
std::optional<PlaceSet> set_of(const std::string& hex) {
  PlaceSet set{};
  if (hex == "-") return set;
  if (hex.size() > (places + 3) / 4) return std::nullopt;
  for (size_t i = 0; i < hex.size(); ++i) {
    const size_t v = std::string("0123456789abcdef").find(hex[i]);
    if (v == std::string::npos) return std::nullopt;
    for (unsigned k = 0; k < 4 && 4 * i + k < places; ++k) set[4 * i + k] = (v >> k & 1) != 0;
  }
  return set;
}

fs::path log_of(const fs::path& folder) { return folder / "log"; }

// Lines "holder PID", "INDEX begin", "INDEX fault WHY", "INDEX ok DIGEST CHANGED MOVED".
struct Progress {
  std::vector<Outcome> outcomes;
  std::optional<size_t> open;  // the last one begun, if it has no end
  pid_t holder = -1;
};
Progress read_log(const fs::path& folder, size_t words) {
  Progress p;
  p.outcomes.resize(words);
  std::ifstream in(log_of(folder));
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string what;
    size_t index = words;
    if (line.starts_with("holder ")) {
      fields >> what >> p.holder;
      continue;
    }
    if (!(fields >> index >> what) || index >= words) continue;
    if (what == "begin") {
      p.open = index;
      continue;
    }
    if (what == "ok") {
      std::string digest, changed, moved;
      fields >> digest >> changed >> moved;
      if (const auto m = from_line(digest, changed, moved))
        p.outcomes[index] = {Outcome::Kind::measured, *m, {}};
    } else if (what == "fault") {
      std::string why;
      std::getline(fields >> std::ws, why);
      p.outcomes[index] = {Outcome::Kind::fault, {}, why};
    }
    if (p.open == index) p.open.reset();
  }
  return p;
}

void keep(std::ofstream& raw, uint32_t index, const std::vector<WarpState>& in,
          const std::vector<WarpState>& out, const DirectResult& direct) {
  std::vector<uint32_t> which;
  for (uint32_t r = 0; r < rows; ++r)
    for (unsigned w = 0; w < kept_warps; ++w)
      if (in[w].row[r] != out[w].row[r] ||
          (!direct.states.empty() && direct.states[w].row[r] != out[w].row[r])) {
        which.push_back(r);
        break;
      }
  const auto put = [&](const void* p, size_t n) {
    raw.write(static_cast<const char*>(p), static_cast<std::streamsize>(n));
  };
  const uint32_t head[] = {index, static_cast<uint32_t>(which.size())};
  put(head, sizeof head);
  put(which.data(), which.size() * 4);
  for (const uint32_t r : which)
    for (unsigned w = 0; w < kept_warps; ++w) put(out[w].row[r].data(), 128);
  raw.flush();
}

#ifndef XTRACE_VALUES_DRIVER
int work(const WorkOptions&, const std::vector<Word>&) { return 3; }
#else

// Lines and kept results of one worker, from several threads.
class Sink {
 public:
  Sink(const fs::path& folder, bool keep_results) : log_(log_of(folder), std::ios::app) {
    if (keep_results)
      raw_.emplace(folder / fmt::format("{}.raw", getpid()), std::ios::app | std::ios::binary);
  }
  void line(const std::string& text) {
    const std::lock_guard lock(mutex_);
    log_ << text << '\n' << std::flush;
  }
  void result(size_t index, const Word& w, const std::vector<WarpState>& in,
              const std::vector<WarpState>& out) {
    const Measured m = evaluate(in, out);
    if (raw_) {
      const DirectResult direct = run_direct(w, in);
      if (!direct.refused.empty() || digest(direct.states) != m.digest) {
        const std::lock_guard lock(mutex_);
        keep(*raw_, static_cast<uint32_t>(index), in, out, direct);
      }
    }
    line(fmt::format("{} ok {}", index, to_line(m)));
  }

 private:
  std::mutex mutex_;
  std::ofstream log_;
  std::optional<std::ofstream> raw_;
};

// One process; its exit status.
int work(const WorkOptions& o, const std::vector<Word>& words) {
  // States are megabytes each and short-lived: keep their pages.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
  const fs::path folder = o.folder;
  replay::DriverOptions options;
  options.watchdog_seconds = 3;
  auto backend = replay::make_driver_backend(options);
  if (!backend) {
    fmt::print(stderr, "{}\n", backend.error().to_string());
    return backend.error().kind == ErrorKind::environment ? 3 : 1;
  }
  Runner runner(**backend);
  const int turn = open((folder / "turn").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (turn < 0 || flock(turn, LOCK_EX) != 0) return 1;
  const Progress before = read_log(folder, words.size());
  Sink sink(folder, o.keep_results);
  sink.line(fmt::format("holder {}", getpid()));
  if (before.open) sink.line(fmt::format("{} fault the process ended there", *before.open));

  const unsigned most = std::max(2u, std::thread::hardware_concurrency());
  std::deque<std::future<void>> running;
  std::vector<size_t> todo;
  for (size_t i = 0; i < words.size(); ++i)
    if (i != before.open && before.outcomes[i].kind == Outcome::Kind::not_reached) todo.push_back(i);
  for (size_t first = 0, end = 0; first < todo.size(); first = end) {
    std::vector<Word> group;
    const auto alone = [&](size_t k) { return needs_code_address(words[todo[k]].inst); };
    do
      group.push_back(words[todo[end++]]);
    while (end < todo.size() && group.size() < Frame::slots && words[todo[end]].cls == words[todo[first]].cls && !alone(first) &&
           !alone(end));
    if (const Status s = runner.load(group); !s) {
      running.clear();
      for (size_t slot = 0; slot < group.size(); ++slot)
        sink.line(fmt::format("{} fault {}", todo[first + slot], s.error().message));
      return 1;
    }
    for (size_t slot = 0; slot < group.size(); ++slot) {
      const size_t i = todo[first + slot];
      const Word& w = words[i];
      sink.line(fmt::format("{} begin", i));
      auto out = runner.run(slot);
      if (!out) {
        running.clear();  // waits for all
        sink.line(fmt::format("{} fault {}", i, out.error().message));
        _exit(2);  // the context is lost: no tidy end
      }
      if (running.size() >= most) running.pop_front();
      const std::vector<WarpState>& in = runner.inputs(w.cls);
      running.push_back(std::async(std::launch::async, [&sink, &w, &in, i, states = std::move(*out)] {
        sink.result(i, w, in, states);
      }));
    }
  }
  running.clear();
  return 0;
}
#endif

pid_t start(const WorkOptions& o, const std::vector<Word>& words) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(work(o, words));
  }
  return child;
}

}  // namespace

std::vector<Word> read_words(const fs::path& folder) {
  std::vector<Word> words;
  std::ifstream in(folder / "words");
  Word w;
  unsigned c = 0;
  while (in >> std::hex >> w.inst.lo >> w.inst.hi >> c) {
    w.cls = static_cast<Class>(c);
    words.push_back(w);
  }
  return words;
}

std::string to_line(const Measured& m) {
  return fmt::format("{:016x} {} {}", m.digest, hex_of(m.changed), hex_of(m.moved));
}

std::optional<Measured> from_line(const std::string& digest, const std::string& changed,
                                  const std::string& moved) {
  Measured m;
  char* end = nullptr;
  m.digest = std::strtoull(digest.c_str(), &end, 16);
  const auto c = set_of(changed), v = set_of(moved);
  if (digest.size() != 16 || *end != 0 || !c || !v) return std::nullopt;
  m.changed = *c;
  m.moved = *v;
  return m;
}

Result<std::vector<Outcome>> measure_all(const std::vector<Word>& words, const WorkOptions& o) {
  const Clock::time_point begin = Clock::now();
  const auto seconds_since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  fs::create_directories(o.folder);
  fs::remove(log_of(o.folder));
  {
    std::ofstream out(o.folder / "words");
    for (const Word& w : words)
      out << fmt::format("{:x} {:x} {:x}\n", w.inst.lo, w.inst.hi, static_cast<unsigned>(w.cls));
  }
  XT_TRY_STATUS(Runner::warm_up());
  std::vector<pid_t> children(o.processes, -1);
  uintmax_t size = 0;
  Clock::time_point progress = Clock::now();
  bool done = words.empty(), no_device = false;
  unsigned idle_ends = 0;  // ends in a row without progress
  while (!done && !no_device && seconds_since(begin) < o.seconds) {
    for (pid_t& child : children) {
      if (child < 0) child = start(o, words);
      int status = 0;
      if (waitpid(child, &status, WNOHANG) == 0) continue;
      child = -1;
      done = done || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
      no_device = WIFEXITED(status) && WEXITSTATUS(status) == 3;
      if (++idle_ends > 3 * o.processes) return device("processes that measure end without measuring");
    }
    std::error_code ignored;
    if (const uintmax_t now = fs::file_size(log_of(o.folder), ignored); !ignored && now != size) {
      size = now;
      progress = Clock::now();
      idle_ends = 0;
    } else if (seconds_since(progress) > o.seconds_without_progress) {
      const pid_t holder = read_log(o.folder, words.size()).holder;
      for (const pid_t child : children)
        if (child == holder) kill(child, SIGKILL);
      progress = Clock::now();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  // The one that holds the GPU last: another would take its turn and call the word in progress a fault.
  const pid_t holder = read_log(o.folder, words.size()).holder;
  std::stable_partition(children.begin(), children.end(), [&](pid_t child) { return child != holder; });
  for (const pid_t child : children)
    if (child > 0) kill(child, SIGKILL), waitpid(child, nullptr, 0);
  if (no_device) return environment("no device to measure on");
  return read_log(o.folder, words.size()).outcomes;
}

}  // namespace xtrace::values
