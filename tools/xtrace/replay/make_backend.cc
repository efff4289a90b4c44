#include "tools/xtrace/replay/make_backend.h"

#include <unistd.h>

#include "capture/bundle/bundle_reader.h"
#include "replay/interp/interp_backend.h"
#include "replay/session.h"
#include "tools/xtrace/replay/message.h"
#include "tools/xtrace/replay/timing_process.h"
#include "tools/xtrace/replay/whole_launch.h"
#ifdef XTRACE_HAVE_CUDA
#include "replay/driver/driver_backend.h"
#endif

namespace xtrace::cli {
namespace {

Result<std::unique_ptr<replay::Backend>> make_driver(const ReplayOptions& options) {
#ifdef XTRACE_HAVE_CUDA
  replay::DriverOptions driver;
  driver.device = options.device;
  driver.watchdog_seconds = options.watchdog_seconds;
  return replay::make_driver_backend(driver);
#else
  (void)options;
  return with_hint(environment("this build of xtrace has no driver backend"),
                   "build it where the CUDA toolkit and CUPTI are installed");
#endif
}

}  // namespace

Result<std::unique_ptr<replay::Backend>> make_backend(const ReplayOptions& options, std::string& why) {
  if (options.backend == BackendChoice::interp || options.backend == BackendChoice::interp_late) {
    replay::InterpOptions interp;
    interp.late = options.backend == BackendChoice::interp_late;
    return replay::make_interp_backend(interp);
  }
  auto driver = make_driver(options);
  if (driver || driver.error().kind != ErrorKind::environment) return driver;
  if (options.backend == BackendChoice::driver) {
    std::string& hint = driver.error().hint;
    hint += std::string(hint.empty() ? "" : "; ") + "--backend=interp replays on the CPU";
    return driver;
  }
  if (options.device != 0) {   // asked for by number: the CPU is not what was meant
    driver.error().hint = "leave out --device to replay on the CPU where there is no GPU";
    return driver;
  }
  why = driver.error().message;
  return replay::make_interp_backend();
}

std::optional<int> served_as_timing_process() {
  const std::optional<int> fd = timing_socket();
  if (!fd) return std::nullopt;
  const auto hello = receive(*fd);
  if (!hello) return exit_internal;
  ReplayOptions options;
  options.backend = BackendChoice::driver;
  options.device = hello->at("device").get<int>();
  options.watchdog_seconds = hello->at("watchdog").get<double>();
  const auto reader = bundle::BundleReader::open(hello->at("bundle").get<std::string>());
  if (!send(*fd, reader ? nlohmann::json::object() : json_of(reader.error())) || !reader) return exit_internal;
  serve_timing(
      *fd,
      [&] {
        std::string why;
        return make_backend(options, why);
      },
      [&](uint64_t ordinal) { return load_whole_launch(**reader, ordinal); });
  ::_exit(0);   // a kernel that hangs would keep exit() waiting
}

}  // namespace xtrace::cli
