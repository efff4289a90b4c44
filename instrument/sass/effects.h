// What an instruction reads, writes and does, as far as splicing must know. Derived from the form table (forms.def);
// an instruction without a form gives `known == false` and must be treated as reading and writing everything.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "instrument/sass/arch.h"
#include "instrument/sass/inst.h"
#include "instrument/sass/register_set.h"

namespace xtrace::sass {

// A RegSet holds vector registers by index (RZ = 255 never set), or uniform registers (URZ never set).
using PredSet = uint8_t;          // bit i: P<i> or UP<i>, i = 0..6 (PT and UPT never set)

struct RegEffects {
  RegSet gpr, ur;
  PredSet pred = 0, upred = 0;
  uint16_t barrier = 0;  // convergence barriers B0..B15
};

enum class MemSpace : uint8_t { none, generic, global, shared, local, constant, texture, surface, distributed };
enum class MemKind : uint8_t { none, load, store, atomic, reduction, async, other };

enum class Flow : uint8_t {
  next,           // falls through
  branch,         // BRA and BRA.U: relative target
  branch_indirect,// BRX: target from a register (jump table)
  jump_absolute,  // JMP: absolute or constant-bank target
  call_relative,  // CALL.REL with immediate target inside the section
  call_other,     // CALL.ABS, CALL through a register or constant bank
  ret,            // RET.REL / RET.ABS
  exit,           // EXIT
  kill,           // KILL, BPT.TRAP and the like: the warp or grid ends
};

// Which in-order queue reads the register sources after issue (sass.md 5.3): the write-after-read hazard classes.
enum class LateQueue : uint8_t { none, lsu, xu, branch, other };

struct Effects {
  bool known = false;
  std::string_view mnemonic;     // "LDG", "IADD3"; empty when unknown
  RegEffects use, def;           // guard predicate included in use
  bool exact = false;            // false: some registers are upper bounds, which then count as read even when written
  bool guarded = false;          // guard is not PT (or UPT): definitions happen only in part, never a kill
  MemSpace space = MemSpace::none;
  MemKind kind = MemKind::none;
  uint8_t access_bytes = 0;      // per lane; 0 when not a plain access

  Flow flow = Flow::next;
  bool falls_through = true;     // control may continue at the next instruction
  std::optional<int64_t> target; // byte offset in the section for branch, call_relative, and BSSY / WARPSYNC.COLLECTIVE /
                                 // LEPC style targets; already resolved against the pc
  bool is_bssy_target = false;   // `target` is a reconvergence point (BSSY) and not a jump
  bool may_switch_path = false;  // a diverged warp may continue with another path here: BSYNC, WARPSYNC, YIELD, BAR,
                                 // NANOSLEEP, CALL, RET, BRA ... (probe records may not span it)

  bool fixed_latency = false;    // result ready after the stall count; no scoreboard
  bool uses_scoreboard_count = false;  // DEPBAR.LE SBn, k with k > 0: counts outstanding groups on `depbar_scoreboard`
  uint8_t depbar_scoreboard = 7;
  LateQueue late_queue = LateQueue::none;  // reads its vector sources late
  bool async_registers = false;  // wgmma: reads or writes vector registers until WARPGROUP.DEPBAR, unseen by scoreboards
  bool changes_register_limit = false;     // USETMAXREG
  uint32_t register_limit = 0;   // ... to so many a thread; 0: the number stands in a register
};

// `pc` is the byte offset of the instruction in its section (for targets).
Effects effects(const Arch& arch, const RawInst& w, uint32_t pc);

// Rewrites the relative target of an instruction whose effects() has one, as seen from `pc`. unsupported when the
// distance does not fit the field; internal when the instruction has no target field.
Status set_target(const Arch& arch, RawInst& w, uint32_t pc, int64_t target);
// RET.REL and BRX: the immediate that makes "section start" the base (target = base + register). Reads and writes that
// base (an offset in the section, normally 0) as seen from `pc`.
std::optional<int64_t> register_branch_base(const Arch& arch, const RawInst& w, uint32_t pc);
Status set_register_branch_base(const Arch& arch, RawInst& w, uint32_t pc, int64_t base);

}  // namespace xtrace::sass
