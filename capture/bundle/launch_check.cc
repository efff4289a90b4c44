#include "capture/bundle/launch_check.h"

namespace xtrace::bundle {
namespace {

constexpr const char* region_kind_names[] = {"device", "async_pool", "vmm",     "managed",
                                             "asked",  "global",     "constant"};

bool any_zero(const Dim3& d) { return d.x == 0 || d.y == 0 || d.z == 0; }
std::string show(const Dim3& d) { return fmt::format("{},{},{}", d.x, d.y, d.z); }

Status check_shape(const LaunchRecord& l) {
  if (l.status == LaunchStatus::skipped) {
    if (l.skip_reason.empty()) return bad_input("a skipped launch without a reason");
    return {};
  }
  if (l.kernel.empty()) return bad_input("a recorded launch without a kernel name");
  if (l.code == Hash128{}) return bad_input("a recorded launch without code");
  if (any_zero(l.grid)) return bad_input("grid {}: expected no zero", show(l.grid));
  if (any_zero(l.block)) return bad_input("block {}: expected no zero", show(l.block));
  if (any_zero(l.cluster) && (l.cluster.x | l.cluster.y | l.cluster.z) != 0)
    return bad_input("cluster {}: expected three sizes or 0,0,0", show(l.cluster));
  return {};
}

Status check_graph(const GraphPlace& g) {
  if (g == GraphPlace{} || (g.launch >= 0 && g.node >= 0)) return {};
  return bad_input("graph launch {}, node {}: expected two numbers or -1 twice", g.launch, g.node);
}

Status check_params(const LaunchRecord& l) {
  for (size_t i = 0; i < l.params.size(); ++i) {
    const Param& p = l.params[i];
    if (uint64_t{p.offset} + p.size > l.param_block.size())
      return bad_input("parameter {} at offset {} with {} bytes lies outside the parameter block of {} bytes",
                       i, p.offset, p.size, l.param_block.size());
  }
  for (const LaunchAttribute& a : l.attributes)
    if (a.value.size() > attribute_bytes)
      return bad_input("launch attribute {} '{}' has {} bytes: expected at most {}", a.id, a.name,
                       a.value.size(), attribute_bytes);
  return {};
}

Status check_region(const Region& r) {
  if (r.size == 0) return bad_input("region at {:#x} has no bytes", r.address.value);
  if (r.address.value > UINT64_MAX - r.size)
    return bad_input("region at {:#x} with {} bytes wraps around the address space", r.address.value, r.size);
  if ((r.kind == RegionKind::global || r.kind == RegionKind::constant) && r.symbol.empty())
    return bad_input("region at {:#x} of kind {} has no symbol", r.address.value, name_of(r.kind));
  if (r.before.size() != chunks_of(r.size))
    return bad_input("region at {:#x} with {} bytes has {} chunks before the launch: expected {}",
                     r.address.value, r.size, r.before.size(), chunks_of(r.size));
  if (!r.after.empty() && r.after.size() != r.before.size())
    return bad_input("region at {:#x} has {} chunks after the launch: expected {} or none", r.address.value,
                     r.after.size(), r.before.size());
  return {};
}

Status check_regions(const LaunchRecord& l) {
  uint64_t end = 0;
  for (const Region& r : l.regions) {
    XT_TRY_STATUS(check_region(r));
    if (r.address.value < end)
      return bad_input("region at {:#x} begins before the end {:#x} of the one in front of it",
                       r.address.value, end);
    end = r.address.value + r.size;
  }
  return {};
}

}  // namespace

const char* name_of(RegionKind kind) {
  const auto i = static_cast<size_t>(kind);
  return i < std::size(region_kind_names) ? region_kind_names[i] : "unknown";
}

Status check_launch(const LaunchRecord& launch) {
  XT_TRY_STATUS(check_shape(launch));
  XT_TRY_STATUS(check_graph(launch.graph));
  XT_TRY_STATUS(check_params(launch));
  return check_regions(launch);
}

}  // namespace xtrace::bundle
