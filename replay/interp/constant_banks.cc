#include "replay/interp/constant_banks.h"

#include <algorithm>

#include "replay/interp/special.h"

namespace xtrace::replay::interp {
namespace {

constexpr uint64_t stack_top = 0x28;  // [nvdisasm 13: the first instruction of kernels with a frame]
// Upper and lower half of the address of the grid's barrier. [vendor code: grid.sync of cooperative groups]
struct GridBarrier {
  uint64_t high, low;
};
constexpr GridBarrier grid_barrier_from_sm90{0x44, 0x48}, grid_barrier_before{0x8c, 0x90};
// The generic address of the parameters. [nvcc 13.0 for sm_90: what __grid_constant__ parameters are addressed by]
constexpr uint64_t parameter_address = 0x198;
// The generic address of the bank itself. [vendor code: cuBLAS addresses tensor maps among its parameters by it]
constexpr uint64_t bank_address = 0xc0;
constexpr uint32_t relocation_address_64 = 2;  // R_CUDA_64

void put32(Bytes& bank, uint64_t at, uint32_t v) {
  if (bank.size() < at + 4) bank.resize(at + 4);
  write_at<uint32_t>(bank, at, v);
}

void put_geometry(Bytes& bank, uint64_t at, const Dim3& d) {
  put32(bank, at, d.x);
  put32(bank, at + 4, d.y);
  put32(bank, at + 8, d.z);
}

// Addresses that the loader writes into constants.
Status relocate(const cubin::Image& image, uint32_t section, const LaunchImage& launch, unsigned number,
                ConstantBanks& banks) {
  Bytes& bank = banks.bytes[number];
  for (const cubin::Relocation& r : image.relocations()) {
    if (r.target_section != section) continue;
    const cubin::Symbol& symbol = image.symbols()[r.symbol];
    if (r.type != relocation_address_64)
      return unsupported("constant {} needs relocation {} against {}", image.sections()[section].name, r.type,
                         symbol.name);
    if (r.offset + 8 > bank.size())
      return bad_input("a relocation of {} lies outside it", image.sections()[section].name);
    const bundle::Region* region = region_of(launch, symbol.name);
    if (region == nullptr) {
      banks.unknown.push_back({number, r.offset, symbol.name});
      continue;
    }
    write_at<uint64_t>(bank, r.offset, region->address.value + static_cast<uint64_t>(r.addend));
  }
  return {};
}

// Recorded contents of __constant__ variables over the initial ones.
Status fill_variables(const cubin::Image& image, uint32_t section, const LaunchImage& launch, Bytes& bank) {
  for (size_t i = 0; i < launch.record.regions.size(); ++i) {
    const bundle::Region& r = launch.record.regions[i];
    if (r.kind != bundle::RegionKind::constant) continue;
    const auto symbol = image.find_symbol(r.symbol);
    if (!symbol || image.symbols()[*symbol].section != section) continue;
    const uint64_t at = image.symbols()[*symbol].value;
    if (at > bank.size() || bank.size() - at < launch.before[i].size())
      return bad_input("constant variable {} of {} bytes lies outside its bank", r.symbol,
                       launch.before[i].size());
    std::copy(launch.before[i].begin(), launch.before[i].end(),
              bank.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return {};
}

}  // namespace

const bundle::Region* region_of(const LaunchImage& launch, const std::string& symbol) {
  for (const bundle::Region& r : launch.record.regions)
    if (!r.symbol.empty() && r.symbol == symbol) return &r;
  return nullptr;
}

ByteView ConstantBanks::bank(unsigned number) const {
  const auto it = bytes.find(number);
  return it == bytes.end() ? ByteView() : ByteView(it->second);
}

const UnknownConstant* ConstantBanks::unknown_in(unsigned bank, uint64_t offset, uint64_t size) const {
  for (const UnknownConstant& u : unknown)
    if (u.bank == bank && u.offset < offset + size && offset < u.offset + 8) return &u;
  return nullptr;
}

Result<ConstantBanks> constant_banks(const cubin::Image& image, const cubin::KernelInfo& kernel,
                                     const sass::Arch& arch, const LaunchImage& launch,
                                     uint32_t local_bytes) {
  ConstantBanks banks;
  for (const auto& [bank, section] : kernel.constant_sections) {
    Bytes& bytes = banks.bytes[bank] = image.sections()[section].data;
    if (bank == 0) continue;
    XT_TRY_STATUS(fill_variables(image, section, launch, bytes));
    XT_TRY_STATUS(relocate(image, section, launch, bank, banks));
  }
  Bytes& zero = banks.bytes[0];
  put_geometry(zero, arch.bank0_block_dim, launch.record.block);
  put_geometry(zero, arch.bank0_grid_dim, launch.record.grid);
  put32(zero, stack_top, local_bytes);
  if (launch.record.cooperative) {
    const GridBarrier& at = arch.sm < 90 ? grid_barrier_before : grid_barrier_from_sm90;
    put32(zero, at.high, static_cast<uint32_t>(grid_barrier_address >> 32));
    put32(zero, at.low, static_cast<uint32_t>(grid_barrier_address));
  }
  const Bytes& params = launch.record.param_block;
  const uint64_t base = kernel.param_base != 0 ? kernel.param_base : arch.bank0_params;
  if (zero.size() < base + params.size()) zero.resize(base + params.size());
  if (arch.sm >= 90 && parameter_address + 8 <= base) {
    write_at<uint64_t>(zero, bank_address, bank0_window);
    write_at<uint64_t>(zero, parameter_address, bank0_window + base);
  }
  banks.parameters = base;
  std::copy(params.begin(), params.end(), zero.begin() + static_cast<std::ptrdiff_t>(base));
  return banks;
}

}  // namespace xtrace::replay::interp
