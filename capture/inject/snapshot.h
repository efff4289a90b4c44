// The memory of one launch, before and after. Regions are whole allocations: what the driver would not let a
// kernel tell apart is not cut. In an allocator that takes memory from the driver in big blocks (PyTorch) a
// region therefore holds neighbours of the tensors that the kernel uses.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "capture/bundle/bundle_writer.h"
#include "capture/inject/allocations.h"
#include "capture/inject/device_reader.h"
#include "capture/inject/reach.h"

namespace xtrace::inject {

struct SnapshotRequest {
  CUcontext context = nullptr;
  int device = 0;
  std::vector<Allocation> allocations;  // all that are known
  std::vector<KnownRegion> variables;   // module variables: always part of the launch
  ByteView param_block;
  bool all = false;        // scope: every known allocation, or what can be reached
  uint64_t max_bytes = 0;  // 0 = no limit
};

class Snapshot {
 public:
  Snapshot(const DriverApi& api, DeviceReader& reader, bundle::BundleWriter& writer,
           std::function<void(const std::string&)> warn)
      : api_(api), reader_(reader), writer_(writer), warn_(std::move(warn)),
        scanner_(table_, [this] { return where_memory_can_be(); }) {}
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // The device must be idle. Errors: `unsupported` and `device` concern this launch ("<class>: <details>");
  // every other kind is the bundle's.
  Status before(const SnapshotRequest& request);
  Status after();
  // By address, disjoint. `after` lists are empty until after() succeeded.
  std::vector<bundle::Region> regions();

 private:
  struct Images {
    std::vector<Hash128> before, after;
    bool dropped = false;  // turned out to be no memory of the launch
  };
  std::vector<AddressRange> where_memory_can_be();
  bool ask(uint64_t address, std::vector<KnownRegion*>& fresh);
  Result<bool> usable(const KnownRegion& region);
  Status store(const KnownRegion& region, std::vector<Hash128>& chunks, std::vector<KnownRegion*>* fresh);

  const DriverApi& api_;
  DeviceReader& reader_;
  bundle::BundleWriter& writer_;
  std::function<void(const std::string&)> warn_;
  RegionTable table_;
  WordScanner scanner_;
  std::map<uint64_t, Images> images_;  // by first byte
  CUcontext context_ = nullptr;
  int device_ = 0;
  bool all_ = false;
};

}  // namespace xtrace::inject
