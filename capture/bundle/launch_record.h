// What a recording holds: plain data, shared by the recorder, the replay and every reader. How it lies on disk is the
// business of bundle.capnp, chunk_store.h, bundle_writer.h and bundle_reader.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/types.h"

namespace xtrace::bundle {

// Memory is stored in chunks of this size (the last of a region is shorter), each named by the hash of its contents.
constexpr uint64_t chunk_bytes = 1ull << 20;

struct Environment {
  std::string gpu_name, gpu_uuid;
  uint32_t sm = 0;                    // 90
  uint32_t sm_count = 0;
  uint64_t memory_bytes = 0, l2_bytes = 0;
  uint32_t sm_clock_khz = 0, memory_clock_khz = 0;   // maximum clocks as the driver reports them
  uint32_t driver_version = 0;        // cuDriverGetVersion: 13000
  std::string kernel_driver;          // "580.159.04" from /proc, empty if unknown
  uint32_t toolkit_version = 0;       // CUDA_VERSION of the headers xtrace was built with
  std::string hostname, started_at;   // ISO 8601 UTC
  std::vector<std::string> command;   // argv of the recorded program
};

enum class RegionKind : uint8_t {
  device,      // cuMemAlloc, pitch
  async_pool,  // cuMemAllocAsync, cuMemAllocFromPoolAsync
  vmm,         // cuMemMap
  managed,
  asked,       // nobody saw it allocated: found by asking the driver about a pointer
  global,      // a module variable (.nv.global*): `symbol` names it
  constant,    // a __constant__ variable (.nv.constant3): `symbol` names it
};
const char* name_of(RegionKind kind);

// A piece of device memory, with its contents before and after the launch.
struct Region {
  RegionKind kind = RegionKind::device;
  DevPtr address;                     // as recorded
  uint64_t size = 0;
  std::string symbol;                 // global, constant
  std::vector<Hash128> before, after; // one hash per chunk; `after` is empty when the launch failed
};

struct Param {
  uint32_t offset = 0, size = 0;      // in the parameter block
};

// One CUlaunchAttribute kept as its id and its 64-byte value, interpreted by the replay.
struct LaunchAttribute {
  uint32_t id = 0;
  std::string name;                   // "cluster_dimension", "cooperative", ...
  Bytes value;
};

struct FunctionAttributes {           // cuFuncGetAttribute at launch time; -1 = not set or not known
  int32_t max_dynamic_shared = -1, preferred_carveout = -1, non_portable_cluster = -1;
  int32_t registers = -1, local_bytes = -1, static_shared = -1, constant_bytes = -1, max_threads = -1;
};

// Where a kernel stood that a graph launched.
struct GraphPlace {
  int32_t launch = -1;                // number of the graph launch in the application, from 0; -1 = launched by itself
  int32_t node = -1;                  // number of the node in the order in which the recorder ran them
  bool any() const { return launch >= 0; }
  bool operator==(const GraphPlace&) const = default;
};

enum class LaunchStatus : uint8_t { recorded, skipped };

struct LaunchRecord {
  uint64_t ordinal = 0;               // number of the launch in the application, from 0, counted before any selection
  LaunchStatus status = LaunchStatus::recorded;
  std::string skip_reason;            // status skipped: one sentence
  std::string kernel;                 // mangled name
  Hash128 code;                       // the cubin it was launched from
  std::string api;                    // "cuLaunchKernelEx"
  Dim3 grid, block, cluster{0, 0, 0}; // cluster 0,0,0 = no cluster
  uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  uint64_t stream = 0;
  std::vector<LaunchAttribute> attributes;
  FunctionAttributes function;
  std::vector<Param> params;
  Bytes param_block;                  // padding zeroed
  std::vector<Region> regions;        // sorted by address, disjoint
  double snapshot_seconds = 0;        // what recording this launch cost
  GraphPlace graph;
};

enum class BundleState : uint8_t { complete, incomplete };

struct BundleInfo {
  BundleState state = BundleState::incomplete;
  uint32_t format_version = 0, minimum_reader_version = 0;
  Environment environment;
  uint64_t launches_seen = 0;         // all launches of the application, recorded or not
  std::vector<std::string> warnings;
  int32_t application_exit_status = -1;
};

}  // namespace xtrace::bundle
