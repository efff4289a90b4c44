#include "instrument/probe.h"

#include <array>

#include "base/check.h"

namespace xtrace::instrument {
namespace {

constexpr std::array probes = {
    ProbeInfo{ProbeKind::none, "none", "no probe: the code is not changed", "nothing", "nothing", false},
    ProbeInfo{ProbeKind::count, "count", "executions and active lanes of every block, no record per event",
              "two reductions a block; 16 bytes a block of the kernel", "two registers at every block", false},
    ProbeInfo{ProbeKind::block, "block", "clock, block and active lanes at every block",
              "one store a block; 4 to 16 bytes an execution", "one register at every block", true},
    ProbeInfo{ProbeKind::inst, "inst", "block and active lanes at every block, a clock at every instruction",
              "a clock and a share of a store an instruction; 2 to 4 bytes an execution",
              "a register in front of an instruction, else that one has no clock", true},
    ProbeInfo{ProbeKind::pair, "pair", "two clocks around one instruction, rotated over the sites",
              "one store at one instruction; a replay for every instruction",
              "two registers at the instruction, else that one is refused", true},
    ProbeInfo{ProbeKind::mem, "mem", "address of every lane, active lanes, width and space of every memory access",
              "one store a block, one for each register that holds an address; 128 bytes each",
              "one register at every block with an access; the same path in every replay", false},
};

}  // namespace

std::span<const ProbeInfo> all_probes() { return probes; }

const ProbeInfo& probe_info(ProbeKind kind) {
  for (const ProbeInfo& p : probes)
    if (p.kind == kind) return p;
  XT_CHECK(false, "a ProbeKind without a row in the table of probes");
}

}  // namespace xtrace::instrument
