#include "tests/gpu/replay/fresh_process.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>

#include "replay/driver/driver_backend.h"
#include "tests/gpu/replay/cubin.h"
#include "tests/gpu/replay/scene.h"

namespace xtrace::replay {

ProcessResult run_self(const std::vector<std::string>& arguments, bool aslr) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    if (!aslr) personality(ADDR_NO_RANDOMIZE);
    std::string self = "/proc/self/exe";
    std::vector<char*> argv = {self.data()};
    std::vector<std::string> copy = arguments;
    for (std::string& a : copy) argv.push_back(a.data());
    argv.push_back(nullptr);
    execv(self.c_str(), argv.data());
    _exit(127);
  }
  close(ends[1]);
  ProcessResult result;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    result.output.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

namespace {

int fail(const Error& e) {
  fmt::print("error: {}\n", e.to_string());
  std::fflush(stdout);
  return 1;
}

// Allocates as an application would and prints "address:size" of each: what a recording of it would hold.
int allocate() {
  const Result<DriverApi> api = DriverApi::load();
  if (!api) return fail(api.error());
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
  const auto alloc = reinterpret_cast<PFN_cuMemAlloc_v3020>(dlsym(cuda, "cuMemAlloc_v2"));
  const auto alloc_async = reinterpret_cast<PFN_cuMemAllocAsync_v11020>(dlsym(cuda, "cuMemAllocAsync"));
  const auto stream_synchronize =
      reinterpret_cast<PFN_cuStreamSynchronize_v2000>(dlsym(cuda, "cuStreamSynchronize"));
  CUcontext context = nullptr;
  if (api->Init(0) != CUDA_SUCCESS || api->DevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      api->CtxSetCurrent(context) != CUDA_SUCCESS)
    return 1;
  for (const size_t size : {size_t{256}, size_t{1} << 20, size_t{2} << 20, size_t{20} << 20,
                            size_t{300} << 20, (size_t{3} << 30) + 12345}) {
    CUdeviceptr p = 0;
    if (alloc(&p, size) != CUDA_SUCCESS) return 1;
    fmt::print("{:#x}:{} ", p, size);
  }
  for (const size_t size : {size_t{512}, size_t{5} << 20, size_t{100} << 20}) {
    CUdeviceptr p = 0;
    if (alloc_async(&p, size, nullptr) != CUDA_SUCCESS || stream_synchronize(nullptr) != CUDA_SUCCESS)
      return 1;
    fmt::print("{:#x}:{}:pool ", p, size);
  }
  std::fflush(stdout);
  return 0;
}

// Places regions ("address:size[:pool]" each) and checks their contents; prints "placed" and the backend's
// notes.
int place(const std::vector<std::string>& spans) {
  LaunchImage launch = kernel_launch("wild_store", {});  // not launched
  for (size_t i = 0; i < spans.size(); ++i) {
    uint64_t address = 0, size = 0;
    if (std::sscanf(spans[i].c_str(), "%lx:%lu", &address, &size) != 2) return 2;
    Bytes contents(size);
    for (size_t b = 0; b < contents.size(); b += 997) contents[b] = static_cast<std::byte>(b / 997 + i);
    add_region(launch, address, std::move(contents),
               spans[i].ends_with(":pool") ? bundle::RegionKind::async_pool : bundle::RegionKind::device);
  }
  Result<std::unique_ptr<Backend>> backend = make_driver_backend(DriverOptions{});
  if (!backend) return fail(backend.error());
  if (Status s = (*backend)->prepare(launch); !s) return fail(s.error());
  const Result<ModuleHandle> module = (*backend)->load(test_cubin());
  if (!module) return fail(module.error());
  if (Status s = (*backend)->restore(*module, RestoreScope::all); !s) return fail(s.error());
  const Result<std::vector<Bytes>> now = (*backend)->read_regions(*module);
  if (!now) return fail(now.error());
  fmt::print("{}", *now == launch.before ? "placed" : "wrong contents");
  for (const std::string& note : (*backend)->notes()) fmt::print("; {}", note);
  fmt::print("\n");
  std::fflush(stdout);
  return *now == launch.before ? 0 : 1;
}

// Runs a kernel that outlasts its watchdog, or one that faults; prints what the backend says then and
// afterwards.
int give_up(const std::string& kernel) {
  LaunchImage launch = kernel_launch(kernel, {});
  if (kernel == "spin") {
    add_region(launch, 0x7e4560000000, Bytes(64));
    set_params(launch, uint64_t{3'000'000'000}, uint64_t{0x7e4560000000});
  }
  DriverOptions options;
  options.watchdog_seconds = 1;
  Result<std::unique_ptr<Backend>> backend = make_driver_backend(options);
  if (!backend) return fail(backend.error());
  if (Status s = (*backend)->prepare(launch); !s) return fail(s.error());
  const Result<ModuleHandle> module = (*backend)->load(test_cubin());
  if (!module) return fail(module.error());
  if (Status s = (*backend)->restore(*module, RestoreScope::all); !s) return fail(s.error());
  const auto start = std::chrono::steady_clock::now();
  const Result<RunOutcome> outcome = (*backend)->run(*module);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (!outcome) return fail(outcome.error());
  const Result<RunOutcome> again = (*backend)->run(*module);
  fmt::print("completed={} after={:.1f} failure={} again={}\n", outcome->completed, took.count(),
             outcome->failure, again ? "runs" : again.error().message);
  std::fflush(stdout);
  backend->reset();  // must not wait for the kernel
  _exit(0);
}

}  // namespace

int fresh_process_main(const std::vector<std::string>& arguments) {
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (arguments[0] == "--allocate") return allocate();
  if (arguments[0] == "--place") return place(rest);
  if (arguments[0] == "--give-up" && rest.size() == 1) return give_up(rest[0]);
  return 2;
}

}  // namespace xtrace::replay
