// Executes the launches of a recording on the CPU interpreter, several at a time, and holds what each leaves in
// memory against what was recorded. One line a launch, fields separated by tabs: ordinal, kernel, result
// ("equal", "N bytes differ", or why it is refused), thread instructions, seconds.
//   interp_bundle BUNDLE [--jobs N] [--limit INSTRUCTIONS OF WARPS] [--launch N] [--code FOLDER] [--late]
// --code: FOLDER/<kernel>.cubin instead of the recorded code, for launches that have one there.
// --late: results come as late as the control bits of the code allow; a launch that stops then differs.
// Exit status: 0 when no launch differs.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/file.h"
#include "replay/interp/interp_backend.h"
#include "replay/session.h"

namespace xtrace {
namespace {

struct Executed {
  std::string result;
  bool differs = false;
  uint64_t thread_instructions = 0;
  double seconds = 0;
};

struct Options {
  uint64_t jobs = 1, limit = replay::InterpOptions{}.instruction_limit;
  std::optional<uint64_t> launch;
  bool late = false;  // results come as late as the control bits allow
  std::filesystem::path code;  // empty: the recorded one
};
std::filesystem::path code_of(const Options& o, const std::string& kernel) {
  return o.code / (kernel + ".cubin");
}

Result<Executed> execute(const bundle::BundleReader& bundle, uint64_t ordinal, const Options& o) {
  XT_TRY(replay::LaunchImage launch, replay::load_launch(bundle, ordinal));
  if (!o.code.empty()) {
    XT_TRY(launch.code, read_file(code_of(o, launch.record.kernel)));
  }
  const auto backend = replay::make_interp_backend({o.limit, o.late});
  XT_TRY_STATUS(backend->prepare(launch));
  XT_TRY(const replay::ModuleHandle module, backend->load(launch.code));
  const auto start = std::chrono::steady_clock::now();
  XT_TRY(const replay::RunOutcome outcome, backend->run(module));
  Executed e;
  e.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!outcome.completed) {
    e.result = outcome.failure;
    e.differs = o.late;
    return e;
  }
  e.thread_instructions = backend->last_result().lane_instructions;
  size_t different = 0;
  std::string first;
  XT_TRY(const std::vector<Bytes> after, backend->read_regions(module));
  for (size_t r = 0; r < after.size(); ++r)
    for (size_t k = 0; k < after[r].size(); ++k)
      if (after[r][k] != launch.after[r][k] && ++different == 1)
        first = fmt::format("region {} offset {}", r, k);
  e.differs = different != 0;
  e.result = e.differs ? fmt::format("{} bytes differ, first {}", different, first) : "equal";
  return e;
}

int main_of(std::vector<std::string> a) {
  Options o;
  o.late = std::erase(a, "--late") != 0;
  bool good = a.size() % 2 == 1;
  for (size_t k = 1; good && k < a.size(); k += 2) {
    if (a[k] == "--jobs")
      o.jobs = std::stoull(a[k + 1]);
    else if (a[k] == "--limit")
      o.limit = std::stoull(a[k + 1]);
    else if (a[k] == "--launch")
      o.launch = std::stoull(a[k + 1]);
    else if (a[k] == "--code")
      o.code = a[k + 1];
    else
      good = false;
  }
  if (!good) {
    fmt::print(stderr, "usage: interp_bundle BUNDLE [--jobs N] [--limit N] [--launch N] [--code FOLDER] [--late]\n");
    return 64;
  }
  const auto bundle = bundle::BundleReader::open(a[0]);
  if (!bundle) {
    fmt::print(stderr, "interp_bundle: {}\n", bundle.error().to_string());
    return 3;
  }
  std::atomic<size_t> next = 0, different = 0;
  std::mutex printing;
  std::vector<std::thread> threads;
  for (uint64_t j = 0; j < o.jobs; ++j)
    threads.emplace_back([&] {
      for (size_t k; (k = next++) < (*bundle)->launches().size();) {
        const bundle::LaunchRecord& r = (*bundle)->launches()[k];
        if (o.launch && r.ordinal != *o.launch) continue;
        if (!o.code.empty() && !std::filesystem::exists(code_of(o, r.kernel))) continue;
        const auto e = execute(**bundle, r.ordinal, o);
        const std::lock_guard lock(printing);
        fmt::print("{}\t{}\t{}\t{}\t{:.3f}\n", r.ordinal, r.kernel, e ? e->result : e.error().to_string(),
                   e ? e->thread_instructions : 0, e ? e->seconds : 0.0);
        std::fflush(stdout);
        different += e && e->differs;
      }
    });
  for (std::thread& t : threads) t.join();
  return different == 0 ? 0 : 1;
}

}  // namespace
}  // namespace xtrace

int main(int argc, char** argv) { return xtrace::main_of(std::vector<std::string>(argv + 1, argv + argc)); }
