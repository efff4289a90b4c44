// One probe, some places, some warps: a recorded launch replayed that way and held against what the interpreter saw of the original
// kernel and against what this machine counted.
#pragma once

#include "tests/soak/recording.h"

namespace xtrace::soak {

struct Plan {
  std::string kernel;
  instrument::ProbeKind probe = instrument::ProbeKind::block;
  uint32_t one_in = 1, seed = 0;       // CTAs
  uint32_t cta_part = 0;               // not 0: of code spliced for class 0, turned into that of this one
  wire::Selection select;
  instrument::Sites sites;
  bool sites_are_counted = false;      // another part of them was, on the interpreter
  uint32_t pair_pc = ~0u;
  bool some_places = false;
  bool wraps = false, brief = false, table = false;   // how records lie: slots that wrap, the short forms (mem: those of full blocks), slots of different sizes
  bool sectors = false;                // inst and mem, brief: in whole sectors, where the kernel leaves a register for that
  uint32_t clock_gap = 0;              // inst: instrument::Plan::clock_gap
  bool without_polls = false;          // block, inst, mem: loops that wait for others leave no records
  std::string text() const;
};

// `splicer`: the recording's, told what to record where. Outputs must be the recorded ones in every replay, and no record may be
// lost. `unsupported`: refused by name. `recorded`: of block and inst, whether a block is among those of the part.
Status run_plan(Recording& recording, const instrument::Splicer& splicer, const Plan& plan, std::vector<bool>* recorded = nullptr);

}  // namespace xtrace::soak
