// The table of probes: what each records, and what it needs. One string names a probe in code, flag, JSON and docs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace xtrace::instrument {

enum class ProbeKind : uint8_t { none, count, block, inst, pair };

struct ProbeInfo {
  ProbeKind kind;
  std::string_view name;
  std::string_view summary;
  bool writes_records;     // needs slots
};

std::span<const ProbeInfo> all_probes();
const ProbeInfo& probe_info(ProbeKind kind);

}  // namespace xtrace::instrument
