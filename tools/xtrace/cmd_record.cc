// xtrace record: runs a program with libxtrace_inject.so inside and says what became of the recording.
//
// The program keeps its own standard streams, signals and exit status; what is printed here goes to stderr,
// after it ended.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/kernel_pattern.h"
#include "base/notice.h"
#include "capture/bundle/bundle_writer.h"
#include "capture/bundle/record_settings.h"
#include "tools/xtrace/command_line.h"
#include "tools/xtrace/output_path.h"
#include "tools/xtrace/quantity.h"
#include "tools/xtrace/record_summary.h"
#include "tools/xtrace/render_error.h"

namespace xtrace::cli {
namespace {

namespace fs = std::filesystem;
using bundle::RecordSettings;

constexpr char injection_variable[] = "CUDA_INJECTION64_PATH";
// Signals that another process may send to xtrace and that are meant for the program.
constexpr int forwarded_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

std::string text_of(const char* value) { return value != nullptr ? value : ""; }

Result<std::string> find_library() {
  std::error_code ec;
  const fs::path program = fs::read_symlink("/proc/self/exe", ec);
  if (ec) return environment("the directory of xtrace could not be had: {}", ec.message());
  const fs::path directory = program.parent_path();
  const fs::path candidates[] = {directory.parent_path() / "lib" / library_name,
                                 directory.parent_path() / "lib" / "xtrace" / library_name,
                                 directory / library_name};
  for (const fs::path& p : candidates)
    if (fs::is_regular_file(p, ec)) return p.string();
  return environment("{} was found neither in {} nor in {} nor in {}", library_name,
                     candidates[0].parent_path().string(), candidates[1].parent_path().string(),
                     candidates[2].parent_path().string());
}

// Where a libcupti may lie: the toolkit, and the Python packages of the interpreter that the program may be.
std::string cupti_directories(const std::string& program) {
  std::vector<fs::path> found;
  std::error_code ec;
  auto take = [&](const fs::path& directory) {
    for (const char* name : {"libcupti.so.13", "libcupti.so.12"})
      if (fs::exists(directory / name, ec)) return found.push_back(directory);
  };
  auto toolkit = [&](const fs::path& root) {
    for (const char* sub : {"lib64", "lib", "extras/CUPTI/lib64", "targets/x86_64-linux/lib"})
      take(root / sub);
  };
  auto children = [&](const fs::path& directory, std::string_view prefix) {
    std::vector<fs::path> out;
    for (fs::directory_iterator it(directory, ec), end; !ec && it != end; it.increment(ec))
      if (it->path().filename().string().starts_with(prefix)) out.push_back(it->path());
    std::sort(out.rbegin(), out.rend());  // newest version first
    return out;
  };
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string root = text_of(std::getenv(name)); !root.empty()) toolkit(root);
  toolkit("/usr/local/cuda");
  for (const fs::path& root : children("/usr/local", "cuda-")) toolkit(root);

  std::vector<fs::path> prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string root = text_of(std::getenv(name)); !root.empty()) prefixes.emplace_back(root);
  if (!program.empty()) {
    prefixes.push_back(fs::path(program).parent_path().parent_path());
    if (const fs::path real = fs::canonical(program, ec); !ec)
      prefixes.push_back(real.parent_path().parent_path());
  }
  prefixes.insert(prefixes.end(), {"/usr", "/usr/local"});
  for (const fs::path& prefix : prefixes)
    for (const fs::path& python : children(prefix / "lib", "python3"))
      for (const char* packages : {"site-packages", "dist-packages"})
        for (const char* package : {"nvidia/cu13/lib", "nvidia/cuda_cupti/lib"})
          take(python / packages / package);

  std::string out = text_of(std::getenv("XTRACE_CUPTI_PATHS"));
  for (const fs::path& p : found) out += (out.empty() ? "" : ":") + p.string();
  return out;
}

// The file that execvp would run; empty when there is none.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const std::string path = text_of(std::getenv("PATH"));
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const std::string candidate = (end == at ? "." : path.substr(at, end - at)) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  return "";
}

// What would only be found out inside the program, after it ran for nothing.
Status check_output(const fs::path& output, bool overwrite) {
  std::error_code ec;
  if (!fs::exists(output, ec)) {
    if (!fs::is_directory(output.parent_path(), ec))
      return bad_input("{} is no directory: the bundle can not be created in it",
                       output.parent_path().string());
    if (::access(output.parent_path().c_str(), W_OK) != 0)
      return environment("no permission to create a bundle in {}", output.parent_path().string());
    return {};
  }
  if (!fs::is_directory(output, ec)) return bad_input("{} exists and is not a directory", output.string());
  if (fs::is_empty(output, ec)) return {};
  if (!fs::exists(output / "manifest", ec) && !fs::exists(output / "incomplete", ec))
    return with_hint(bad_input("{} exists and is not a bundle", output.string()), "choose another name");
  if (!overwrite)
    return with_hint(bad_input("the bundle {} exists", output.string()),
                     "choose another name, or add --overwrite");
  return {};
}

// What is left of a recording that did not end, told from that of an earlier one: nothing where there is none.
std::optional<std::array<int64_t, 3>> unfinished(const fs::path& bundle) {
  struct stat s{};
  if (::stat((bundle / "incomplete").c_str(), &s) != 0) return std::nullopt;
  return std::array<int64_t, 3>{static_cast<int64_t>(s.st_ino), s.st_ctim.tv_sec, s.st_ctim.tv_nsec};
}

// The private directory shared with the library (record_settings.h). Removed with what it holds.
class Session {
 public:
  static Result<Session> create() {
    const std::string base = text_of(std::getenv("TMPDIR"));
    std::string name = (base.empty() ? std::string("/tmp") : base) + "/xtrace-record-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      return environment("can not create {}: {}", name, std::strerror(errno));
    return Session(name);
  }
  explicit Session(std::string directory) : directory_(std::move(directory)) {}
  Session(Session&& other) noexcept : directory_(std::exchange(other.directory_, {})) {}
  Session& operator=(Session&&) = delete;
  ~Session() {
    if (directory_.empty()) return;
    for (const char* name : {"owner", "messages"}) ::unlink((directory_ + "/" + name).c_str());
    ::rmdir(directory_.c_str());
  }
  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
};

// A line that shows a long capture growing, on a terminal only.
class GrowthLine {
 public:
  GrowthLine(fs::path pack, bool enabled)
      : pack_(std::move(pack)), enabled_(enabled && ::isatty(STDERR_FILENO) == 1) {}
  ~GrowthLine() { clear(); }
  void tick() {
    if (!enabled_) return;
    std::error_code ec;
    const uint64_t size = fs::file_size(pack_, ec);
    const bool grows = !ec && size > last_ && last_ != 0;
    if (!ec) last_ = size;
    if (!grows) return clear();
    notice("\r\x1b[Kxtrace record: {} stored", human_bytes(size));
    drawn_ = true;
  }

 private:
  void clear() {
    if (std::exchange(drawn_, false)) notice("\r\x1b[K");
  }
  fs::path pack_;
  bool enabled_, drawn_ = false;
  uint64_t last_ = 0;
};

// Starts the program; an error when it can not be executed.
Result<pid_t> start(const std::vector<std::string>& command,
                    const std::vector<std::pair<std::string, std::string>>& variables, const sigset_t& mask) {
  int report_pipe[2];
  if (::pipe2(report_pipe, O_CLOEXEC) != 0)
    return environment("can not create a pipe: {}", std::strerror(errno));
  std::vector<char*> argv;
  for (const std::string& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return environment("can not start a process: {}", std::strerror(errno));
  if (child == 0) {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    ::execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t n = ::write(report_pipe[1], &error, sizeof(error));
    ::_exit(127);
  }
  ::close(report_pipe[1]);
  int error = 0;
  const bool failed = ::read(report_pipe[0], &error, sizeof(error)) == sizeof(error);
  ::close(report_pipe[0]);
  if (!failed) return child;
  ::waitpid(child, nullptr, 0);
  return bad_input("can not run {}: {}", command[0], std::strerror(error));
}

// Waits, passing on signals that were sent to xtrace alone. Those of the terminal reach the program by
// themselves.
ChildEnd wait_for(pid_t child, const sigset_t& signals, GrowthLine& growth) {
  ChildEnd end;
  const auto begin = std::chrono::steady_clock::now();
  while (::waitpid(child, &end.status, WNOHANG) == 0) {
    siginfo_t info{};
    const timespec second{1, 0};
    const int signal = ::sigtimedwait(&signals, &info, &second);
    if (signal < 0)
      growth.tick();
    else if (signal != SIGCHLD && info.si_code <= 0)
      ::kill(child, signal);
  }
  end.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return end;
}

Result<ChildEnd> run_program(const std::vector<std::string>& command, const RecordSettings& settings,
                             const std::string& library, bool quiet) {
  auto variables = to_environment(settings);
  variables.emplace_back(injection_variable, library);
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (const int s : forwarded_signals) sigaddset(&signals, s);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  auto child = start(command, variables, before);
  if (!child) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return tl::make_unexpected(child.error());
  }
  GrowthLine growth(fs::path(settings.output) / "pack", !quiet);
  const ChildEnd end = wait_for(*child, signals, growth);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return end;
}

struct RecordFlags {
  RecordSettings settings;
  std::string max_bytes = "32G", cupti, json;
  uint64_t drain_seconds = 10;
  bool overwrite = false, quiet = false, follow = false;
};

void declare(CommandLine& line, RecordFlags& f) {
  line.option("-o,--output", f.settings.output, "bundle directory to write");
  line.option("--kernel", f.settings.kernel,
              "only kernels whose mangled or demangled name matches this POSIX extended regular expression");
  line.option(
      "--launches", f.settings.launches,
      "which of the matching launches, counted from 0: N, N-M, every:N, skip:N, max:N, joined by commas; each kernel of a "
      "launched CUDA graph is one");
  line.option("--scope", f.settings.scope,
              "memory to record: reachable (what pointers lead to) or all (every allocation seen)");
  line.option("--max-bytes", f.max_bytes, "skip launches with more memory than this; K, M, G, T; 0 = no limit");
  line.option("--drain-timeout", f.drain_seconds, any_count, "seconds to wait for the device before a launch is skipped");
  line.option("--zstd-level", f.settings.zstd_level, {1, 19}, "compression level, 1 to 19");
  line.flag("--overwrite", f.overwrite, "replace the bundle if it exists");
  line.option("--cupti", f.cupti, "path of libcupti.so (default: look around)");
  line.flag("--follow", f.follow, "record child processes too (not supported)");
  line.option("--json", f.json, "write the summary to this file, too; - for stdout, behind what the program prints");
  line.flag("-q,--quiet", f.quiet, "no progress and no summary; errors are still printed");
  line.stop_at_first_word();
}

// What is wrong with the words on the command line, said; else what they mean goes into the settings.
std::optional<int> misuse(RecordFlags& f, const std::vector<std::string>& command, const CommandLine& line) {
  const char* usage = "see: xtrace help record";
  RecordSettings& settings = f.settings;
  if (command.empty()) return usage_error("record", "no program given", usage);
  if (command[0].starts_with("-"))
    return usage_error("record", fmt::format("unknown option '{}'", command[0]), line.help_for(command[0]));
  if (settings.output.empty()) return usage_error("record", "no bundle named: -o run.xtr", usage);
  if (f.follow)
    return usage_error("record",
                       "--follow is not supported yet: the first process that uses CUDA is recorded", usage);
  if (settings.scope != "reachable" && settings.scope != "all")
    return usage_error("record",
                       fmt::format("--scope: expected reachable or all, found '{}'", settings.scope), usage);
  if (!settings.kernel.empty())
    if (const auto kernel = KernelPattern::parse(settings.kernel); !kernel) return wrong_value("record", kernel.error());
  if (const auto spec = bundle::LaunchSpec::parse(settings.launches); !spec)
    return usage_error("record", spec.error().message, spec.error().hint.empty() ? usage : spec.error().hint);
  const auto size = bundle::parse_size(f.max_bytes);
  if (!size) return usage_error("record", "--max-bytes: " + size.error().message, usage);
  settings.max_bytes = *size;
  settings.drain_timeout_ms = f.drain_seconds * 1000;
  settings.overwrite = f.overwrite ? 1 : 0;
  return std::nullopt;
}

// What the machine must have for it, before the program runs for nothing.
Status prepare(RecordFlags& f, const std::vector<std::string>& command) {
  RecordSettings& settings = f.settings;
  std::error_code gone;
  settings.output = fs::absolute(settings.output, gone).lexically_normal().string();
  if (gone) return environment("the working directory can not be had: {}", gone.message());
  if (settings.output.ends_with('/')) settings.output.pop_back();
  settings.cupti = f.cupti.empty() ? text_of(std::getenv("XTRACE_CUPTI")) : fs::absolute(f.cupti).string();
  if (!settings.cupti.empty() && ::access(settings.cupti.c_str(), R_OK) != 0)
    return bad_input("can not read {}: {}", settings.cupti, std::strerror(errno));
  if (const std::string taken = text_of(std::getenv(injection_variable)); !taken.empty())
    return with_hint(environment("{} is set to {}: another tool is to be loaded", injection_variable, taken), "unset it");
  const std::string program = find_program(command[0]);
  if (program.empty()) return bad_input("can not run {}: no such program, or not executable", command[0]);
  settings.cupti_paths = cupti_directories(program);
  XT_TRY_STATUS(check_output(settings.output, f.overwrite));
  return can_be_written(f.json, false);
}

}  // namespace

int run_record(int argc, char** argv) {
  RecordFlags f;
  CommandLine line("record",
                   {{"xtrace record -o run.xtr -- ./app --size 4", "every launch of ./app"},
                    {"xtrace record -o run.xtr --kernel gemm --launches 0,max:1 -- ./app", "the first gemm"},
                    {"xtrace record -o run.xtr --launches skip:100,every:50,max:10 -- python train.py",
                     "ten launches, well into the run"},
                    {"xtrace record -o run.xtr --json summary.json -q -- ./app", "what was recorded, for a program"}});
  declare(line, f);
  // The program begins at the first word that is no option, or after "--".
  int own = 1;
  while (own < argc && std::strcmp(argv[own], "--") != 0) ++own;
  if (const auto status = line.parse(own, argv)) return *status;
  std::vector<std::string> command = line.rest();
  if (command.empty() && own < argc) ++own;
  command.insert(command.end(), argv + std::min(own, argc), argv + argc);
  if (const auto status = misuse(f, command, line)) return *status;
  if (const Status s = prepare(f, command); !s) return report("record", s.error());
  RecordSettings& settings = f.settings;
  const auto library = find_library();
  if (!library) return report("record", library.error());
  const auto session = Session::create();
  if (!session) return report("record", session.error());
  settings.session = session->directory();

  const auto unfinished_before = unfinished(settings.output);
  const auto end = run_program(command, settings, *library, f.quiet);
  if (!end) return report("record", end.error());
  const RecordMessages messages = read_messages(settings.session);
  // Not a bundle of an earlier run that this one never got to replace.
  const auto unfinished_now = unfinished(settings.output);
  const bool mine = messages.stats.contains("raw_bytes") || (unfinished_now && unfinished_now != unfinished_before);
  Result<RecordOutcome> outcome =
      mine ? read_outcome(settings.output) : Result<RecordOutcome>(environment("nothing was recorded"));
  if (outcome && outcome->complete)
    if (const Status s =
            bundle::BundleWriter::set_application_exit_status(settings.output, end->shell_status());
        !s)
      return report("record", s.error());
  if (outcome && !f.quiet) print_summary(settings, *outcome, *end, messages);
  const Status asked = as_asked(outcome, messages, *end);
  if (!asked) report("record", asked.error());
  const int status = asked ? end->shell_status() : exit_bad_input;
  if (f.json.empty()) return status;
  const std::string summary = summary_json(settings, command, outcome, *end, messages, asked, status);
  if (f.json == "-")
    fmt::print("{}", summary);
  else if (const Status s = write_file(f.json, summary); !s)
    return report("record", s.error());
  return status;
}

}  // namespace xtrace::cli
