#include "replay/driver/launch_attributes.h"

#include <algorithm>
#include <cstring>

namespace xtrace::replay {

const std::vector<AttributeRule>& attribute_rules() {
  using enum AttributeUse;
  static const std::vector<AttributeRule> rules = {
      {CU_LAUNCH_ATTRIBUTE_IGNORE, "ignore", drop, nullptr},
      {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, "access_policy_window", pass, nullptr},
      {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, "cooperative", pass, nullptr},
      {CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, "synchronization_policy", drop, nullptr},
      {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, "cluster_dimension", pass, nullptr},
      {CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, "cluster_scheduling_policy", pass, nullptr},
      {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, "programmatic_stream_serialization", drop,
       "programmatic stream serialization: replayed without overlap with the kernel before it"},
      {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, "programmatic_event", drop,
       "programmatic event: not recorded on replay"},
      {CU_LAUNCH_ATTRIBUTE_PRIORITY, "priority", pass, nullptr},
      {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, "mem_sync_domain_map", pass, nullptr},
      {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, "mem_sync_domain", pass, nullptr},
      {CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, "preferred_cluster_dimension", pass, nullptr},
      {CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, "launch_completion_event", drop,
       "launch completion event: not recorded on replay"},
      {CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, "device_updatable_kernel_node", drop,
       "device-updatable graph node: replayed as a plain launch"},
      {CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, "preferred_shared_memory_carveout", pass,
       nullptr},
      // CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, new in the CUDA 13.0 headers.
      {static_cast<CUlaunchAttributeID>(16), "nvlink_util_centric_scheduling", pass, nullptr},
  };
  return rules;
}

Result<LaunchSetup> launch_setup(const bundle::LaunchRecord& record) {
  LaunchSetup setup;
  bool has_cluster = false, has_cooperative = false;
  for (const bundle::LaunchAttribute& recorded : record.attributes) {
    const auto rule =
        std::find_if(attribute_rules().begin(), attribute_rules().end(),
                     [&](const AttributeRule& r) { return static_cast<uint32_t>(r.id) == recorded.id; });
    if (rule == attribute_rules().end())
      return unsupported("launch attribute {} ({}) of {} is not known to this version", recorded.id,
                         recorded.name.empty() ? "no name recorded" : recorded.name, record.kernel);
    if (rule->use == AttributeUse::drop) {
      const bool set = std::any_of(recorded.value.begin(), recorded.value.end(),
                                   [](std::byte b) { return b != std::byte{0}; });
      if (rule->note != nullptr && set) setup.notes.push_back(rule->note);
      continue;
    }
    CUlaunchAttribute attribute{};
    attribute.id = rule->id;
    // A shorter value was stored without its trailing zeros.
    if (recorded.value.empty() || recorded.value.size() > sizeof attribute.value)
      return bad_input("launch attribute {} of {} has {} bytes, expected 1 to {}", rule->name, record.kernel,
                       recorded.value.size(), sizeof attribute.value);
    std::memcpy(&attribute.value, recorded.value.data(), sizeof attribute.value);
    has_cluster |= rule->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    has_cooperative |= rule->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    setup.attributes.push_back(attribute);
  }
  if (!has_cluster && record.cluster.count() > 0) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = record.cluster.x;
    attribute.value.clusterDim.y = record.cluster.y;
    attribute.value.clusterDim.z = record.cluster.z;
    setup.attributes.push_back(attribute);
  }
  if (!has_cooperative && record.cooperative) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    setup.attributes.push_back(attribute);
  }
  return setup;
}

}  // namespace xtrace::replay
