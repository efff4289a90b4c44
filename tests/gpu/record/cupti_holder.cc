// Takes CUPTI before CUDA starts, as a profiler inside an application does, then uses CUDA. record_test.py
// passes the path of libcupti.
#include <dlfcn.h>

#include <cstdio>

extern "C" {
using Subscribe = int (*)(void**, void (*)(void*, int, unsigned, const void*), void*);
using Init = int (*)(unsigned);
}

int main(int argc, char** argv) {
  void* cupti = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : nullptr;
  const auto subscribe =
      cupti != nullptr ? reinterpret_cast<Subscribe>(dlsym(cupti, "cuptiSubscribe")) : nullptr;
  if (subscribe == nullptr) return std::printf("no CUPTI\n"), 1;
  void* subscriber = nullptr;
  std::printf("subscribe %d\n", subscribe(
                                    &subscriber, [](void*, int, unsigned, const void*) {}, nullptr));
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
  const auto init = cuda != nullptr ? reinterpret_cast<Init>(dlsym(cuda, "cuInit")) : nullptr;
  std::printf("init %d\n", init != nullptr ? init(0) : -1);
  return 7;
}
