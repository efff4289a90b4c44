// Splicing, as a function of bytes: a cubin, a kernel in it and a probe plan go in; a cubin with probes and the map of
// what they write come out. No GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/types.h"
#include "instrument/probe.h"
#include "trace/wire/address_map.h"

namespace xtrace::instrument {

// Geometry of the launch: the prologue is specialised for it.
struct LaunchShape {
  Dim3 grid, block, cluster{0, 0, 0};
  uint32_t dynamic_shared_bytes = 0;
};

struct Plan {
  ProbeKind probe = ProbeKind::none;
  std::vector<OrigPc> pair_sites;      // pair probe only; usually one
  uint32_t one_in = 1, seed = 0;       // cta sampling
};

struct SpliceReport {
  uint32_t original_registers = 0, new_registers = 0;
  uint32_t original_code_bytes = 0, new_code_bytes = 0;
  uint32_t sites = 0;                  // probe sequences inserted
  uint32_t fresh_registers = 0;        // registers used above the kernel's own
  std::vector<std::string> notes;      // debug sections dropped, ...
};

struct Spliced {
  Bytes cubin;
  wire::AddressMap map;
  SpliceReport report;
};

// An unsupported error names the kernel, the pc and the reason when the kernel is refused.
// With ProbeKind::none the result is the input, byte for byte.
Result<Spliced> splice(ByteView cubin, std::string_view kernel, const LaunchShape& shape, const Plan& plan,
                       const wire::SlotLayout& layout);

}  // namespace xtrace::instrument
