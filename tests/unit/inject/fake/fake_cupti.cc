// libcupti.so.13: keeps one subscriber, on behalf of the fake driver. FAKE_CUPTI_TAKEN in the environment
// makes it taken.
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/unit/inject/fake/fake_driver.h"

namespace {

struct Name {
  uint32_t id;
  const char* text;
};
const Name names[] = {{CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2, "cuMemcpyHtoD_v2"},
                      {CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync_v2"},
                      {900, "cuLaunchKernelOfTomorrow"}};

}  // namespace

extern "C" {

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* user) {
  return cuptiSubscribe_v2(handle, callback, user, nullptr);
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* user,
                              CUpti_SubscriberParams* params) {
  if (const char* holder = std::getenv("FAKE_CUPTI_TAKEN")) {
    if (params != nullptr && params->oldSubscriberName != nullptr)
      std::strncpy(params->oldSubscriberName, holder, params->oldSubscriberSize);
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  fake_set_subscriber(reinterpret_cast<fake_callback>(callback), user);
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(1);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  fake_set_subscriber(nullptr, nullptr);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                CUpti_CallbackId id) {
  fake_enable(domain, id, static_cast<int>(enable));
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, uint32_t id, const char** name) {
  for (const Name& n : names)
    if (n.id == id) {
      *name = n.text;
      return CUPTI_SUCCESS;
    }
  return CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_FAKE";
  return CUPTI_SUCCESS;
}
}
