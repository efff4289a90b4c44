// Runs copies through tensor maps on the GPU: measure_tensor_maps CUBIN FOLDER LOADS STORES REDUCTIONS [SEED]. Writes
//   FOLDER/rows.txt    a row a copy: the case, the 128 bytes of its map, the digest of what it left
//   FOLDER/bytes.bin   what each copy left: in shared memory (loads) or in the tensor, 4 bytes of length and the bytes
//   FOLDER/encode.txt  more maps, with the arguments that gave them; no copy
// Every kind runs in a process of its own, 200 copies each: a fault ends those behind it and no others.
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "tests/driver_calls.h"
#include "tests/tensor_maps/cases.h"

namespace {

using namespace xtrace::tensor_maps;
using namespace xtrace::driver_calls;

struct Copy {
  uint32_t rank, operation;
  int32_t at[5];
  uint32_t offset, bytes, total;
};

CUresult encode(const Case& c, CUtensorMap& map) {
  std::memset(&map, 0, sizeof map);
  const cuuint64_t* stride = reinterpret_cast<const cuuint64_t*>(c.stride);
  return FIND(cuTensorMapEncodeTiled)(
      &map, static_cast<CUtensorMapDataType>(c.type), c.rank, reinterpret_cast<void*>(c.address),
      reinterpret_cast<const cuuint64_t*>(c.dim), stride, c.box, c.step, static_cast<CUtensorMapInterleave>(c.interleave),
      static_cast<CUtensorMapSwizzle>(c.swizzle), static_cast<CUtensorMapL2promotion>(c.l2),
      static_cast<CUtensorMapFloatOOBfill>(c.fill));
}

void print_map(FILE* f, const CUtensorMap& map) {
  for (unsigned i = 0; i < 16; ++i) std::fprintf(f, "%016llx", static_cast<unsigned long long>(map.opaque[i]));
}

// `given`: rows to run instead of drawn cases.
void run(Kind kind, uint64_t seed, unsigned count, const char* cubin, const std::string& folder, const Case* given = nullptr) {
  check(FIND(cuInit)(0), "cuInit");
  CUcontext context;
  CUdevice device;
  check(FIND(cuDeviceGet)(&device, 0), "cuDeviceGet");
  check(FIND(cuDevicePrimaryCtxRetain)(&context, device), "cuDevicePrimaryCtxRetain");
  check(FIND(cuCtxSetCurrent)(context), "cuCtxSetCurrent");
  CUmodule module;
  check(FIND(cuModuleLoad)(&module, cubin), "cuModuleLoad");
  CUfunction kernel;
  constexpr const char* kernels[] = {"tensor_load", "tensor_store", "tensor_reduce"};
  check(FIND(cuModuleGetFunction)(&kernel, module, kernels[static_cast<unsigned>(kind)]), "cuModuleGetFunction");
  constexpr uint64_t room = 1 << 20, out_bytes = 1 << 16;
  const auto alloc = find<CUresult(CUdeviceptr*, size_t)>("cuMemAlloc_v2");
  const auto upload = find<CUresult(CUdeviceptr, const void*, size_t)>("cuMemcpyHtoD_v2");
  const auto download = find<CUresult(void*, CUdeviceptr, size_t)>("cuMemcpyDtoH_v2");
  CUdeviceptr tensor, out;
  check(alloc(&tensor, room), "cuMemAlloc");
  check(alloc(&out, out_bytes), "cuMemAlloc");
  FILE* rows = std::fopen((folder + "/rows.txt").c_str(), "a");
  FILE* raw = std::fopen((folder + "/bytes.bin").c_str(), "a");
  for (unsigned done = 0; done < count; ++seed) {
    auto c = given != nullptr ? std::optional<Case>(*given) : draw(kind, seed);
    if (!c) continue;
    ++done;
    c->address = tensor + 4096 * (seed % 4) + 16 * (seed % 7);
    CUtensorMap map;
    if (const CUresult r = encode(*c, map); r != CUDA_SUCCESS) {
      std::fprintf(rows, "# refused %d %s\n", static_cast<int>(r), to_row(*c).c_str());
      continue;
    }
    const uint64_t size = tensor_bytes(*c);
    std::vector<uint8_t> bytes(size), result(out_bytes);
    for (uint64_t i = 0; i < size; ++i) bytes[i] = tensor_byte(i, c->type);
    check(upload(c->address, bytes.data(), size), "cuMemcpyHtoD");
    Copy copy{c->rank, c->operation, {}, c->offset, box_bytes(*c), shared_bytes(*c)};
    std::memcpy(copy.at, c->at, sizeof copy.at);
    void* arguments[] = {&map, &copy, &out};
    check(FIND(cuLaunchKernel)(kernel, 1, 1, 1, 128, 1, 1, 16 * 1024 + 4096, nullptr, arguments, nullptr), "cuLaunchKernel");
    if (const CUresult r = FIND(cuCtxSynchronize)(); r != CUDA_SUCCESS) {
      std::fprintf(rows, "# fault %d %s\n", static_cast<int>(r), to_row(*c).c_str());
      break;
    }
    check(download(result.data(), out, 16 + copy.total), "cuMemcpyDtoH");
    uint32_t status;
    std::memcpy(&status, result.data(), 4);
    uint32_t length = copy.total;
    const uint8_t* from = result.data() + 16;
    if (kind != Kind::load) {
      check(download(bytes.data(), c->address, size), "cuMemcpyDtoH");
      from = bytes.data(), length = static_cast<uint32_t>(size);
    }
    if (status != 0) std::fprintf(rows, "# timeout ");
    std::fprintf(rows, "%s ", to_row(*c).c_str());
    print_map(rows, map);
    std::fprintf(rows, " %016llx\n", static_cast<unsigned long long>(digest(from, length)));
    std::fwrite(&length, 1, 4, raw);
    std::fwrite(from, 1, length, raw);
    std::fflush(rows);
    if (status != 0) break;
  }
  std::fclose(rows);
  std::fclose(raw);
}

// Maps beside those of copies: every argument alone, and values that no copy here uses.
void encode_more(const std::string& folder) {
  check(FIND(cuInit)(0), "cuInit");
  CUcontext context;
  CUdevice device;
  check(FIND(cuDeviceGet)(&device, 0), "cuDeviceGet");
  check(FIND(cuDevicePrimaryCtxRetain)(&context, device), "cuDevicePrimaryCtxRetain");
  check(FIND(cuCtxSetCurrent)(context), "cuCtxSetCurrent");
  FILE* f = std::fopen((folder + "/encode.txt").c_str(), "w");
  const auto print = [&](const Case& c) {
    CUtensorMap map;
    const CUresult r = encode(c, map);
    std::fprintf(f, "%s ", to_row(c).c_str());
    if (r != CUDA_SUCCESS)
      std::fprintf(f, "error %d\n", static_cast<int>(r));
    else
      print_map(f, map), std::fprintf(f, "\n");
  };
  Case base;
  base.rank = 5, base.type = 2, base.address = 0x7f1234567890;
  for (unsigned d = 0; d < 5; ++d) base.dim[d] = 64, base.box[d] = 4;
  for (unsigned d = 0; d < 4; ++d) base.stride[d] = uint64_t{256} << (6 * d);
  print(base);
  const auto vary = [&](auto&& change) {
    Case c = base;
    change(c);
    print(c);
  };
  for (uint32_t rank = 1; rank <= 5; ++rank) vary([&](Case& c) { c.rank = rank; });
  for (uint32_t type = 0; type <= 15; ++type)
    vary([&](Case& c) { c.type = type, c.stride[0] = 512, c.dim[0] = 64, c.box[0] = 16; });
  for (unsigned bit = 4; bit < 49; ++bit) vary([&](Case& c) { c.address = uint64_t{1} << bit; });
  for (unsigned d = 0; d < 5; ++d) {
    for (unsigned bit = 0; bit <= 32; ++bit) vary([&](Case& c) { c.dim[d] = uint64_t{1} << bit, c.rank = d == 0 ? 1 : 5; });
    vary([&](Case& c) { c.dim[d] = 1; });
    for (uint32_t box : {1, 2, 3, 8, 16, 31, 32, 64, 128, 200, 256}) vary([&](Case& c) { c.box[d] = box; });
    for (uint32_t step = 1; step <= 9; ++step) vary([&](Case& c) { c.step[d] = step; });
  }
  for (unsigned d = 0; d < 4; ++d)
    for (unsigned bit = 4; bit <= 40; ++bit) vary([&](Case& c) { c.stride[d] = uint64_t{1} << bit, c.dim[0] = 4; });
  for (uint32_t v = 0; v < 3; ++v)
    for (uint32_t swizzle = 0; swizzle < 7; ++swizzle)
      for (uint32_t type : {2u, 6u, 7u})
        vary([&](Case& c) { c.interleave = v, c.swizzle = swizzle, c.type = type, c.box[0] = 8, c.address = 0x7f1234567880; });
  for (uint32_t l2 = 0; l2 < 4; ++l2) vary([&](Case& c) { c.l2 = l2; });
  for (uint32_t type : {6, 7, 8, 9, 10, 11, 12}) vary([&](Case& c) { c.fill = 1, c.type = type, c.box[0] = 16, c.stride[0] = 512; });
  // Pixels of an image, for what tells such maps apart.
  std::fprintf(f, "im2col ");
  CUtensorMap map{};
  const int lower[2] = {-1, -1}, upper[2] = {1, 1};
  const cuuint64_t dim[4] = {64, 32, 16, 8}, stride[3] = {256, 8192, 131072};
  const cuuint32_t step[4] = {1, 1, 1, 1};
  const CUresult r = FIND(cuTensorMapEncodeIm2col)(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, reinterpret_cast<void*>(base.address), dim, stride, lower, upper, 32, 64, step,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  print_map(f, map);
  std::fprintf(f, " %d\n", static_cast<int>(r));
  std::fclose(f);
}

template <typename F>
void in_process(F f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    f();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) std::fprintf(stderr, "a process ended with %d\n", status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s CUBIN FOLDER LOADS STORES REDUCTIONS [SEED]\n       %s CUBIN FOLDER ROW\n", argv[0], argv[0]);
    return 64;
  }
  xtrace::driver_calls::open();
  if (argc == 4) {
    const auto c = from_row(argv[3]);
    if (!c) return std::fprintf(stderr, "not a row: %s\n", argv[3]), 64;
    run(c->kind, 0, 1, argv[1], argv[2], &*c);
    return 0;
  }
  const uint64_t seed = argc > 6 ? std::strtoull(argv[6], nullptr, 0) : 1;
  in_process([&] { encode_more(argv[2]); });
  for (unsigned k = 0; k < 3; ++k) {
    const auto count = static_cast<unsigned>(std::strtoul(argv[3 + k], nullptr, 0));
    for (unsigned first = 0; first < count; first += 200)
      in_process([&] { run(static_cast<Kind>(k), seed + 1000 * first, std::min(200u, count - first), argv[1], argv[2]); });
  }
}
