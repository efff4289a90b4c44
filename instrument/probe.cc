#include "instrument/probe.h"

#include <array>

#include "base/check.h"

namespace xtrace::instrument {
namespace {

constexpr std::array probes = {
    ProbeInfo{ProbeKind::none, "none", "no probe: the code is not changed", "nothing", "nothing", false, false},
#define XTRACE_PROBE(name, in_all, records, cost, needs) ProbeInfo{ProbeKind::name, #name, records, cost, needs, in_all, false},
#define XTRACE_POINT_PROBE(name, in_all, records, cost, needs) \
  ProbeInfo{ProbeKind::name, #name, records, cost, needs, in_all, true},
#include "instrument/probes.def"
#undef XTRACE_PROBE
};

}  // namespace

std::span<const ProbeInfo> all_probes() { return probes; }

const ProbeInfo& probe_info(ProbeKind kind) {
  for (const ProbeInfo& p : probes)
    if (p.kind == kind) return p;
  XT_CHECK(false, "a ProbeKind without a row in the table of probes");
}

}  // namespace xtrace::instrument
