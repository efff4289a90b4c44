// What the scenarios of the recorded program share.
#pragma once

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/inject/fake/fake_driver.h"

using Scenarios = std::map<std::string, std::function<void()>>;
const Scenarios& graph_scenarios();  // graph_scenarios.cc

// Length and bytes of a cubin: the image format of the fake driver.
inline std::vector<char> image_of(const std::string& name) {
  std::ifstream in(std::string(XTRACE_SOURCE_DIR) + "/fixtures/cubins/sm_90/" + name + ".cubin",
                   std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (bytes.empty()) std::abort();
  const uint64_t size = bytes.size();
  std::vector<char> out(sizeof size + bytes.size());
  std::memcpy(out.data(), &size, sizeof size);
  std::memcpy(out.data() + sizeof size, bytes.data(), bytes.size());
  return out;
}

inline CUfunction function(const char* cubin, const char* name) {
  static std::map<std::string, CUmodule> modules;
  CUmodule& module = modules[cubin];
  if (module == nullptr) cuModuleLoadData(&module, image_of(cubin).data());
  CUfunction f = nullptr;
  cuModuleGetFunction(&f, module, name);
  return f;
}

inline CUdeviceptr floats(int n, float value) {
  CUdeviceptr p = 0;
  cuMemAlloc(&p, n * sizeof(float));
  const std::vector<float> data(n, value);
  cuMemcpyHtoD(p, data.data(), n * sizeof(float));
  return p;
}

inline CUresult scale(CUfunction f, CUdeviceptr data, float factor, int n, CUstream stream = nullptr) {
  void* params[] = {&data, &factor, &n};
  return cuLaunchKernel(f, 4, 1, 1, 128, 1, 1, 0, stream, params, nullptr);
}
