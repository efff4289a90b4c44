#include "capture/inject/cupti_api.h"

#include <dlfcn.h>

namespace xtrace::inject {
namespace {

constexpr const char* sonames[] = {"libcupti.so.13", "libcupti.so.12"};

Result<void*> open_library(const bundle::RecordSettings& settings, std::string* path) {
  if (!settings.cupti.empty()) {
    *path = settings.cupti;
    if (void* handle = dlopen(settings.cupti.c_str(), RTLD_NOW)) return handle;
    const char* why = dlerror();
    return environment("can not load {}: {}", settings.cupti, why != nullptr ? why : "unknown reason");
  }
  for (const char* name : sonames)
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) {
      *path = fmt::format("{} (loaded by the application)", name);
      return handle;
    }
  Dl_info own{};
  std::string own_directory;
  if (dladdr(reinterpret_cast<const void*>(&cupti_candidates), &own) != 0 && own.dli_fname != nullptr)
    own_directory = std::string(own.dli_fname).substr(0, std::string(own.dli_fname).rfind('/'));
  const std::vector<std::string> candidates = cupti_candidates(settings, own_directory);
  for (const std::string& candidate : candidates)
    if (void* handle = dlopen(candidate.c_str(), RTLD_NOW)) {
      *path = candidate;
      return handle;
    }
  return with_hint(
      environment("no libcupti.so.13 or .12 found in {} places", candidates.size()),
      "name it with --cupti PATH; it comes with the CUDA toolkit (extras/CUPTI/lib64) and with the Python "
      "package nvidia-cuda-cupti");
}

}  // namespace

std::vector<std::string> cupti_candidates(const bundle::RecordSettings& settings,
                                          const std::string& own_directory) {
  std::vector<std::string> out;
  std::vector<std::string> directories;
  if (!own_directory.empty()) directories.push_back(own_directory);
  for (size_t at = 0; at <= settings.cupti_paths.size() && !settings.cupti_paths.empty();) {
    const size_t end = std::min(settings.cupti_paths.find(':', at), settings.cupti_paths.size());
    if (end > at) directories.push_back(settings.cupti_paths.substr(at, end - at));
    at = end + 1;
  }
  for (const char* name : sonames) {
    for (const std::string& d : directories) out.push_back(d + "/" + name);
    out.push_back(name);  // the loader's own search: LD_LIBRARY_PATH, ld.so.cache
  }
  return out;
}

Result<CuptiApi> CuptiApi::load(const bundle::RecordSettings& settings) {
  CuptiApi api;
  XT_TRY(void* library, open_library(settings, &api.path));
#define XT_OPTIONAL(member, symbol) \
  api.member = reinterpret_cast<decltype(api.member)>(dlsym(library, symbol));
#define XT_REQUIRED(member, symbol) \
  XT_OPTIONAL(member, symbol)       \
  if (api.member == nullptr) return environment("{} has no {}", api.path, symbol);
  XT_REQUIRED(subscribe, "cuptiSubscribe")
  XT_REQUIRED(unsubscribe, "cuptiUnsubscribe")
  XT_REQUIRED(enable_callback, "cuptiEnableCallback")
  XT_REQUIRED(get_callback_name, "cuptiGetCallbackName")
  XT_REQUIRED(get_result_string, "cuptiGetResultString")
#if CUPTI_API_VERSION >= 130000
  XT_OPTIONAL(subscribe_v2, "cuptiSubscribe_v2")
#endif
#undef XT_REQUIRED
#undef XT_OPTIONAL
  return api;
}

std::string CuptiApi::name_of(CUptiResult result) const {
  const char* text = nullptr;
  if (get_result_string(result, &text) == CUPTI_SUCCESS && text != nullptr) return text;
  return fmt::format("CUptiResult {}", static_cast<int>(result));
}

Status CuptiApi::attach(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user) const {
  std::string holder;
  CUptiResult result = CUPTI_ERROR_UNKNOWN;
#if CUPTI_API_VERSION >= 130000
  if (subscribe_v2 != nullptr) {
    char name[2 * CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = {};
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "xtrace";
    params.oldSubscriberName = name;
    params.oldSubscriberSize = sizeof(name);
    result = subscribe_v2(subscriber, callback, user, &params);
    name[sizeof(name) - 1] = 0;
    holder = name;
  } else {
    result = subscribe(subscriber, callback, user);
  }
#else
  result = subscribe(subscriber, callback, user);
#endif
  if (result == CUPTI_SUCCESS) return {};
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    return with_hint(environment("CUPTI is taken by {}: only one tool a process can hold it",
                                 holder.empty() ? std::string("another tool, which this CUPTI does not name")
                                                : fmt::format("\"{}\"", holder)),
                     "run the application without the other profiler, debugger or sanitizer");
  return environment("cuptiSubscribe failed: {} (with {})", name_of(result), path);
}

}  // namespace xtrace::inject
