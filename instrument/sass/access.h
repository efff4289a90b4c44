// Where the address of a memory access stands in an instruction word: which registers, which uniform registers, which
// immediate. The address of a lane is
//
//   vector (32 or 64 bits, its own) + uniform (32 or 64 bits, of the warp) + offset,   modulo 2^64, or 2^32 in shared and local
//
// In shared memory of sm_75 to sm_89 the vector part may be scaled (R5.X4).
//
// Field positions: [nvdisasm 13.0, as print_memory.cc prints them; executed on an H200, sass.md; other architectures than sm_90: nvdisasm's texts alone].
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "instrument/sass/effects.h"

namespace xtrace::sass {

struct Access {
  MemSpace space = MemSpace::none;   // global, generic, shared, local
  MemKind kind = MemKind::none;      // load, store, atomic, reduction
  uint8_t bytes = 0;                 // of one lane
  uint8_t lanes = 32;                // the first so many lanes give addresses (LDSM, STSM: 8, 16 or 32)
  bool wide = false;                 // an address of 64 bits
  static constexpr uint8_t none = 255;
  uint8_t low = none, high = none;   // vector registers; none: zero
  uint8_t uniform_low = none, uniform_high = none;
  uint8_t scale = 0;                 // left shift of the vector part
  int32_t offset = 0;
};

// Why a word that touches memory has no Access: a fixed text that completes "is not covered: ...".
using NotCovered = std::string_view;

// What the word accesses, in order: nothing for words that access no memory and for constant memory; two accesses for LDGSTS
// (global load, shared store). NotCovered for what touches memory by other addresses than one a lane (bulk copies, matrix
// operands in shared memory, textures, ...) and for forms whose address is not known.
std::variant<std::vector<Access>, NotCovered> accesses(const Arch& arch, const RawInst& w);

// Adds floating-point numbers in memory (reductions and atomics of F16, BF16, F32 or F64, and reductions through a tensor map,
// which alone knows the type): the last bits of the sum depend on which lane comes first. Loops around a compare-and-swap are
// not seen.
bool sums_floats(const Arch& arch, const RawInst& w);

}  // namespace xtrace::sass
