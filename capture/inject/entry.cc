// What the driver calls when CUDA_INJECTION64_PATH names this library; the only place with global state.
#include <unistd.h>

#include <cstdlib>

#include "capture/inject/recorder.h"

namespace xtrace::inject {
namespace {

Recorder* recorder = nullptr;  // made once, never destroyed: callbacks can outlive every destructor

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                          const void* data) noexcept {
  if (recorder == nullptr || data == nullptr) return;
  try {
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
      recorder->on_driver(cbid, *static_cast<const CUpti_CallbackData*>(data));
    else if (domain == CUPTI_CB_DOMAIN_RESOURCE)
      recorder->on_resource(cbid, *static_cast<const CUpti_ResourceData*>(data));
  } catch (const std::exception& e) {
    recorder->stop(
        Error{ErrorKind::internal, std::string("an exception in the recorder: ") + e.what(), {}, {}});
  } catch (...) {
    recorder->stop(Error{ErrorKind::internal, "an exception in the recorder", {}, {}});
  }
}

void on_exit() noexcept {
  if (recorder != nullptr) recorder->finish();
}

Status start() {
  XT_TRY(const bundle::RecordSettings settings,
         bundle::settings_from_environment([](const char* n) { return std::getenv(n); }));
  if (!MessageFile::claim(settings.session)) {
    MessageFile(settings.session)
        .add(bundle::message_warning,
             fmt::format("process {} also uses CUDA and is not recorded: the first one is", ::getpid()));
    return {};
  }
  auto begin = [&]() -> Status {
    XT_TRY(const bundle::LaunchSpec spec, bundle::LaunchSpec::parse(settings.launches));
    XT_TRY(LaunchSelector selector, LaunchSelector::make(settings.kernel, spec));
    XT_TRY(const DriverApi driver, DriverApi::load());
    XT_TRY(const CuptiApi cupti, CuptiApi::load(settings));
    recorder = new Recorder(settings, std::move(selector), driver, cupti);
    return recorder->attach(on_callback, nullptr);
  };
  if (const Status s = begin(); !s) {
    if (recorder != nullptr) {
      recorder->stop(s.error());
      return {};
    }
    MessageFile(settings.session).add(bundle::message_fatal, s.error().to_string());
    return {};
  }
  if (std::atexit([] { on_exit(); }) != 0)
    recorder->stop(Error{ErrorKind::environment,
                         "no exit handler can be registered: the bundle could not be completed",
                         {},
                         {}});
  return {};
}

}  // namespace
}  // namespace xtrace::inject

// Returns 1 in every case: a recording that can not start must not change what the application does.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() noexcept {
  try {
    const xtrace::Status ignored = xtrace::inject::start();
    static_cast<void>(ignored);  // only the settings can fail here, and then there is no session to report to
  } catch (...) {
  }
  return 1;
}
