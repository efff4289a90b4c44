// Where the address of a memory access stands in an instruction word: which registers, which uniform registers, which
// immediate. The address of a lane is
//
//   vector (32 or 64 bits, its own) + uniform (32 or 64 bits, of the warp) + offset,   modulo 2^64, or 2^32 in shared and local
//
// In shared memory of sm_75 to sm_89 the vector part may be scaled (R5.X4).
//
// Bulk copies and copies of boxes through tensor maps are made once for the warp, under a uniform predicate: no lane has an address, and
// all that says what is moved stands in uniform registers, one word each (UniformOperand).
//
// Field positions: [nvdisasm 13.0, as print_memory.cc prints them; executed on an H200, sass.md; other architectures than sm_90: nvdisasm's texts alone].
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "instrument/sass/effects.h"

namespace xtrace::sass {

// What a uniform register tells an instruction that is made once for the warp.
enum class OperandRole : uint8_t {
  global_low, global_high,   // address in global memory
  shared,                    // address in the cluster's shared memory: bits 31:24 the CTA's rank in its cluster
  shared_from,               // likewise, what is copied from there to `shared`
  barrier,                   // likewise, the mbarrier that is told when all has come
  size,                      // bits 15:0: units of 16 bytes
  size_ctas,                 // likewise, and bits 31:16 the CTAs of the cluster that get a copy, each at the same offset
  map_low, map_high,         // address of a tensor map, generic
  coordinate,                // of the box's first element, signed; the innermost dimension first
  ctas,                      // bits 31:16 as above; bits 15:0 offsets of pixels, of .IM2COL
  pixels,                    // bits 15:0: offsets of pixels
};
struct UniformOperand {
  OperandRole role;
  uint8_t reg;               // Access::none: zero
};

struct Access {
  enum class Form : uint8_t { lanes, bulk, tensor };
  Form form = Form::lanes;           // not lanes: nothing below but space, kind, operands and pixels
  MemSpace space = MemSpace::none;   // global, generic, shared, local; of copies from shared to shared memory that, of all others global
  MemKind kind = MemKind::none;      // load, store, atomic, reduction; not of lanes: load, store, reduction, or other: a prefetch
  uint8_t bytes = 0;                 // of one lane
  uint8_t lanes = 32;                // the first so many lanes give addresses (LDSM, STSM: 8, 16 or 32)
  bool wide = false;                 // an address of 64 bits
  static constexpr uint8_t none = 255;
  uint8_t low = none, high = none;   // vector registers; none: zero
  uint8_t uniform_low = none, uniform_high = none;
  uint8_t scale = 0;                 // left shift of the vector part
  int32_t offset = 0;
  std::vector<UniformOperand> operands;
  bool pixels = false;               // .IM2COL
};

// Why a word that touches memory has no Access: a fixed text that completes "is not covered: ...".
using NotCovered = std::string_view;

// What the word accesses, in order: nothing for words that access no memory and for constant memory; two accesses for LDGSTS
// (global load, shared store). NotCovered for what touches memory by other addresses than these (matrix operands in shared
// memory, textures, ...) and for forms whose address is not known.
std::variant<std::vector<Access>, NotCovered> accesses(const Arch& arch, const RawInst& w);

// Adds floating-point numbers in memory (reductions and atomics of F16, BF16, F32 or F64, and reductions through a tensor map,
// which alone knows the type): the last bits of the sum depend on which lane comes first. Loops around a compare-and-swap are
// not seen.
bool sums_floats(const Arch& arch, const RawInst& w);

}  // namespace xtrace::sass
