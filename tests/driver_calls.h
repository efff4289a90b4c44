// The driver for developers' programs that measure on a GPU: found at run time, so that they build where there is none. What
// fails ends the program with 3 and says what.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace xtrace::driver_calls {

inline void* library = nullptr;   // libcuda.so.1, once it is open
inline void open() {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) std::fprintf(stderr, "no libcuda.so.1\n"), std::exit(3);
}

template <typename F>
F* find(const char* name) {
  void* f = dlsym(library, name);
  if (f == nullptr) std::fprintf(stderr, "no %s\n", name), std::exit(3);
  return reinterpret_cast<F*>(f);
}
#define FIND(name) find<decltype(name)>(#name)

inline void check(CUresult r, const char* what) {
  if (r == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: error %d\n", what, static_cast<int>(r));
  std::exit(3);
}

}  // namespace xtrace::driver_calls
