// The part of CUDA's runtime that the programs in fixtures/ use, on the CPU interpreter: linked with such a
// program in place of cudart, every launch of it is executed on the CPU, and the program checks the results
// against its references.
//
// With XTRACE_BUNDLE=<directory> the launches are kept there as `xtrace record` would keep them.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "capture/bundle/bundle_writer.h"
#include "instrument/cubin/fatbin.h"
#include "instrument/cubin/kernel_info.h"
#include "replay/interp/interp_backend.h"
#include "replay/session.h"
#include "tests/tensor_maps/cases.h"

namespace xtrace {
namespace {

template <typename T>
T must(Result<T> r) {
  if (r) return std::move(*r);
  std::fprintf(stderr, "%s\n", r.error().to_string().c_str());
  std::exit(exit_code(r.error().kind));
}
void must(const Status& s) {
  if (s) return;
  std::fprintf(stderr, "%s\n", s.error().to_string().c_str());
  std::exit(exit_code(s.error().kind));
}

struct Variable {
  std::string name;
  bool constant = false;
  const Bytes* module = nullptr;
};
struct Allocation {
  Bytes bytes;
  std::optional<Variable> variable;
};
struct Function {
  const Bytes* module = nullptr;
  std::string name;
};

// What a process has of the runtime. Modules register before main: made when first used.
struct Runtime {
  std::map<const void*, Bytes> modules;  // cubins, by what stands for them
  std::map<const void*, Function> functions;
  std::map<const void*, uint64_t> variables;
  std::map<uint64_t, Allocation> memory;  // by device address
  uint64_t next_address = 0x7f0000000000;
  struct {
    dim3 grid, block;
    size_t shared = 0;
    cudaStream_t stream = nullptr;
  } configured;
  std::unique_ptr<bundle::BundleWriter> writer;
  uint64_t launches = 0;

  uint64_t allocate(size_t size) {
    constexpr uint64_t alignment = 2 << 20;  // and as much room between two
    const uint64_t at = next_address;
    next_address += align_up(size, alignment) + alignment;
    memory[at].bytes.resize(size);
    return at;
  }
  std::byte* bytes_at(uint64_t address, size_t size) {
    auto it = memory.upper_bound(address);
    if (it == memory.begin() || (--it, address - it->first + size > it->second.bytes.size()))
      must(Status(bad_input("no {} bytes of device memory at {:#x}", size, address)));
    return it->second.bytes.data() + (address - it->first);
  }
  cudaError_t launch(const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                     bool cooperative);
  void keep(replay::LaunchImage launch);
  void end();
};
Runtime& runtime() {
  static Runtime r;
  return r;
}

// EIATTR_CTA_PER_CLUSTER: the three numbers of __cluster_dims__.
Dim3 cluster_of(const cubin::Image& image, const cubin::KernelInfo& kernel) {
  constexpr uint8_t cta_per_cluster = 0x3d;
  if (kernel.info_section)
    for (const cubin::InfoRecord& r : must(image.info_records(*kernel.info_section)))
      if (r.attribute == cta_per_cluster && r.payload.size() == 12)
        return must(read_at<Dim3>(r.payload, 0, "cluster"));
  return {0, 0, 0};
}

cudaError_t Runtime::launch(const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                            bool cooperative) {
  const Function& f = functions.at(function);
  const cubin::Image image = must(cubin::Image::parse(*f.module));
  const cubin::KernelInfo kernel = must(cubin::kernel_info(image, f.name));
  replay::LaunchImage launch;
  bundle::LaunchRecord& r = launch.record;
  r.ordinal = launches++;
  r.kernel = f.name;
  r.api = "cudaLaunchKernel";
  r.grid = {grid.x, grid.y, grid.z};
  r.block = {block.x, block.y, block.z};
  r.cluster = cluster_of(image, kernel);
  r.dynamic_shared_bytes = static_cast<uint32_t>(shared);
  r.cooperative = cooperative;
  r.param_block.resize(kernel.param_bytes);
  for (const cubin::ParamInfo& p : kernel.params) {
    r.params.push_back({p.offset, p.size});
    std::memcpy(r.param_block.data() + p.offset, args[p.ordinal], p.size);
  }
  launch.code = *f.module;
  for (const auto& [address, a] : memory) {
    if (a.variable && a.variable->module != f.module) continue;
    bundle::Region region;
    region.address = {address};
    region.size = a.bytes.size();
    if (a.variable) {
      region.kind = a.variable->constant ? bundle::RegionKind::constant : bundle::RegionKind::global;
      region.symbol = a.variable->name;
    }
    r.regions.push_back(region);
    launch.before.push_back(a.bytes);
  }
  const auto backend = replay::make_interp_backend();
  must(backend->prepare(launch));
  const auto module = must(backend->load(launch.code));
  const replay::RunOutcome outcome = must(backend->run(module));
  if (!outcome.completed) {
    std::fprintf(stderr, "%s\n", outcome.failure.c_str());
    return cudaErrorLaunchFailure;
  }
  launch.after = must(backend->read_regions(module));
  for (size_t i = 0; i < r.regions.size(); ++i) memory[r.regions[i].address.value].bytes = launch.after[i];
  keep(std::move(launch));
  return cudaSuccess;
}

void Runtime::keep(replay::LaunchImage launch) {
  const char* directory = std::getenv("XTRACE_BUNDLE");
  if (directory == nullptr) return;
  if (writer == nullptr) {
    bundle::Environment e;
    e.gpu_name = "none (CPU interpreter)";
    e.sm = 90;
    writer = must(bundle::BundleWriter::create(directory, e, {}));
  }
  bundle::LaunchRecord& r = launch.record;
  r.code = must(writer->put_code(launch.code));
  for (size_t i = 0; i < r.regions.size(); ++i) {
    r.regions[i].before = must(writer->put_memory(launch.before[i]));
    r.regions[i].after = must(writer->put_memory(launch.after[i]));
  }
  must(writer->add_launch(r));
}

void Runtime::end() {
  if (writer == nullptr) return;
  bundle::BundleInfo info;
  info.launches_seen = launches;
  info.application_exit_status = 0;
  must(writer->finish(info));
  writer.reset();
}

uint64_t number(const void* p) { return reinterpret_cast<uint64_t>(p); }
void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace
}  // namespace xtrace

using xtrace::runtime;

// cuTensorMapEncodeTiled.
static CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dim,
                             const cuuint64_t* stride, const cuuint32_t* box, const cuuint32_t* step,
                             CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                             CUtensorMapFloatOOBfill fill) {
  xtrace::tensor_maps::Case c;
  c.type = type, c.rank = rank, c.address = reinterpret_cast<uint64_t>(address);
  std::copy(dim, dim + rank, c.dim);
  std::copy(stride, stride + rank - 1, c.stride);
  std::copy(box, box + rank, c.box);
  std::copy(step, step + rank, c.step);
  c.interleave = interleave, c.swizzle = swizzle, c.l2 = l2, c.fill = fill;
  const auto words = encoded(c);
  std::copy(words.begin(), words.end(), map->opaque);
  return CUDA_SUCCESS;
}

extern "C" {

cudaError_t cudaMalloc(void** p, size_t size) {
  *p = xtrace::pointer(runtime().allocate(size));
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  runtime().memory.erase(xtrace::number(p));
  return cudaSuccess;
}
cudaError_t cudaMemset(void* p, int value, size_t size) {
  std::memset(runtime().bytes_at(xtrace::number(p), size), value, size);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyHostToDevice)
    std::memcpy(runtime().bytes_at(xtrace::number(to), size), from, size);
  else if (kind == cudaMemcpyDeviceToHost)
    std::memcpy(to, runtime().bytes_at(xtrace::number(from), size), size);
  else
    return cudaErrorNotSupported;
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t size, size_t offset,
                               cudaMemcpyKind) {
  std::memcpy(runtime().bytes_at(runtime().variables.at(symbol) + offset, size), from, size);
  return cudaSuccess;
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t size, size_t offset, cudaMemcpyKind) {
  std::memcpy(to, runtime().bytes_at(runtime().variables.at(symbol) + offset, size), size);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult*) {
  if (std::strcmp(name, "cuTensorMapEncodeTiled") != 0) return cudaErrorNotSupported;
  *function = reinterpret_cast<void*>(&encode_tiled);
  return cudaSuccess;
}
cudaError_t cudaDeviceReset() {
  runtime().end();
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t e) {
  return e == cudaErrorLaunchFailure ? "launch failed" : "not supported";
}
const char* cudaGetErrorString(cudaError_t) { return "on the CPU interpreter"; }
cudaError_t cudaLaunchCooperativeKernel(const void* f, dim3 grid, dim3 block, void** args, size_t shared,
                                        cudaStream_t) {
  return runtime().launch(f, grid, block, args, shared, true);
}
// Launches come one after the other here: nothing overlaps.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* f, void** args) {
  for (unsigned k = 0; k < config->numAttrs; ++k)
    if (config->attrs[k].id != cudaLaunchAttributeProgrammaticStreamSerialization) return cudaErrorNotSupported;
  return runtime().launch(f, config->gridDim, config->blockDim, args, config->dynamicSmemBytes, false);
}

// --- what nvcc's host code calls
void** __cudaRegisterFatBinary(void* wrapper) {
  struct Wrapper {
    int magic, version;
    const std::byte* fatbin;
  };
  const std::byte* fatbin = static_cast<const Wrapper*>(wrapper)->fatbin;
  uint16_t header;
  uint64_t size;
  std::memcpy(&header, fatbin + 6, sizeof header);
  std::memcpy(&size, fatbin + 8, sizeof size);
  const xtrace::ByteView file(fatbin, header + size);
  xtrace::Bytes& module = runtime().modules[wrapper];
  for (const auto& entry : xtrace::must(xtrace::cubin::fatbin_entries(file)))
    if (entry.kind == xtrace::cubin::FatbinEntry::Kind::cubin)
      module = xtrace::must(xtrace::cubin::unwrap(file, entry));
  return reinterpret_cast<void**>(&module);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, void*, void*,
                            void*, void*, int*) {
  runtime().functions[host] = {reinterpret_cast<const xtrace::Bytes*>(module), name};
}
void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t size, int constant,
                       int) {
  const auto* module = reinterpret_cast<const xtrace::Bytes*>(handle);
  const uint64_t at = runtime().variables[host] = runtime().allocate(size);
  runtime().memory[at].variable = {name, constant != 0, module};
  const auto image = xtrace::must(xtrace::cubin::Image::parse(*module));
  const auto symbol = image.find_symbol(name);
  if (!symbol) return;
  const auto& [section, value] = std::pair{image.symbols()[*symbol].section, image.symbols()[*symbol].value};
  const xtrace::Bytes& data = image.sections()[section].data;
  if (data.size() >= value + size) std::memcpy(runtime().bytes_at(at, size), data.data() + value, size);
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  runtime().configured = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const auto& c = runtime().configured;
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t f, dim3 grid, dim3 block, void** args, size_t shared,
                               cudaStream_t) {
  return runtime().launch(f, grid, block, args, shared, false);
}
}
