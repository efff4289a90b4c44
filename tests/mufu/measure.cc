// What the special function unit of this GPU gives: measure_mufu CUBIN FOLDER. Writes
//   FOLDER/h200.txt        sums over all operands (hash.h)
//   FOLDER/FUNCTION.bits   results as 32-bit words, for fit.py: rcp and ex2 of 1.0 to 2.0, lg2 likewise, rsq and sqrt to 4.0, tanh
//                          of 2^-8 to 8.0, sin of k * 2^-25 turns, k < 2^23
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/driver_calls.h"
#include "tests/mufu/hash.h"

namespace {

using namespace xtrace::mufu;
using namespace xtrace::driver_calls;

// The kernels with another function and type in their MUFU: bits [77:74] and [73:72].
std::string with_function(std::string cubin, unsigned code, unsigned type) {
  unsigned found = 0;
  for (size_t at = 0; at + 16 <= cubin.size(); at += 16) {
    uint64_t w[2];
    std::memcpy(w, &cubin[at], sizeof w);
    if ((w[0] & 0xffff) != 0x7308 || (w[1] & 0x3fff) != 0x0c00) continue;
    w[1] = (w[1] & ~uint64_t{0x3f00}) | code << 10 | type << 8;
    std::memcpy(&cubin[at], w, sizeof w);
    ++found;
  }
  if (found != 3) std::fprintf(stderr, "%u words of MUFU in the cubin, not 3\n", found), std::exit(3);
  return cubin;
}

class Unit {
 public:
  Unit(const std::string& cubin, CUdeviceptr room) : room_(room) {
    check(FIND(cuModuleLoadData)(&module_, cubin.data()), "cuModuleLoadData");
  }
  ~Unit() { FIND(cuModuleUnload)(module_); }
  std::vector<uint64_t> sums(unsigned blocks, unsigned count, unsigned shift, size_t n) {
    check(find<CUresult(CUdeviceptr, unsigned, size_t)>("cuMemsetD32_v2")(room_, 0, 2 * n), "cuMemsetD32");
    void* arguments[] = {&room_, &count, &shift};
    run("hash", blocks, arguments);
    return fetch<uint64_t>(n);
  }
  std::vector<uint32_t> words(uint32_t first, uint32_t count) {
    void* arguments[] = {&room_, &first, &count};
    run("words", (count + 255) / 256, arguments);
    return fetch<uint32_t>(count);
  }
  std::vector<uint32_t> points(float unit, uint32_t count) {
    void* arguments[] = {&room_, &unit, &count};
    run("points", (count + 255) / 256, arguments);
    return fetch<uint32_t>(count);
  }

 private:
  void run(const char* name, unsigned blocks, void** arguments) {
    CUfunction kernel;
    check(FIND(cuModuleGetFunction)(&kernel, module_, name), name);
    check(FIND(cuLaunchKernel)(kernel, blocks, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr), "cuLaunchKernel");
    check(FIND(cuCtxSynchronize)(), "cuCtxSynchronize");
  }
  template <typename T>
  std::vector<T> fetch(size_t n) {
    std::vector<T> v(n);
    check(find<CUresult(void*, CUdeviceptr, size_t)>("cuMemcpyDtoH_v2")(v.data(), room_, n * sizeof(T)), "cuMemcpyDtoH");
    return v;
  }
  CUmodule module_ = nullptr;
  CUdeviceptr room_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s CUBIN FOLDER\n", argv[0]), 64;
  xtrace::driver_calls::open();
  std::string cubin;
  if (FILE* f = std::fopen(argv[1], "rb")) {
    cubin.resize(1 << 20);
    cubin.resize(std::fread(cubin.data(), 1, cubin.size(), f));
    std::fclose(f);
  }
  check(FIND(cuInit)(0), "cuInit");
  CUcontext context;
  CUdevice device;
  check(FIND(cuDeviceGet)(&device, 0), "cuDeviceGet");
  check(FIND(cuDevicePrimaryCtxRetain)(&context, device), "cuDevicePrimaryCtxRetain");
  check(FIND(cuCtxSetCurrent)(context), "cuCtxSetCurrent");
  CUdeviceptr room;
  constexpr uint32_t octave = 1u << 23, most = 11 * octave;
  check(find<CUresult(CUdeviceptr*, size_t)>("cuMemAlloc_v2")(&room, size_t{4} * most), "cuMemAlloc");
  const std::string folder = argv[2];
  FILE* out = std::fopen((folder + "/h200.txt").c_str(), "w");
  if (out == nullptr) return std::fprintf(stderr, "can not write into %s\n", argv[2]), 3;
  const auto keep = [&](const char* name, const std::vector<uint32_t>& words) {
    FILE* f = std::fopen((folder + "/" + name + ".bits").c_str(), "wb");
    if (f == nullptr || std::fwrite(words.data(), 4, words.size(), f) != words.size()) std::exit(3);
    std::fclose(f);
  };
  for (const Function& f : functions) {
    Unit unit(with_function(cubin, f.code, 0), room);
    const auto sums = unit.sums(65536, 65536, 23, exponents);
    for (unsigned e = 0; e < exponents; ++e) {
      if (e % 8 == 0) std::fprintf(out, "%s%s %03x", e == 0 ? "" : "\n", f.name, e);
      std::fprintf(out, " %016llx", static_cast<unsigned long long>(sums[e]));
    }
    std::fprintf(out, "\n");
    const std::string name = f.name;
    if (name == "rcp" || name == "ex2" || name == "lg2") keep(f.name, unit.words(0x3f800000, octave));
    if (name == "rsq" || name == "sqrt") keep(f.name, unit.words(0x3f800000, 2 * octave));
    if (name == "tanh") keep(f.name, unit.words(0x3b800000, 11 * octave));
    if (name == "sin") keep(f.name, unit.points(0x1p-25f, octave));
    for (unsigned type = 1; type <= 2 && f.narrow; ++type)
      std::fprintf(out, "%s%s %016llx\n", f.name, type_names[type],
                   static_cast<unsigned long long>(Unit(with_function(cubin, f.code, type), room).sums(1, 65536, 31, 1)[0]));
  }
  std::fclose(out);
}
