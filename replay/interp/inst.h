// A decoded instruction: what is left of a word when its fields were read once, before the launch runs.
#pragma once

#include <cstdint>

namespace xtrace::replay::interp {

struct Step;
struct Inst;
using Exec = void (*)(Step&, const Inst&);

constexpr unsigned lane_count = 32;
constexpr uint32_t all_lanes = 0xffffffff;

// One register of a warp, or a value that all lanes share: 32 lanes side by side.
struct alignas(64) Row {
  uint32_t lane[lane_count];
};

// A source: a row of the warp's registers or of the program's pool of constants; lane value = ((x & mask) ^
// flip) + add.
struct Operand {
  int32_t row = 0;
  bool pool = false;
  uint32_t mask = ~0u, flip = 0, add = 0;
};

// A predicate source; vector predicates are 0..7 (7 = PT), uniform ones 8..15 (15 = UPT). Value = P ^ flip, a
// lane mask.
struct PredOperand {
  uint8_t index = 7;
  uint32_t flip = 0;
};
constexpr uint8_t pt = 7, upt = 15;

enum class Unit : uint8_t {
  fixed,
  fp64,
  matrix,
  global_memory,
  shared_memory,
  constant_memory,
  conversion,
  other
};

struct Inst {
  Exec exec = nullptr;
  PredOperand guard;
  bool uniform = false;  // executes once for the warp, under a uniform predicate
  uint8_t stall = 1, wait = 0, write_barrier = 7, read_barrier = 7;
  Unit unit = Unit::fixed;

  int32_t d[4] = {};         // destination rows
  Operand a[4], b[4], c[4];  // consecutive registers of one operand
  uint8_t pu = pt, pv = pt;  // predicate destinations
  PredOperand pp, pq, pr;

  uint32_t pc = 0;      // byte offset in the section
  uint32_t index = 0;   // pc / 16
  uint32_t target = 0;  // index of the branch target
  int64_t offset = 0;   // of a memory access, or the base of an indirect branch in bytes
  uint32_t op = 0;      // what the operation puts into these is its own business
  uint32_t type = 0;
  uint32_t imm = 0;
  int32_t uniforms = -1;   // index in Program::uniforms of one that reads or writes uniform registers or predicates
  uint16_t registers = 0;  // that a thread must hold; 0 in kernels that hold the same throughout
  uint8_t bytes = 0;       // of a memory access, per lane
  uint8_t scale = 0;       // of a shared address: how far its register is shifted
  bool flag[4] = {};
};

}  // namespace xtrace::replay::interp
