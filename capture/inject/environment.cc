#include "capture/inject/environment.h"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iterator>

namespace xtrace::inject {
namespace {

std::string file_text(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> own_command() {
  std::vector<std::string> argv;
  const std::string text = file_text("/proc/self/cmdline");
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    argv.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return argv;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm tm{};
  gmtime_r(&now, &tm);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
  return text;
}

}  // namespace

std::string kernel_driver_version(const std::string& text) {
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Release Build ..."; open modules add words
  // before it.
  size_t at = 0;
  const size_t line_end = std::min(text.find('\n'), text.size());
  while (at < line_end) {
    const size_t begin = text.find_first_not_of(' ', at);
    if (begin == std::string::npos || begin >= line_end) break;
    const size_t end = std::min(text.find(' ', begin), line_end);
    const std::string word = text.substr(begin, end - begin);
    if (word.find_first_not_of("0123456789.") == std::string::npos && word.find('.') != std::string::npos)
      return word;
    at = end;
  }
  return {};
}

Result<bundle::Environment> query_environment(const DriverApi& api, CUdevice device) {
  bundle::Environment env;
  char name[256] = {};
  if (const CUresult r = api.cuDeviceGetName(name, sizeof(name) - 1, device); r != CUDA_SUCCESS)
    return xtrace::device("the name of device {} could not be had: {}", device, api.name_of(r));
  env.gpu_name = name;
  CUuuid uuid{};
  if (api.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS) {
    env.gpu_uuid = "GPU-";
    for (unsigned i = 0; i < sizeof(uuid.bytes); ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) env.gpu_uuid += '-';
      env.gpu_uuid += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
    }
  }
  auto get = [&](CUdevice_attribute attribute) -> uint32_t {
    int value = 0;
    return api.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value > 0
               ? static_cast<uint32_t>(value)
               : 0;
  };
  env.sm = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
           get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  env.sm_count = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  env.l2_bytes = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  env.sm_clock_khz = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  env.memory_clock_khz = get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  size_t total = 0;
  if (api.cuDeviceTotalMem(&total, device) == CUDA_SUCCESS) env.memory_bytes = total;
  int version = 0;
  if (api.cuDriverGetVersion(&version) == CUDA_SUCCESS) env.driver_version = static_cast<uint32_t>(version);
  env.kernel_driver = kernel_driver_version(file_text("/proc/driver/nvidia/version"));
  env.toolkit_version = CUDA_VERSION;
  char host[256] = {};
  if (::gethostname(host, sizeof(host) - 1) == 0) env.hostname = host;
  env.started_at = now_utc();
  env.command = own_command();
  return env;
}

}  // namespace xtrace::inject
