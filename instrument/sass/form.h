// Instruction forms: the one table (forms.def) that effects(), print() and the branch code walk.
//
// A row describes an operation: its mnemonic, the architectures it holds for, the opcodes of its operand
// forms, what it reads and writes, and its text. Rows are checked at compile time: an effects string that
// does not parse, and an opcode that two rows claim for one architecture, do not build.
//
// Effects notation: "written <- read", e.g. "Rd:2 Pu <- A B C:2 Pp". Operands:
//   Rd Ra Rb Rc Re     vector register at bits 16, 24, 32, 64, 40
//   Ud Ua Ub Uc Ut Uf  uniform register at bits 16, 24, 32, 64, 40, 48
//   A B C              the logical operands of a vector ALU form: where B and C stand, and in which register
//   file, follows
//                      from bits [11:9] (sass.md 1.2). S: the operand in bits [63:32] whatever its role
//   UA UB UC US        the same for the uniform datapath
//   Pu Pv Pp Pq Pr     predicate at bits 81, 84, 87, 77, 68; UPu ... UPr the uniform ones
//   Prx                PLOP3's third input: UPr when bit 67 is set, else Pr
//   Pnz                load predicate [67:64]: 0 none, else 7 - (v & 7), bit 3 negates
//   Pnz87              the same at [90:87]
//   UPmma              MMA accumulate predicate [90:87] in the same code
//   UPb                BRA.U's predicate [26:24]
//   Prelu              [89:87] when bit 79 (RELU) is set
//   Pbar               [89:87] when BAR's mode [79:77] is a reduction
//   Pmask UPmask       P0..P6 under the immediate mask [38:32]; Pall, UPall all of them
//   Bd Bs              convergence barrier at [19:16], at [28:24] (16 and above are other state); Ball all of
//   them
// A width follows a colon: a register count, a rule (WidthRule), or "~n" for "up to n, exact count unknown":
// such an operand is in `use` even when written, so that it never counts as overwritten.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "instrument/sass/arch.h"
#include "instrument/sass/effects.h"
#include "instrument/sass/inst.h"

namespace xtrace::sass {

// Architectures that share opcode meanings, as a set.
using ArchMask = uint8_t;
inline constexpr ArchMask g75 = 1, g80 = 2, g90 = 4, g100 = 8,
                          g120 = 16;  // 75 | 80 86 87 89 | 90 | 100 103 | 120 121
inline constexpr ArchMask any = g75 | g80 | g90 | g100 | g120;
inline constexpr unsigned arch_group_count = 5;
inline unsigned arch_group(const Arch& arch) { return arch.group; }  // bit number in ArchMask

enum class SlotKind : uint8_t {
  none,
  gpr,
  ur,
  alu_b,
  alu_c,
  alu_s,
  uniform_b,
  uniform_c,
  uniform_s,
  pred,
  upred,
  plop3_third,
  load_pred,
  mma_pred,
  bra_upred,
  bar_pred,
  relu_pred,
  pred_mask,
  pred_all,
  upred_mask,
  upred_all,
  barrier,
  barrier_all,
};

// Register counts that depend on other fields. [sass.md 2.2; measured over 65 M vendor instructions unless
// noted]
enum class WidthRule : uint8_t {
  count,  // Slot::count
  sz,     // [75:73]: 64-bit 2, 128-bit 4, else 1
  e,  // address: pair when [72] = 1 and, with a uniform register ([91] = 1), the vector part is 64-bit ([90]
      // or, for atomics, [70])
  ae,    // the same for atomics
  e70,   // LDGSTS: pair when [70]
  e90,   // STAS: pair when [90]
  desc,  // uniform part of an address: pair when it is a descriptor ([76]) or a 64-bit base ([72])
  ati,   // integer atomics; the type code differs before sm_90
  atf,   // floating-point atomics of sm_90 and later
  mnum,  // LDSM/STSM: [73:72]
  d76,   // wide conversions: result pair when [76:75] = 3
  s85,   // wide conversions: source pair when [85:84] = 3
  m73,   // MATCH, IADD of sm_120: pair when [73]
  cs2r,  // CS2R: pair when [80]
  m80,   // MOV of sm_120: pair when [80]
  hm_d,
  hm_a,
  hm_b,  // HMMA
  im_d,
  im_a,
  im_b,  // IMMA
  dm_d,
  dm_a,
  dm_b,    // DMMA: tile elements / 32 lanes, 2 registers each
  sparse,  // metadata register of sparse MMA: one when the .SP bit is set
  gm_d,    // HGMMA family accumulator
  gm_c,    // ... as input: not read under predicate !UPT
  cctl,    // CCTL: pair, none for the ALL operations
  w74,     // IMNMX of sm_120: pair when [74]
  w75,     // 256-bit LDG and STG: 64-bit address when [75]
  zd,      // loads of sm_75 with .ZD: a predicate when [87]
  w72,     // REDAS: 64-bit address when [72]
  c65,     // FMNMX.IS_A: one when [65], else none
  ds76,    // LDGSTS: a descriptor behind the offset when [76]
  u120,    // further descriptors of texture and surface accesses on sm_120
  c84,     // one when [84] (BMOV.CLEAR), else none
  tdesc,   // descriptor of a bulk copy: pair when [76], else none
  dim0,
  dim1,
  dim2,  // [81:79] + 1 coordinates and 0, 1 or 2 addresses in front
  f2a,
  f2b,
  f2c,   // packed FP32 of sm_100: pair unless the operand is one value for both halves
  h884,  // accumulator of HMMA.884
  qm_d,
  qm_a,
  qm_b,  // QMMA
  tld_d,
  tld_e,
  tld_a,  // TLD: the first two selected components, the others; coordinates, exact for 1D without level or offsets
  tm,    // LDTM and STTM: by shape and repetition
};

struct Slot {
  SlotKind kind = SlotKind::none;
  uint8_t low = 0;  // first bit of the field
  WidthRule rule = WidthRule::count;
  uint8_t count = 1;
  bool uncertain = false;
};

// Where an instruction executes, as far as scheduling must know.
enum class OpClass : uint8_t {
  alu,      // fixed latency, vector
  fp64,     // fixed latency on sm_90 and sm_100, scoreboard elsewhere
  dmma,     // double-precision MMA: write scoreboard
  uniform,  // uniform datapath, fixed latency; guarded by a uniform predicate
  lsu,      // memory queue: variable latency, sources read late
  xu,       // conversion and transcendental queue: variable latency, sources read late
  mio,      // other variable-latency units
  branch,   // branch and convergence unit
  gmma,     // warpgroup MMA: asynchronous
  tma,      // uniform-register driven asynchronous copy; guarded by a uniform predicate
  front,    // handled at issue: NOP, DEPBAR
};

// Attributes of a row, or-able: memory space | memory kind | flow | flags.
using Attr = uint32_t;
constexpr Attr attr(MemSpace s, MemKind k) { return static_cast<Attr>(s) | static_cast<Attr>(k) << 4; }
constexpr Attr attr(Flow f) { return static_cast<Attr>(f) << 8; }
inline constexpr Attr plain = 0;
inline constexpr Attr uniform_guard = 1u << 16;      // guard is UP although the class does not say so
inline constexpr Attr vector_guard = 1u << 17;       // guard is P although the class says UP
inline constexpr Attr either_guard = 1u << 27;       // P and UP of the guard number both count as read
inline constexpr Attr switches = 1u << 18;           // may switch the path of a diverged warp
inline constexpr Attr stays = 1u << 19;              // branch unit, but never switches
inline constexpr Attr variable = 1u << 20;           // needs a scoreboard although the class does not say so
inline constexpr Attr register_limit = 1u << 21;     // USETMAXREG
inline constexpr Attr rel_target = 1u << 22;         // relative target in the branch field
inline constexpr Attr bssy_target = 1u << 23;        // relative target in [63:34], a reconvergence point
inline constexpr Attr lepc_target = 1u << 24;        // relative target in [81:24], in bytes
inline constexpr Attr collective_target = 1u << 25;  // relative target when [86:85] = 2 (WARPSYNC.COLLECTIVE)
inline constexpr Attr optional_branch = 1u << 26;    // can fall through whatever its guard (BRA.DIV)

struct Form {
  std::string_view mnemonic;
  ArchMask archs = 0;
  OpClass cls = OpClass::alu;
  Attr attrs = 0;
  std::array<Slot, 6> defs;
  std::array<Slot, 9> uses;
  std::string_view text;
  std::array<uint16_t, 14> opcodes;  // 0 ends the list

  constexpr MemSpace space() const { return static_cast<MemSpace>(attrs & 0xf); }
  constexpr MemKind kind() const { return static_cast<MemKind>(attrs >> 4 & 0xf); }
  constexpr Flow flow() const { return static_cast<Flow>(attrs >> 8 & 0xff); }
  constexpr bool has(Attr a) const { return (attrs & a) != 0; }
  // True when the guard is a uniform predicate (sass.md 2.2, pitfall 10).
  constexpr bool guard_is_uniform() const {
    if (has(vector_guard)) return false;
    return has(uniform_guard) || cls == OpClass::uniform || cls == OpClass::tma;
  }
};

// What effects() wants to know of one opcode: the slots of its form, with the logical operands where this opcode has them,
// and what does not depend on the word. Single registers and predicates stand apart, to be read without a branch.
struct Opcode {
  struct Single {
    uint8_t at = 0;       // registers: byte of the word; predicates: bit of its high half
    uint8_t present = 0;  // 0 or 1
  };
  const Form* form = nullptr;
  std::array<Single, 3> gpr_read{}, ur_read{};
  Single gpr_write, ur_write;
  bool has_uniform = false;  // ur_read or ur_write is not empty
  std::array<Single, 2> pred_read{}, pred_write{};
  uint8_t guard_pred = 0, guard_upred = 0;  // 1: the guard is one of these
  std::array<Slot, 6> other_writes{};       // ended by SlotKind::none, like those of a form
  std::array<Slot, 9> other_reads{};
  WidthRule access = WidthRule::count;  // the operand that says how many bytes a lane accesses; count: none does
  LateQueue late_queue = LateQueue::none;
  bool fixed_latency = false;  // fp64: on the architectures that have the unit
  bool may_switch_path = false;
};

// The opcode of a word, or nullptr; the form of a word, or nullptr.
const Opcode* find_opcode(const Arch& arch, const RawInst& w);
const Form* find_form(const Arch& arch, const RawInst& w);
// All rows, for tests.
std::span<const Form> all_forms();

// Where the logical operands of an ALU form stand: the kind of the operand in bits [63:32] and whether it is
// C.
enum class SourceS : uint8_t { reg, imm, constant, constant_bindless, ur };
struct AluLayout {
  SourceS s = SourceS::reg;
  bool s_is_c = false;  // B stands in [71:64], C in [63:32]
};
AluLayout alu_layout(uint16_t opcode);

// N of a 64xNxK warpgroup MMA.
unsigned gmma_columns(const RawInst& w);

// Number of registers of a slot in this word (0: not accessed).
unsigned slot_width(const Arch& arch, const RawInst& w, const Slot& slot);

}  // namespace xtrace::sass
