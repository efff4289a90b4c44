#include "capture/inject/snapshot.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

namespace xtrace::inject {
namespace {

// What the driver says about an address; all zero when it is nobody's.
struct Asked {
  CUdeviceptr range_begin = 0, mapping_begin = 0;
  size_t range_size = 0, mapping_size = 0;
  unsigned type = 0;  // CUmemorytype
  int device = -1;
};

Asked ask_driver(const DriverApi& api, uint64_t address) {
  Asked a;
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,  CU_POINTER_ATTRIBUTE_RANGE_SIZE,
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, CU_POINTER_ATTRIBUTE_MAPPING_SIZE};
  void* values[] = {&a.range_begin, &a.range_size, &a.type, &a.device, &a.mapping_begin, &a.mapping_size};
  // Older drivers do not know the last two, and refuse the whole question.
  for (const unsigned count : {6u, 4u})
    if (api.cuPointerGetAttributes(count, attributes, values, address) == CUDA_SUCCESS) return a;
  return {};
}

bool holds(uint64_t begin, uint64_t size, uint64_t address) { return size != 0 && address - begin < size; }

// Errors about one launch are told from errors of the bundle by their kind.
Error about_memory(Error e) {
  if (e.kind == ErrorKind::device) e.message = "memory: " + e.message;
  return e;
}

}  // namespace

// Device memory, its reservations included, lies in the address space of the process and shows in its mappings: all
// kinds do [measured H200, driver 580]. Index pairs and half-float data look like addresses but mostly are not mapped.
// Where the mappings do not even show the memory that is known, they are no witness.
std::vector<AddressRange> Snapshot::where_memory_can_be() {
  std::ifstream file("/proc/self/maps", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<AddressRange> ranges = mapped_ranges(text);
  for (const AddressRange& region : table_.ranges()) {
    const auto it = std::upper_bound(ranges.begin(), ranges.end(), region.begin,
                                     [](uint64_t value, const AddressRange& r) { return value < r.begin; });
    if (it == ranges.begin() || std::prev(it)->end < region.end) return {};
  }
  return ranges;
}

bool Snapshot::ask(uint64_t address, std::vector<KnownRegion*>& fresh) {
  if (reader_.owns(address)) return false;
  const Asked a = ask_driver(api_, address);
  if (a.type != CU_MEMORYTYPE_DEVICE && a.type != CU_MEMORYTYPE_HOST && a.type != CU_MEMORYTYPE_UNIFIED)
    return false;
  const bool in_range = holds(a.range_begin, a.range_size, address);
  const bool in_mapping = holds(a.mapping_begin, a.mapping_size, address);
  if (!in_range && !in_mapping) return false;
  KnownRegion region;
  region.kind = bundle::RegionKind::asked;
  // Of a reservation only the mapping has memory; of a mapping only the allocation is the application's.
  const bool take_mapping = in_mapping && (!in_range || a.mapping_size < a.range_size);
  region.begin = take_mapping ? a.mapping_begin : a.range_begin;
  region.size = take_mapping ? a.mapping_size : a.range_size;
  table_.add(region);
  scanner_.found(address);
  if (a.type == CU_MEMORYTYPE_HOST)
    warn_(fmt::format("{} bytes of page-locked host memory at {:#x} are recorded like device memory",
                      region.size, region.begin));
  return table_.select(address, fresh);
}

// Asks once more about a region that is about to be read: it may be gone by a way nobody watches, closed to
// this device, or another device's.
Result<bool> Snapshot::usable(const KnownRegion& region) {
  using bundle::RegionKind;
  if (region.kind == RegionKind::global || region.kind == RegionKind::constant) return true;
  if (region.kind == RegionKind::vmm && api_.cuMemGetAccess != nullptr) {
    unsigned long long flags = 0;
    CUmemLocation here{};
    here.type = CU_MEM_LOCATION_TYPE_DEVICE;
    here.id = device_;
    if (api_.cuMemGetAccess(&flags, &here, region.begin) == CUDA_SUCCESS && flags == 0) return false;
  }
  const Asked a = ask_driver(api_, region.begin);
  if (a.type == 0) {
    warn_(fmt::format("{} bytes at {:#x} were allocated but are unknown to the driver: left out", region.size,
                      region.begin));
    return false;
  }
  if (region.kind == RegionKind::managed || a.type == CU_MEMORYTYPE_HOST || a.device == device_) return true;
  if (all_) return false;
  return unsupported("peer memory: {} bytes at {:#x} belong to device {}, the launch runs on device {}",
                     region.size, region.begin, a.device, device_);
}

Status Snapshot::store(const KnownRegion& region, std::vector<Hash128>& chunks,
                       std::vector<KnownRegion*>* fresh) {
  auto status = reader_.read(context_, region.begin, region.size, [&](ByteView piece) -> Status {
    XT_TRY(const std::vector<Hash128> piece_chunks, writer_.put_memory(piece));
    chunks.insert(chunks.end(), piece_chunks.begin(), piece_chunks.end());
    if (fresh != nullptr) scanner_.scan(piece, 8, *fresh);
    return {};
  });
  if (!status) return tl::make_unexpected(about_memory(std::move(status.error())));
  return {};
}

Status Snapshot::before(const SnapshotRequest& request) {
  context_ = request.context;
  device_ = request.device;
  all_ = request.all;
  for (const KnownRegion& v : request.variables) table_.add(v);
  for (const Allocation& a : request.allocations) table_.add({a.begin, a.size, a.kind, {}, false});

  std::vector<KnownRegion*> fresh;
  for (const KnownRegion& v : request.variables) table_.select(v.begin, fresh);
  if (all_) table_.select_all(fresh);
  // Each word of the block is looked at by itself: few, and the most likely addresses of all. Structures
  // passed by value may be packed, hence the stride.
  for (uint64_t offset = 0; offset + 8 <= request.param_block.size(); offset += 4) {
    uint64_t v;
    std::memcpy(&v, request.param_block.data() + offset, 8);
    if (!table_.select(v, fresh) && WordScanner::could_be_address(v)) ask(v, fresh);
  }

  while (!fresh.empty()) {
    if (request.max_bytes != 0 && table_.selected_bytes() > request.max_bytes)
      return unsupported("size limit: the launch reaches {} bytes or more, --max-bytes is {}",
                         table_.selected_bytes(), request.max_bytes);
    const KnownRegion* region = fresh.back();
    fresh.pop_back();
    Images& images = images_[region->begin];
    XT_TRY(const bool readable, usable(*region));
    images.dropped = !readable;
    if (!readable) continue;
    XT_TRY_STATUS(store(*region, images.before, all_ ? nullptr : &fresh));
    for (const uint64_t address : scanner_.take_unknown()) ask(address, fresh);
  }
  if (scanner_.unknown_overflow())
    warn_(fmt::format(
        "more than {} words could be addresses that nobody was seen to allocate: the rest was taken for data",
        WordScanner::unknown_limit));
  return {};
}

Status Snapshot::after() {
  for (const KnownRegion* region : table_.selected()) {
    Images& images = images_.at(region->begin);
    if (!images.dropped) XT_TRY_STATUS(store(*region, images.after, nullptr));
  }
  return {};
}

std::vector<bundle::Region> Snapshot::regions() {
  std::vector<bundle::Region> out;
  for (const KnownRegion* known : table_.selected()) {
    Images& images = images_.at(known->begin);
    if (images.dropped) continue;
    bundle::Region region;
    region.kind = known->kind;
    region.address = {known->begin};
    region.size = known->size;
    region.symbol = known->symbol;
    region.before = std::move(images.before);
    if (images.after.size() == region.before.size()) region.after = std::move(images.after);
    out.push_back(std::move(region));
  }
  return out;
}

}  // namespace xtrace::inject
