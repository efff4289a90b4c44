// What varies by SM. Rows of one table; nothing else in the house asks "which architecture is this?" by number.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace xtrace::sass {

struct Arch {
  uint16_t sm;                   // 90 for sm_90 and sm_90a
  std::string_view name;         // "sm_90"
  uint8_t group;                 // architectures of one group share opcode meanings: 75 | 80..89 | 90 | 100 103 | 120 121
  uint8_t ur_bits;               // width of uniform-register fields: 6 (sm_75..90) or 8 (sm_100+)
  uint16_t urz;                  // index of URZ: 63 or 255
  bool branch_low_byte;          // relative branches also use bits [23:16] (sm_90 and later)
  bool regcount_in_sh_info;      // register count also in the top byte of .text sh_info (sm_75..89)
  uint16_t bank0_block_dim;      // byte offset of blockDim.x in c[0x0]; .y +4, .z +8
  uint16_t bank0_grid_dim;       // byte offset of gridDim.x in c[0x0]
  uint16_t bank0_params;         // byte offset of the first kernel parameter in c[0x0]
  uint8_t clock_to_alu;          // cycles from CS2R to an ALU instruction that reads its result
  uint8_t result_to_memory;      // cycles from an ALU result, or CS2R, to a memory instruction that reads it
};

// The ten architectures with 128-bit instructions known here: 75 80 86 87 89 90 100 103 120 121.
std::span<const Arch> all_archs();
// unsupported with the list of known ones when `sm` is not in the table.
Result<const Arch*> find_arch(unsigned sm);

}  // namespace xtrace::sass
