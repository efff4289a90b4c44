// The CUPTI entry points that the recorder calls, from the libcupti that the application has loaded already
// or, when it has none, from the first place that has one. Two copies of CUPTI in a process do not work, so a
// loaded one wins.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "capture/bundle/record_settings.h"

namespace xtrace::inject {

struct CuptiApi {
  decltype(&::cuptiSubscribe) subscribe = nullptr;
  decltype(&::cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&::cuptiEnableCallback) enable_callback = nullptr;
  decltype(&::cuptiGetCallbackName) get_callback_name = nullptr;
  decltype(&::cuptiGetResultString) get_result_string = nullptr;
#if CUPTI_API_VERSION >= 130000
  decltype(&::cuptiSubscribe_v2) subscribe_v2 = nullptr;  // may be absent at run time
#endif
  std::string path;  // where it came from

  static Result<CuptiApi> load(const bundle::RecordSettings& settings);
  // Subscribes; environment error naming the holder when another tool holds CUPTI (with CUPTI 13, which
  // tells).
  Status attach(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user) const;
  std::string name_of(CUptiResult result) const;
};

// Paths to try, in order.
std::vector<std::string> cupti_candidates(const bundle::RecordSettings& settings,
                                          const std::string& own_directory);

}  // namespace xtrace::inject
