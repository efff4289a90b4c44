#include "instrument/sass/arch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace xtrace::sass {
namespace {

// Offsets in c[0x0]: sm_75..89 parameters from 0x160, sm_90 from 0x210, sm_100 and later from 0x380 with the
// block dimensions at 0x360. [ptxas 13 output; sm_90 measured H200]
// Clock to ALU, result to memory: the smallest distances in 3 M instructions of vendor code for each (sass_gaps; sm_120 and
// 121 have few pairs of the first kind), sm_90 measured H200.
constexpr std::array<Arch, 10> archs = {{
    //  sm  name    group, UR bits, URZ, low byte, sh_info, block, grid, parameters, clock to ALU, result to memory
    {75, "sm_75", 0, 6, 63, false, true, 0x0, 0xc, 0x160, 6, 8},
    {80, "sm_80", 1, 6, 63, false, true, 0x0, 0xc, 0x160, 6, 5},
    {86, "sm_86", 1, 6, 63, false, true, 0x0, 0xc, 0x160, 6, 5},
    {87, "sm_87", 1, 6, 63, false, true, 0x0, 0xc, 0x160, 6, 5},
    {89, "sm_89", 1, 6, 63, false, true, 0x0, 0xc, 0x160, 6, 5},
    {90, "sm_90", 2, 6, 63, true, false, 0x0, 0xc, 0x210, 5, 5},
    {100, "sm_100", 3, 8, 255, true, false, 0x360, 0x370, 0x380, 7, 5},
    {103, "sm_103", 3, 8, 255, true, false, 0x360, 0x370, 0x380, 8, 5},
    {120, "sm_120", 4, 8, 255, true, false, 0x360, 0x370, 0x380, 12, 5},
    {121, "sm_121", 4, 8, 255, true, false, 0x360, 0x370, 0x380, 14, 5},
}};

}  // namespace

std::span<const Arch> all_archs() { return archs; }

Result<const Arch*> find_arch(unsigned sm) {
  const auto it = std::ranges::find_if(archs, [sm](const Arch& a) { return a.sm == sm; });
  if (it != archs.end()) return &*it;
  std::string known;
  for (const Arch& a : archs) known += fmt::format("{}{}", known.empty() ? "" : ", ", a.name);
  return with_hint(unsupported("architecture sm_{} is not known", sm), fmt::format("known are {}", known));
}

}  // namespace xtrace::sass
