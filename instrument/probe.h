// The table of probes (probes.def): what each records, and what it needs. One string names a probe in code, flag, JSON and docs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace xtrace::instrument {

enum class ProbeKind : uint8_t {
  none,
#define XTRACE_PROBE(name, in_all, records, cost, needs) name,
#include "instrument/probes.def"
#undef XTRACE_PROBE
};

struct ProbeInfo {
  ProbeKind kind;
  std::string_view name;
  std::string_view summary;    // what it records
  std::string_view cost;       // measured: docs/performance.md
  std::string_view needs;      // of the kernel, of the launch
  bool in_all;                 // `--probes=all` means it
  bool points;                 // a point probe (instrument/points.h)
};

std::span<const ProbeInfo> all_probes();
const ProbeInfo& probe_info(ProbeKind kind);

}  // namespace xtrace::instrument
