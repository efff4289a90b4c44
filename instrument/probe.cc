#include "instrument/probe.h"

#include <array>

#include "base/check.h"

namespace xtrace::instrument {
namespace {

constexpr std::array probes = {
    ProbeInfo{ProbeKind::none, "none", "no probe: the code is not changed", "none", "nothing", false},
    ProbeInfo{ProbeKind::count, "count", "executions and active lanes of every block, no record per event",
              "two reductions a block, all warps to one counter; a few hundred bytes of memory",
              "two aligned pairs of uniform registers and four more, a scoreboard, four registers at every block", false},
    ProbeInfo{ProbeKind::block, "block", "clock, block and active mask at every block",
              "one store a block; 4 to 16 bytes a block and warp", "the same, and one or two registers at every block", true},
    ProbeInfo{ProbeKind::inst, "inst", "block and active mask at every block, a clock at every instruction",
              "a clock read and a share of a store an instruction; 2 to 4 bytes an instruction and warp",
              "the same; instructions in front of which no register is free have no clock", true},
    ProbeInfo{ProbeKind::pair, "pair", "two clocks around one instruction, rotated over the sites",
              "one store at one instruction, a replay for every instruction",
              "the same, and two registers at the instruction, else that site is refused", true},
    ProbeInfo{ProbeKind::mem, "mem", "address of every lane, active lanes, width and space of every memory access",
              "one store a block and one or two an address register; 128 bytes for each, block and warp",
              "the same; a launch whose path does not change between replays; bulk copies, textures and matrix operands "
              "are listed as not covered", false},
};

}  // namespace

std::span<const ProbeInfo> all_probes() { return probes; }

const ProbeInfo& probe_info(ProbeKind kind) {
  for (const ProbeInfo& p : probes)
    if (p.kind == kind) return p;
  XT_CHECK(false, "a ProbeKind without a row in the table of probes");
}

}  // namespace xtrace::instrument
