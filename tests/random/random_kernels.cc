// Runs every kernel of generate.py in the given cubins, one line a kernel: its name and the digest of what it
// left in memory, or why there is none.
//   random_kernels gpu|interp|late [--keep FILE] [--after KERNEL] [--only KERNEL] CUBIN...
// late: on the interpreter, with results as late as the control bits allow.
// --keep: what each kernel left, one behind the other, for `compare`. --after: those behind this one. --only: this one.
//   random_kernels compare CUBIN FILE [KERNEL]    the kept results of a GPU against the interpreter, word by
//   word
//   random_kernels paths gpu|interp CUBIN [KERNEL...]   which lanes each warp executed its blocks with, in order:
//   by probes, or by the interpreter's log
// Exit status: 0; 2 when the GPU can not go on behind the last line; 3 for bad input.
#include <fmt/format.h>

#include <fstream>
#include <map>
#include <set>

#include "base/file.h"
#include "replay/interp/interp_backend.h"
#include "tests/random/paths.h"

#ifdef XTRACE_RANDOM_DRIVER
#include "replay/driver/driver_backend.h"
#endif

namespace xtrace::random_kernels {
namespace {

[[noreturn]] void stop(const Error& e, int status = 3) {
  fmt::print(stderr, "random_kernels: {}\n", e.to_string());
  std::exit(status);
}
template <typename T>
T must(Result<T> r) {
  if (!r) stop(r.error());
  return std::move(*r);
}
void must(const Status& s) {
  if (!s) stop(s.error());
}

std::unique_ptr<replay::Backend> backend_of(const std::string& where) {
  if (where == "interp" || where == "late") {
    replay::InterpOptions options;
    options.late = where == "late";
    return replay::make_interp_backend(options);
  }
#ifdef XTRACE_RANDOM_DRIVER
  return must(replay::make_driver_backend({}));
#else
  stop(unsupported("this build has no driver backend: it was made without the CUDA toolkit").value());
#endif
}

struct Kept {
  std::ofstream out;
  void put(const std::string& kernel, const std::vector<Bytes>& contents) {
    if (!out.is_open()) return;
    for (size_t k = out_region; k < regions; ++k) {
      out << kernel << ' ' << contents[k].size() << '\n';
      out.write(reinterpret_cast<const char*>(contents[k].data()),
                static_cast<std::streamsize>(contents[k].size()));
    }
    out.flush();
  }
};

int run_all(const std::string& where, const std::vector<std::string>& cubins, Kept& kept, std::string after, const std::string& only) {
  const auto backend = backend_of(where);
  for (const std::string& file : cubins) {
    const Bytes cubin = must(read_file(file));
    for (const std::string& kernel : must(kernels_of(cubin))) {
      if (!after.empty()) {
        if (kernel == after) after.clear();
        continue;
      }
      if (!only.empty() && kernel != only) continue;
      const replay::LaunchImage launch = must(launch_of(cubin, kernel));
      must(backend->prepare(launch));
      const auto contents = run(*backend, launch, cubin);
      fmt::print("{} {}\n", kernel, contents ? digest(*contents) : contents.error().to_string());
      std::fflush(stdout);
      if (contents) kept.put(kernel, *contents);
      if (!contents && where == "gpu") return 2;
      must(backend->finish());
    }
  }
  return 0;
}

int compare(const std::string& cubin_file, const std::string& kept_file, const std::string& only) {
  std::map<std::string, std::vector<Bytes>> kept;
  std::ifstream in(kept_file, std::ios::binary);
  std::string kernel;
  for (size_t size = 0; in >> kernel >> size && in.get() == '\n';) {
    Bytes b(size);
    in.read(reinterpret_cast<char*>(b.data()), static_cast<std::streamsize>(size));
    kept[kernel].push_back(std::move(b));
  }
  const Bytes cubin = must(read_file(cubin_file));
  const auto backend = replay::make_interp_backend();
  for (const std::string& name : must(kernels_of(cubin))) {
    if (!kept.contains(name) || (!only.empty() && name != only)) continue;
    const replay::LaunchImage launch = must(launch_of(cubin, name));
    must(backend->prepare(launch));
    const auto contents = run(*backend, launch, cubin);
    must(backend->finish());
    if (!contents) {
      fmt::print("{} {}\n", name, contents.error().to_string());
      continue;
    }
    size_t shown = 0;
    for (size_t k = out_region; k < regions; ++k) {
      const Bytes &hardware = kept[name].at(k - out_region), &ours = (*contents)[k];
      const size_t row = k == out_region ? 32 : k == own_region ? 8 : 1;
      for (size_t w = 0; w + 4 <= ours.size(); w += 4) {
        const uint32_t a = must(read_at<uint32_t>(hardware, w, "word")), b = must(read_at<uint32_t>(ours, w, "word"));
        if (a != b && ++shown <= 12)
          fmt::print("{} region {} thread {} word {}: {:08x}, ours {:08x}\n", name, k, w / 4 / row, w / 4 % row, a, b);
      }
    }
    if (shown > 0) fmt::print("{}: {} words differ\n", name, shown);
  }
  return 0;
}

int paths(const std::string& where, const std::string& cubin_file, const std::set<std::string>& only) {
  const Bytes cubin = must(read_file(cubin_file));
  const auto backend = backend_of(where);
  for (const std::string& name : must(kernels_of(cubin))) {
    if (!only.empty() && !only.contains(name)) continue;
    const replay::LaunchImage launch = must(launch_of(cubin, name));
    std::string failure;
    Result<Paths> paths = Paths{};
    if (where == "gpu") {
      must(backend->prepare(launch));
      paths = traced_paths(*backend, launch, cubin);
      must(backend->finish());
    } else {
      paths = logged_paths(launch, cubin, failure);
    }
    if (!paths) failure = paths.error().to_string();
    else
      for (const auto& [warp, blocks] : *paths) {
        fmt::print("{} {}", name, warp);
        for (const BlockExecution& b : blocks) fmt::print(" {:x}:{:x}", b.pc, b.lanes);
        fmt::print("\n");
      }
    if (!failure.empty()) fmt::print("{} {}\n", name, failure);
    std::fflush(stdout);
    if (!paths && paths.error().kind == ErrorKind::device) return 2;
  }
  return 0;
}

int main_of(std::vector<std::string> a) {
  const auto option = [&](const char* name) {
    std::string value;
    for (size_t k = 1; k + 1 < a.size(); ++k)
      if (a[k] == name) {
        value = a[k + 1];
        a.erase(a.begin() + static_cast<long>(k), a.begin() + static_cast<long>(k) + 2);
        break;
      }
    return value;
  };
  const std::string keep = option("--keep"), after = option("--after"), only = option("--only");
  if (a.size() >= 3 && a[0] == "compare") return compare(a[1], a[2], a.size() > 3 ? a[3] : "");
  if (a.size() >= 3 && a[0] == "paths" && (a[1] == "gpu" || a[1] == "interp"))
    return paths(a[1], a[2], {a.begin() + 3, a.end()});
  if (a.size() < 2 || (a[0] != "gpu" && a[0] != "interp" && a[0] != "late")) {
    fmt::print(stderr, "usage: random_kernels gpu|interp|late [--keep FILE] [--after KERNEL] [--only KERNEL] CUBIN...\n"
                       "       random_kernels compare CUBIN FILE [KERNEL]\n"
                       "       random_kernels paths gpu|interp CUBIN [KERNEL...]\n");
    return 64;
  }
  Kept kept;
  if (!keep.empty()) kept.out.open(keep, std::ios::binary | std::ios::app);
  return run_all(a[0], {a.begin() + 1, a.end()}, kept, after, only);
}

}  // namespace
}  // namespace xtrace::random_kernels

int main(int argc, char** argv) {
  return xtrace::random_kernels::main_of(std::vector<std::string>(argv + 1, argv + argc));
}
