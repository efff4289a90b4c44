// Launches of fixtures/cubins/linked (fixtures/apps/linked_calls.cu and linked_functions.cu, nvcc -rdc=true), as if they had been recorded: the
// addresses of memory, variables and functions are made up.
#pragma once

#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file.h"
#include "instrument/cubin/kernel_info.h"
#include "replay/backend.h"

namespace xtrace::linked_code {

inline constexpr uint32_t threads = 64, blocks = 3, shapes = 32;
inline constexpr uint64_t out = 0x7d0000100000, objects = 0x7d0000200000, taken = 0x7d0000300000, variables = 0x7e1234567000, functions = 0x7f5a98765000;

inline Bytes linked(const std::string& arch) { return read_file(std::string(XTRACE_SOURCE_DIR) + "/fixtures/cubins/linked/" + arch + ".cubin").value(); }

// In no order of the cubin's, as far apart as functions may lie.
inline uint64_t address_of(const std::string& function) {
  static const char* const order[] = {"_Z9step_downi", "_ZN6Stairs4growEi", "_Z7step_upi", "_ZN6Square6shrinkEi", "_ZN4Line4growEi", "_ZN5Shape6shrinkEi", "_ZN6Square4growEi", "_Z9step_bothi"};
  for (uint64_t k = 0; k < std::size(order); ++k)
    if (function == order[k]) return functions + k * 0x800;
  throw std::runtime_error("no address of " + function);
}

struct Launch {
  replay::LaunchImage launch;
  std::map<std::string, uint64_t> variable;

  Launch(const std::string& arch, const std::string& kernel, const std::vector<uint64_t>& params) {
    launch.code = linked(arch);
    launch.record.kernel = kernel;
    launch.record.grid = {blocks, 1, 1};
    launch.record.block = {threads, 1, 1};
    const cubin::Image image = cubin::Image::parse(launch.code).value();
    const auto info = cubin::kernel_info(image, kernel).value();
    for (const cubin::ParamInfo& p : info.params) launch.record.params.push_back({p.offset, p.size});
    launch.record.param_block.resize(info.param_bytes);
    for (size_t k = 0; k < params.size(); ++k) std::memcpy(launch.record.param_block.data() + info.params[k].offset, &params[k], info.params[k].size);
    add(bundle::RegionKind::device, out, Bytes(4 * threads * blocks), "");
    add(bundle::RegionKind::device, objects, Bytes(16 * shapes), "");
    add(bundle::RegionKind::device, taken, Bytes(8 * threads * blocks), "");
    uint64_t next = variables;
    for (const cubin::Symbol& s : image.symbols()) {
      if (!s.is_object() || s.section == 0 || s.name.starts_with("$") || s.name.starts_with("__")) continue;
      const cubin::Section& in = image.sections()[s.section];
      Bytes value(in.data.begin() + static_cast<ptrdiff_t>(s.value), in.data.begin() + static_cast<ptrdiff_t>(s.value + s.size));
      for (const cubin::Relocation& r : image.relocations())
        if (r.target_section == s.section && r.offset >= s.value && r.offset < s.value + s.size)
          write_at(std::span<std::byte>(value), r.offset - s.value, address_of(image.symbols()[r.symbol].name));
      variable[s.name] = next;
      add(in.name == ".nv.constant3" ? bundle::RegionKind::constant : bundle::RegionKind::global, next, std::move(value), s.name);
      next += 0x1000;
    }
  }

  void add(bundle::RegionKind kind, uint64_t address, Bytes value, const std::string& name) {
    bundle::Region region;
    region.kind = kind;
    region.address = DevPtr{address};
    region.size = value.size();
    region.symbol = name;
    launch.record.regions.push_back(region);
    launch.before.push_back(std::move(value));
  }
  template <typename T>
  T read(const std::vector<Bytes>& memory, size_t region, uint64_t index) const {
    return read_at<T>(memory[region], index * sizeof(T), "memory").value();
  }
};

// Before make_whole().
inline Launch linked_launch(const std::string& arch, const std::string& kernel) {
  std::vector<uint64_t> params;
  if (kernel == "linked_make") params = {objects};
  if (kernel == "linked_direct" || kernel == "linked_table") params = {out};
  if (kernel == "linked_virtual") params = {objects, out};
  if (kernel == "linked_argument") params = {address_of("_Z9step_bothi"), out};
  if (kernel == "linked_taken") params = {1, taken, out};
  Launch r(arch, kernel, params);
  if (kernel == "linked_make") r.launch.record.grid = {1, 1, 1}, r.launch.record.block = {shapes, 1, 1};
  if (kernel == "linked_virtual")
    for (uint32_t k = 0; k < shapes; ++k) {
      static const char* const tables[] = {"_ZTV4Line", "_ZTV6Square", "_ZTV6Stairs"};
      write_at(std::span<std::byte>(r.launch.before[1]), k * 16, r.variable.at(tables[k % 3]) + 16);
      write_at(std::span<std::byte>(r.launch.before[1]), k * 16 + 8, k);
    }
  return r;
}

inline constexpr const char* linked_kernels[] = {"linked_make", "linked_direct", "linked_virtual", "linked_table", "linked_argument", "linked_taken"};

}  // namespace xtrace::linked_code
