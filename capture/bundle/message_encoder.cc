// Runs inside the application: no Cap'n Proto here, see wire_layout.h.
#include <stdexcept>

#include "capture/bundle/framing.h"
#include "capture/bundle/messages.h"
#include "capture/bundle/wire_builder.h"

namespace xtrace::bundle {
namespace {

using StructRef = WireBuilder::StructRef;
using layout::at;

// Hash128 lies in memory as the format says: low word first, little-endian.
static_assert(sizeof(Hash128) == 16);
ByteView bytes_of(const std::vector<Hash128>& hashes) { return std::as_bytes(std::span(hashes)); }

uint64_t unsigned_of(int32_t value) { return static_cast<uint32_t>(value); }

void put_dim(StructRef dim, const Dim3& d) {
  dim.put(at(layout::dim3, "x"), d.x);
  dim.put(at(layout::dim3, "y"), d.y);
  dim.put(at(layout::dim3, "z"), d.z);
}

void put_environment(StructRef out, const Environment& e) {
  using layout::environment;
  out.put_text(at(environment, "gpuName"), e.gpu_name);
  out.put_text(at(environment, "gpuUuid"), e.gpu_uuid);
  out.put(at(environment, "sm"), e.sm);
  out.put(at(environment, "smCount"), e.sm_count);
  out.put(at(environment, "memoryBytes"), e.memory_bytes);
  out.put(at(environment, "l2Bytes"), e.l2_bytes);
  out.put(at(environment, "smClockKhz"), e.sm_clock_khz);
  out.put(at(environment, "memoryClockKhz"), e.memory_clock_khz);
  out.put(at(environment, "driverVersion"), e.driver_version);
  out.put_text(at(environment, "kernelDriver"), e.kernel_driver);
  out.put(at(environment, "toolkitVersion"), e.toolkit_version);
  out.put_text(at(environment, "hostname"), e.hostname);
  out.put_text(at(environment, "startedAt"), e.started_at);
  out.put_texts(at(environment, "command"), e.command);
}

void put_code(StructRef out, const Hash128& hash, const StoredCode& code) {
  out.put_data(at(layout::code, "hash"), bytes_of({hash}));
  out.put(at(layout::code, "size"), code.size);
  out.put_data(at(layout::code, "chunks"), bytes_of(code.chunks));
}

void put_function(StructRef out, const FunctionAttributes& f) {
  using layout::function;
  out.put(at(function, "maxDynamicShared"), unsigned_of(f.max_dynamic_shared));
  out.put(at(function, "preferredCarveout"), unsigned_of(f.preferred_carveout));
  out.put(at(function, "nonPortableCluster"), unsigned_of(f.non_portable_cluster));
  out.put(at(function, "registers"), unsigned_of(f.registers));
  out.put(at(function, "localBytes"), unsigned_of(f.local_bytes));
  out.put(at(function, "staticShared"), unsigned_of(f.static_shared));
  out.put(at(function, "constantBytes"), unsigned_of(f.constant_bytes));
  out.put(at(function, "maxThreads"), unsigned_of(f.max_threads));
}

void put_attribute(StructRef out, const LaunchAttribute& a) {
  out.put(at(layout::attribute, "id"), a.id);
  out.put_text(at(layout::attribute, "name"), a.name);
  out.put_data(at(layout::attribute, "value"), a.value);
}

void put_region(StructRef out, const Region& r) {
  using layout::region;
  out.put(at(region, "kind"), static_cast<uint64_t>(r.kind));
  out.put(at(region, "address"), r.address.value);
  out.put(at(region, "size"), r.size);
  out.put_text(at(region, "symbol"), r.symbol);
  out.put_data(at(region, "before"), bytes_of(r.before));
  out.put_data(at(region, "after"), bytes_of(r.after));
}

void put_launch(StructRef out, const LaunchRecord& l, const StoredCode& code) {
  using layout::launch;
  out.put(at(launch, "ordinal"), l.ordinal);
  out.put(at(launch, "status"), static_cast<uint64_t>(l.status));
  out.put_text(at(launch, "skipReason"), l.skip_reason);
  out.put_text(at(launch, "kernel"), l.kernel);
  if (l.code != Hash128{}) put_code(out.put_struct(at(launch, "code"), layout::code), l.code, code);
  out.put_text(at(launch, "api"), l.api);
  put_dim(out.put_struct(at(launch, "grid"), layout::dim3), l.grid);
  put_dim(out.put_struct(at(launch, "block"), layout::dim3), l.block);
  put_dim(out.put_struct(at(launch, "cluster"), layout::dim3), l.cluster);
  out.put(at(launch, "dynamicSharedBytes"), l.dynamic_shared_bytes);
  out.put(at(launch, "cooperative"), l.cooperative);
  out.put(at(launch, "stream"), l.stream);
  put_function(out.put_struct(at(launch, "function"), layout::function), l.function);
  out.put_data(at(launch, "paramBlock"), l.param_block);
  out.put_f64(at(launch, "snapshotSeconds"), l.snapshot_seconds);
  out.put(at(launch, "graphLaunch"), unsigned_of(l.graph.launch));
  out.put(at(launch, "graphNode"), unsigned_of(l.graph.node));

  auto attributes = out.put_structs(at(launch, "attributes"), layout::attribute, l.attributes.size());
  for (size_t i = 0; i < attributes.size(); ++i) put_attribute(attributes[i], l.attributes[i]);
  auto params = out.put_structs(at(launch, "params"), layout::param, l.params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    params[i].put(at(layout::param, "offset"), l.params[i].offset);
    params[i].put(at(layout::param, "size"), l.params[i].size);
  }
  auto regions = out.put_structs(at(launch, "regions"), layout::region, l.regions.size());
  for (size_t i = 0; i < regions.size(); ++i) put_region(regions[i], l.regions[i]);
}

}  // namespace

Result<Bytes> encode_manifest(const BundleInfo& info, const BundleTotals& totals) {
  using layout::manifest;
  try {
    WireBuilder builder(manifest);
    StructRef m = builder.root();
    m.put(at(manifest, "formatVersion"), format_version);
    m.put(at(manifest, "minimumReaderVersion"), minimum_reader_version);
    put_environment(m.put_struct(at(manifest, "environment"), layout::environment), info.environment);
    m.put(at(manifest, "launchesSeen"), info.launches_seen);
    m.put_texts(at(manifest, "warnings"), info.warnings);
    m.put(at(manifest, "applicationExitStatus"), unsigned_of(info.application_exit_status));
    m.put(at(manifest, "launchCount"), totals.launch_count);
    m.put(at(manifest, "launchesBytes"), totals.launches_bytes);
    m.put(at(manifest, "packBytes"), totals.pack_bytes);
    m.put(at(manifest, "chunkCount"), totals.chunk_count);
    return builder.finish();
  } catch (const std::length_error& e) {
    return unsupported("{}", e.what());
  }
}

Result<Bytes> encode_launch(const LaunchRecord& launch, const StoredCode& code) {
  try {
    WireBuilder builder(layout::launch);
    put_launch(builder.root(), launch, code);
    return builder.finish();
  } catch (const std::length_error& e) {
    return unsupported("{}", e.what());
  }
}

}  // namespace xtrace::bundle
