#include "instrument/probe.h"

#include <array>

#include "base/check.h"

namespace xtrace::instrument {
namespace {

constexpr std::array probes = {
    ProbeInfo{ProbeKind::none, "none", "no probe: the code is not changed", false},
    ProbeInfo{ProbeKind::count, "count", "executions and active lanes of every block, no record per event", false},
    ProbeInfo{ProbeKind::block, "block", "clock, block and active mask at every block", true},
    ProbeInfo{ProbeKind::inst, "inst", "block and active mask at every block, a clock at every instruction", true},
    ProbeInfo{ProbeKind::pair, "pair", "two clocks around one instruction, rotated over the sites", true},
};

}  // namespace

std::span<const ProbeInfo> all_probes() { return probes; }

const ProbeInfo& probe_info(ProbeKind kind) {
  for (const ProbeInfo& p : probes)
    if (p.kind == kind) return p;
  XT_CHECK(false, "a ProbeKind without a row in the table of probes");
}

}  // namespace xtrace::instrument
