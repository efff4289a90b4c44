#include "replay/driver/loaded_module.h"

#include <elf.h>

#include "replay/address_plan.h"

namespace xtrace::replay {

using bundle::LaunchRecord;
using bundle::Region;

CUlaunchConfig LaunchContext::config(CUstream stream) {
  CUlaunchConfig c{};
  c.gridDimX = record.grid.x;
  c.gridDimY = record.grid.y;
  c.gridDimZ = record.grid.z;
  c.blockDimX = record.block.x;
  c.blockDimY = record.block.y;
  c.blockDimZ = record.block.z;
  c.sharedMemBytes = record.dynamic_shared_bytes;
  c.hStream = stream;
  c.attrs = setup.attributes.data();
  c.numAttrs = static_cast<unsigned>(setup.attributes.size());
  return c;
}

Status check_elf_extent(ByteView elf) {
  XT_TRY(const Elf64_Ehdr header, read_at<Elf64_Ehdr>(elf, 0, "ELF header of a cubin"));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return bad_input("not a cubin: expected the ELF magic, found {:02x} {:02x} {:02x} {:02x}",
                     header.e_ident[0], header.e_ident[1], header.e_ident[2], header.e_ident[3]);
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return bad_input("not a cubin: expected a 64-bit ELF file");
  if (header.e_shentsize != sizeof(Elf64_Shdr) ||
      (header.e_phnum > 0 && header.e_phentsize != sizeof(Elf64_Phdr)))
    return bad_input("malformed cubin: section headers of {} bytes, expected {}", header.e_shentsize,
                     sizeof(Elf64_Shdr));
  XT_TRY(ByteView program, slice(elf, header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr),
                                 "program header table of a cubin"));
  static_cast<void>(program);
  for (uint32_t i = 0; i < header.e_shnum; ++i) {
    XT_TRY(const Elf64_Shdr s, read_at<Elf64_Shdr>(elf, header.e_shoff + uint64_t{i} * sizeof(Elf64_Shdr),
                                                   "section header of a cubin"));
    if (s.sh_type == SHT_NOBITS || s.sh_type == SHT_NULL) continue;
    XT_TRY(ByteView contents, slice(elf, s.sh_offset, s.sh_size, fmt::format("section {} of a cubin", i)));
    static_cast<void>(contents);
  }
  return {};
}

namespace {

std::string where(const PointerHit& hit, const LaunchRecord& record) {
  if (!hit.region) return fmt::format("the parameters at offset {:#x}", hit.offset);
  return fmt::format("{} at offset {:#x}", describe(*hit.region, record.regions[*hit.region]), hit.offset);
}

Result<BoundVariable> bind_variable(const DriverApi& api, CUmodule module, const LaunchContext& launch,
                                    size_t i) {
  const Region& r = launch.record.regions[i];
  CUdeviceptr live = 0;
  size_t size = 0;
  const CUresult found = api.ModuleGetGlobal(&live, &size, module, r.symbol.c_str());
  if (found == CUDA_ERROR_NOT_FOUND)
    return unsupported("the code has no module variable {}, which was recorded as {}", r.symbol,
                       describe(i, r));
  XT_TRY_STATUS(api.check(found, fmt::format("cuModuleGetGlobal({})", r.symbol)));
  if (size != r.size)
    return unsupported("module variable {} has {} bytes in the loaded code, {} were recorded", r.symbol, size,
                       r.size);
  if (live != r.address.value && i < launch.pointer_hits.size() && launch.pointer_hits[i]) {
    const PointerHit& hit = *launch.pointer_hits[i];
    return with_hint(
        unsupported("module variable {} moved from {:#x} to {:#x} and memory points to it ({:#x} in {})",
                    r.symbol, r.address.value, live, hit.value, where(hit, launch.record)),
        launch.pinned.why_not.empty() ? "the loader chooses the address of module variables, and a second loaded variant of the code can "
                                        "never have the recorded one"
                                      : "the code could not be made to refer to the recorded address: " + launch.pinned.why_not);
  }
  return BoundVariable{i, live, r.size};
}

Status set_attribute(const DriverApi& api, CUfunction f, CUfunction_attribute attribute, int value,
                     const char* what) {
  return api.check(api.FuncSetAttribute(f, attribute, value),
                   fmt::format("cuFuncSetAttribute({}, {})", what, value));
}

Status set_function_attributes(const DriverApi& api, CUfunction f, const LaunchRecord& record) {
  const bundle::FunctionAttributes& a = record.function;
  // A kernel gets more than 48 KiB of dynamic shared memory only after its limit was raised.
  constexpr int32_t default_dynamic_shared = 48 << 10;
  int32_t dynamic = a.max_dynamic_shared;
  if (dynamic < 0 && record.dynamic_shared_bytes > static_cast<uint32_t>(default_dynamic_shared))
    dynamic = static_cast<int32_t>(record.dynamic_shared_bytes);
  if (dynamic >= 0)
    XT_TRY_STATUS(set_attribute(api, f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic,
                                "maximum dynamic shared memory"));
  if (a.preferred_carveout >= 0)
    XT_TRY_STATUS(set_attribute(api, f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                a.preferred_carveout, "preferred shared memory carveout"));
  if (a.non_portable_cluster > 0)
    XT_TRY_STATUS(set_attribute(api, f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1,
                                "non-portable cluster size"));
  return {};
}

Status bind(const DriverApi& api, const LaunchContext& launch, LoadedModule& m) {
  const CUresult found = api.ModuleGetFunction(&m.function, m.module, launch.record.kernel.c_str());
  if (found == CUDA_ERROR_NOT_FOUND) return bad_input("the code has no kernel of this name");
  XT_TRY_STATUS(api.check(found, "cuModuleGetFunction"));
  XT_TRY_STATUS(set_function_attributes(api, m.function, launch.record));
  for (size_t i = 0; i < launch.record.regions.size(); ++i) {
    if (is_placed(launch.record.regions[i].kind) || launch.record.regions[i].size == 0) continue;
    XT_TRY(BoundVariable v, bind_variable(api, m.module, launch, i));
    m.variables.push_back(v);
  }
  return {};
}

}  // namespace

Result<LoadedModule> load_module(const DriverApi& api, ByteView cubin, const LaunchContext& launch) {
  const auto in_kernel = [&](Error&& e) {
    return tl::make_unexpected(
        std::move(e).in(fmt::format("loading the code of kernel {}", launch.record.kernel)));
  };
  if (Status s = check_elf_extent(cubin); !s) return in_kernel(std::move(s).error());
  LoadedModule m;
  Bytes edited;
  if (!launch.pinned.variables.empty()) {
    Result<Bytes> pinned = cubin::with_pinned_variables(cubin, launch.pinned.variables);
    if (!pinned) return in_kernel(std::move(pinned).error());
    edited = std::move(*pinned);
    cubin = edited;
  }
  if (Status s = api.check(api.ModuleLoadData(&m.module, cubin.data()), "cuModuleLoadData"); !s)
    return in_kernel(std::move(s).error());
  if (Status s = bind(api, launch, m); !s) {
    api.ModuleUnload(m.module);
    return in_kernel(std::move(s).error());
  }
  return m;
}

Result<Resources> module_resources(const DriverApi& api, const LoadedModule& module, LaunchContext& launch) {
  int registers = 0, local = 0, shared = 0, ctas = 0;
  XT_CU(api, FuncGetAttribute, &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, module.function);
  XT_CU(api, FuncGetAttribute, &local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, module.function);
  XT_CU(api, FuncGetAttribute, &shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, module.function);
  XT_CU(api, OccupancyMaxActiveBlocksPerMultiprocessor, &ctas, module.function,
        static_cast<int>(launch.record.block.count()), launch.record.dynamic_shared_bytes);
  Resources r;
  r.registers = static_cast<uint32_t>(registers);
  r.local_bytes = static_cast<uint32_t>(local);
  r.static_shared_bytes = static_cast<uint32_t>(shared);
  r.ctas_per_sm = static_cast<uint32_t>(ctas);
  if (launch.record.cluster.count() > 0) {
    int clusters = 0;
    const CUlaunchConfig config = launch.config(nullptr);
    XT_CU(api, OccupancyMaxActiveClusters, &clusters, module.function, &config);
    r.active_clusters = static_cast<uint32_t>(clusters);
  }
  return r;
}

}  // namespace xtrace::replay
