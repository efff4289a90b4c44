// Programs for record_test.py, one case a run: every way in which an application reaches a kernel or memory
// that `xtrace record` claims to handle, and those that it must refuse. Each prints what it computed, so that
// the output of a recorded run can be compared with that of a plain one, and exits with 7.
//
// Build: nvcc -arch=sm_90 [--cudart=shared] record_cases.cu -o record_cases -ldl
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                                        \
  do {                                                                                     \
    const auto r = (call);                                                                 \
    if (static_cast<int>(r) != 0) {                                                        \
      std::printf("%s:%d: %s gives %d\n", __FILE__, __LINE__, #call, static_cast<int>(r)); \
      std::exit(1);                                                                        \
    }                                                                                      \
  } while (0)

// --- kernels
__global__ void scale(float* data, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= factor;
}

struct Node {
  Node* next;
  int value;
};
__global__ void chase(Node* node) {
  for (; node != nullptr; node = node->next) node->value += 1;
}

__constant__ float weights[64];
__device__ int calls_made = 100;
static __device__ float hidden_table[256];
__device__ float* table_pointer;
__global__ void with_variables(float* out) {
  hidden_table[threadIdx.x] += weights[threadIdx.x % 64];
  out[threadIdx.x] = hidden_table[threadIdx.x];
  if (threadIdx.x == 0) {
    ++calls_made;
    if (table_pointer != nullptr) table_pointer[0] += 1;
  }
}

template <int N>
struct Big {
  char filler;
  int values[N];
  int* out;
};
template <int N>
__global__ void big_params(const __grid_constant__ Big<N> big) {
  big.out[threadIdx.x] = big.values[threadIdx.x] + big.filler;
}

__global__ void no_params() {
  if (threadIdx.x == 0) atomicAdd(&calls_made, 1);
}

__global__ void __cluster_dims__(2, 1, 1) fixed_cluster(int* out) {
  if (threadIdx.x == 0)
    out[blockIdx.x] = static_cast<int>(cooperative_groups::this_cluster().block_rank()) + 1;
}
__global__ void free_cluster(int* out) {
  if (threadIdx.x == 0) out[blockIdx.x] = static_cast<int>(cooperative_groups::this_cluster().num_blocks());
}
__global__ void cooperative(int* out) {
  if (threadIdx.x == 0) atomicAdd(&out[0], 1);
  cooperative_groups::this_grid().sync();
  if (threadIdx.x == 0 && blockIdx.x == 0) out[1] = out[0];
}
__global__ void wait_for(volatile int* flag) {
  while (*flag == 0) {
  }
}
__global__ void store_through(int* p, int value) { *p = value; }
__global__ void with_tensor_map(const __grid_constant__ CUtensorMap map, int* out) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
  if (threadIdx.x == 0) *out = 1;
}

// --- the driver, as libraries get at it: by name
template <typename F>
F driver(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  void* p = library != nullptr ? dlsym(library, name) : nullptr;
  if (p == nullptr) {
    std::printf("no %s\n", name);
    std::exit(1);
  }
  return reinterpret_cast<F>(p);
}
#define DRIVER(name, symbol) driver<decltype(&name)>(symbol)

float* floats(int n, float value) {
  float* p = nullptr;
  CHECK(cudaMalloc(&p, n * sizeof(float)));
  const std::vector<float> host(n, value);
  CHECK(cudaMemcpy(p, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  return p;
}
template <typename T>
void show(const char* what, const T* device, int n) {
  std::vector<T> host(n);
  CHECK(cudaMemcpy(host.data(), device, n * sizeof(T), cudaMemcpyDefault));
  double sum = 0;
  for (const T& v : host) sum += static_cast<double>(v);
  std::printf("%s %.6g\n", what, sum);
}

// --- cases
void plain() {
  float* data = floats(100000, 1);
  floats(5000, 2);  // reached by nothing
  for (int i = 0; i < 3; ++i) scale<<<400, 256>>>(data, 2, 100000);
  show("scale", data, 100000);
}

void pointers() {
  Node* nodes[3];
  for (Node*& n : nodes) CHECK(cudaMalloc(&n, sizeof(Node)));
  for (int i = 0; i < 3; ++i) {
    const Node host{i < 2 ? nodes[i + 1] : nullptr, i};
    CHECK(cudaMemcpy(nodes[i], &host, sizeof(host), cudaMemcpyHostToDevice));
  }
  chase<<<1, 1>>>(nodes[0]);
  Node last;
  CHECK(cudaMemcpy(&last, nodes[2], sizeof(last), cudaMemcpyDeviceToHost));
  std::printf("chase %d\n", last.value);
}

void variables() {
  std::vector<float> w(64, 0.5f);
  CHECK(cudaMemcpyToSymbol(weights, w.data(), 256));
  float* table = floats(4, 0);
  CHECK(cudaMemcpyToSymbol(table_pointer, &table, sizeof(table)));
  float* out = floats(256, 0);
  with_variables<<<1, 256>>>(out);
  show("variables", out, 256);
  show("table", table, 4);
}

void big() {
  int* out = nullptr;
  CHECK(cudaMalloc(&out, 256 * sizeof(int)));
  Big<2000> b;
  std::memset(&b, 0x5a, sizeof(b));  // filth in the padding
  b.filler = 3;
  for (int& v : b.values) v = 1;
  b.out = out;
  big_params<2000><<<1, 256>>>(b);
  show("big", out, 256);
}

void zero_params() {
  no_params<<<2, 32>>>();
  CHECK(cudaDeviceSynchronize());
  std::printf("done\n");
}

void extra() {
  cudaFunction_t f;
  CHECK(cudaGetFuncBySymbol(&f, reinterpret_cast<const void*>(scale)));
  float* data = floats(1000, 1);
  unsigned char buffer[16];
  const float factor = 3;
  const int n = 1000;
  std::memcpy(buffer, &data, 8);
  std::memcpy(buffer + 8, &factor, 4);
  std::memcpy(buffer + 12, &n, 4);
  size_t size = sizeof(buffer);
  void* config[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                    CU_LAUNCH_PARAM_END};
  CHECK(DRIVER(cuLaunchKernel, "cuLaunchKernel")(f, 4, 1, 1, 256, 1, 1, 0, nullptr, nullptr, config));
  show("extra", data, 1000);
}

void clusters() {
  int* out = nullptr;
  CHECK(cudaMalloc(&out, 8 * sizeof(int)));
  CHECK(cudaMemset(out, 0, 8 * sizeof(int)));
  fixed_cluster<<<4, 32>>>(out);
  show("fixed", out, 4);
  cudaLaunchConfig_t config{};
  config.gridDim = 8;
  config.blockDim = 32;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {4, 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attributes;
  config.numAttrs = 2;
  CHECK(cudaLaunchKernelEx(&config, free_cluster, out));
  show("free", out, 8);
}

void coop() {
  int* out = nullptr;
  CHECK(cudaMalloc(&out, 2 * sizeof(int)));
  CHECK(cudaMemset(out, 0, 2 * sizeof(int)));
  void* params[] = {&out};
  CHECK(cudaLaunchCooperativeKernel(cooperative, dim3(16), dim3(64), params));
  show("cooperative", out, 2);
}

void async_pool() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  float *a = nullptr, *b = nullptr;
  CHECK(cudaMallocAsync(&a, 40000, stream));
  CHECK(cudaMallocAsync(&b, 40000, stream));
  CHECK(cudaMemsetAsync(a, 0, 40000, stream));
  CHECK(cudaFreeAsync(b, stream));
  scale<<<40, 256, 0, stream>>>(a, 2, 10000);
  CHECK(cudaStreamSynchronize(stream));
  show("async", a, 10000);
}

void managed() {
  float* data = nullptr;
  CHECK(cudaMallocManaged(&data, 4000));
  for (int i = 0; i < 1000; ++i) data[i] = 1;
  scale<<<4, 256>>>(data, 2, 1000);
  CHECK(cudaDeviceSynchronize());
  std::printf("managed %g\n", data[999]);
}

void pitched() {
  float* data = nullptr;
  size_t pitch = 0;
  CHECK(cudaMallocPitch(&data, &pitch, 1000, 17));
  CHECK(cudaMemset(data, 0, pitch * 17));
  scale<<<4, 256>>>(data, 2, 250);
  show("pitched", data, 250);
}

// A buffer over three mappings without a gap; the kernel gets the address of the first.
void vmm() {
  int device = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaFree(nullptr));
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  size_t piece = 0;
  CHECK(DRIVER(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity")(
      &piece, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUdeviceptr base = 0;
  CHECK(DRIVER(cuMemAddressReserve, "cuMemAddressReserve")(&base, 4 * piece, 0, 0, 0));
  for (int i = 0; i < 3; ++i) {
    CUmemGenericAllocationHandle handle;
    CHECK(DRIVER(cuMemCreate, "cuMemCreate")(&handle, piece, &prop, 0));
    CHECK(DRIVER(cuMemMap, "cuMemMap")(base + i * piece, piece, 0, handle, 0));
  }
  CUmemAccessDesc access{};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(DRIVER(cuMemSetAccess, "cuMemSetAccess")(base, 3 * piece, &access, 1));
  const int n = static_cast<int>(3 * piece / sizeof(float));
  CHECK(cudaMemset(reinterpret_cast<void*>(base), 0, 3 * piece));
  scale<<<(n + 255) / 256, 256>>>(reinterpret_cast<float*>(base), 2, n);
  show("vmm", reinterpret_cast<float*>(base), n);
}

void pinned() {
  float* host = nullptr;
  CHECK(cudaMallocHost(&host, 4000));
  for (int i = 0; i < 1000; ++i) host[i] = 1;
  scale<<<4, 256>>>(host, 2, 1000);
  CHECK(cudaDeviceSynchronize());
  std::printf("pinned %g\n", host[0]);
}

void graph() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  float* data = floats(1000, 1);
  cudaGraph_t g;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  scale<<<4, 256, 0, stream>>>(data, 2, 1000);
  CHECK(cudaStreamEndCapture(stream, &g));
  CHECK(cudaGraphInstantiate(&exec, g, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  scale<<<4, 256, 0, stream>>>(data, 2, 1000);
  CHECK(cudaStreamSynchronize(stream));
  show("graph", data, 1000);
}

// The tensor is reached through the descriptor alone.
void tensor_map() {
  float* data = floats(64 * 64, 1);
  int* out = nullptr;
  CHECK(cudaMalloc(&out, 4));
  CUtensorMap map;
  const cuuint64_t size[] = {64, 64}, stride[] = {64 * sizeof(float)};
  const cuuint32_t box[] = {16, 16}, step[] = {1, 1};
  CHECK(DRIVER(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled")(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, data, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  with_tensor_map<<<1, 32>>>(map, out);
  show("tensor map", out, 1);
}

void failing_launch() {
  float* data = floats(8, 1);
  scale<<<1, 4096>>>(data, 2, 8);
  std::printf("launch %d\n", static_cast<int>(cudaGetLastError()));
}

void fault() {
  int* p = nullptr;
  CHECK(cudaMalloc(&p, 4));
  store_through<<<1, 1>>>(p, 1);
  store_through<<<1, 1>>>(reinterpret_cast<int*>(0x1000), 1);
  std::printf("wait %d\n", static_cast<int>(cudaDeviceSynchronize()));
}

// A kernel that waits for the host, and a launch beside it.
void busy() {
  int *flag = nullptr, *device_flag = nullptr;
  CHECK(cudaHostAlloc(&flag, 4, cudaHostAllocMapped));
  *flag = 0;
  CHECK(cudaHostGetDevicePointer(&device_flag, flag, 0));
  cudaStream_t a, b;
  CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  float* data = floats(8, 1);
  scale<<<1, 8, 0, b>>>(data, 2, 8);  // everything is loaded before the device is busy
  CHECK(cudaStreamSynchronize(b));
  wait_for<<<1, 1, 0, a>>>(device_flag);
  scale<<<1, 8, 0, b>>>(data, 2, 8);
  *const_cast<volatile int*>(flag) = 1;
  CHECK(cudaDeviceSynchronize());
  scale<<<1, 8, 0, b>>>(data, 2, 8);
  CHECK(cudaStreamSynchronize(b));  // which no copy waits for
  show("busy", data, 8);
}

void threads() {
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t)
    all.emplace_back([] {
      cudaStream_t s;
      CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
      float* data = floats(1000, 1);
      for (int i = 0; i < 10; ++i) {
        float* other = floats(100, 0);
        scale<<<4, 256, 0, s>>>(data, 1, 1000);
        CHECK(cudaFree(other));
      }
      CHECK(cudaStreamSynchronize(s));
    });
  for (std::thread& t : all) t.join();
  std::printf("threads\n");
}

// Two modules that define a kernel of the same name and shape: argv[2] and argv[3], made by record_test.py.
std::string module_files[2];
void twins() {
  CHECK(cudaFree(nullptr));
  CUfunction functions[2];
  for (int i = 0; i < 2; ++i) {
    std::ifstream in(module_files[i], std::ios::binary);
    const std::string image((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    CUmodule module;
    CHECK(DRIVER(cuModuleLoadData, "cuModuleLoadData")(&module, image.data()));
    CHECK(DRIVER(cuModuleGetFunction, "cuModuleGetFunction")(&functions[i], module, "twin"));
  }
  float* data = floats(32, 1);
  void* params[] = {&data};
  for (CUfunction f : functions)
    CHECK(DRIVER(cuLaunchKernel, "cuLaunchKernel")(f, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
  show("twins", data, 32);
}

void many() {
  float* data = floats(32, 1);
  for (int i = 0; i < 20000; ++i) scale<<<1, 32>>>(data, 1, 32);
  show("many", data, 32);
}

// 1 GiB that neither repeats nor compresses, for the speed of a snapshot and for a disk that it fills.
void gigabyte() {
  float* data = nullptr;
  CHECK(cudaMalloc(&data, 1 << 30));
  std::vector<uint64_t> noise(1 << 20);
  uint64_t x = 1;
  for (size_t at = 0; at < (1u << 30); at += noise.size() * 8) {
    for (uint64_t& v : noise) v = (x = x * 6364136223846793005u + 1442695040888963407u) ^ (x >> 32);
    CHECK(cudaMemcpy(reinterpret_cast<char*>(data) + at, noise.data(), noise.size() * 8,
                     cudaMemcpyHostToDevice));
  }
  scale<<<1, 32>>>(data, 1, 32);
  CHECK(cudaDeviceSynchronize());
  std::printf("gigabyte\n");
}

void killed() {
  plain();
  std::fflush(stdout);
  raise(SIGKILL);
}
void no_handlers() {
  plain();
  std::fflush(stdout);
  _exit(7);
}

const std::map<std::string, std::function<void()>> cases = {
    {"plain", plain},
    {"pointers", pointers},
    {"variables", variables},
    {"big", big},
    {"zero_params", zero_params},
    {"extra", extra},
    {"clusters", clusters},
    {"coop", coop},
    {"async_pool", async_pool},
    {"managed", managed},
    {"pitched", pitched},
    {"vmm", vmm},
    {"pinned", pinned},
    {"graph", graph},
    {"tensor_map", tensor_map},
    {"failing_launch", failing_launch},
    {"fault", fault},
    {"busy", busy},
    {"threads", threads},
    {"twins", twins},
    {"many", many},
    {"gigabyte", gigabyte},
    {"killed", killed},
    {"no_handlers", no_handlers},
};

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "list") {
    for (const auto& [name, run] : cases) std::printf("%s\n", name.c_str());
    return 0;
  }
  const auto it = argc > 1 ? cases.find(argv[1]) : cases.end();
  if (it == cases.end()) {
    std::printf("usage: record_cases CASE | list\n");
    return 2;
  }
  for (int i = 0; i < 2 && argc > i + 2; ++i) module_files[i] = argv[i + 2];
  it->second();
  return 7;
}
