// The code of one kernel, decoded: every instruction of its .text section with its effects, the functions in it, and the
// places where code offsets hide outside the instructions (jump tables, return addresses). Building it is where a kernel
// that can not be understood is refused, by name and pc.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bits.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/access.h"
#include "instrument/sass/effects.h"

namespace xtrace::instrument {

using InstIndex = uint32_t;   // instruction number in the section: pc / 16

// The two registers that the count includes and no instruction may use [measured H200].
constexpr uint32_t reserved_registers = 2;

struct CodeInst {
  sass::RawInst raw;
  sass::Effects fx;
  // A call of __assertfail: it ends the launch with an error, so that nothing behind it matters.
  bool asserts = false;
  // The loader writes into it (a relocation): what stands there as an immediate, or as an offset of a constant, is not what it executes
  // with. Linked code has the addresses of the module's variables so (nvcc -rdc=true, cuFFT): UMOV UR4, 32@lo(variable).
  bool relocated = false;
};

// Where a code offset stands in a MOV of a return address, and the table offset in the LDC of a jump table.
constexpr BitRange mov_imm_field = bits(63, 32), ldc_offset_field = bits(53, 38);

// `MOV Rd, <return offset>` in front of a CALL.REL: the only place where the return address stands (sass.md 6.3).
struct ReturnAddress {
  InstIndex call = 0, mov = 0;
};

// `LDC Rd, c[0x2][Ra + table]` ... `BRX Rd`: a run of code offsets in .nv.constant2.<kernel>.
struct JumpTable {
  InstIndex brx = 0, ldc = 0;
  uint32_t offset = 0;                 // byte offset in the constant bank
  std::vector<InstIndex> targets;      // one per word, in table order
};

// function_pointers.h
struct FunctionPointers {
  std::vector<InstIndex> calls;        // CALL.REL through a register
  std::vector<InstIndex> entries;      // ascending: where each of them may lead, functions whose offset stands in constants or variables
  InstIndex first = 0, last = 0;       // entries of all functions in the section lie between these
  int64_t base = 0;                    // a pointer is the function's offset less this; not 0 in linked code (linked_code.h)
};

struct Function {
  std::string name;
  InstIndex entry = 0;
  std::vector<InstIndex> rets;         // RET instructions reached from the entry without following calls
  std::vector<InstIndex> calls_to_it;  // CALL.REL instructions that target it, or may
};

struct Code {
  const sass::Arch* arch = nullptr;
  std::string kernel;
  std::vector<CodeInst> insts;
  std::vector<bool> reachable;         // from the kernel's entry; padding is not
  std::vector<Function> functions;     // [0] is the kernel itself
  std::vector<ReturnAddress> return_addresses;
  std::vector<JumpTable> jump_tables;
  FunctionPointers pointers;

  uint32_t pc(InstIndex i) const { return i * sass::inst_bytes; }
  InstIndex index(uint32_t pc) const { return pc / sass::inst_bytes; }
  uint32_t bytes() const { return pc(static_cast<InstIndex>(insts.size())); }

  // Instructions that may execute next after i, each once, jumps and returns included. Calls lead to the callee only;
  // returns lead to every return point of every call of that function.
  std::vector<InstIndex> successors(InstIndex i) const;
  // Entries of the functions that the call at i may lead to.
  std::vector<InstIndex> callees(InstIndex i) const;
};

// Where `fx` is an upper bound (textures), the kernel's own registers bound it as well: hardware stops a kernel that uses others
// [measured H200], and those above may be a probe's. Not for kernels that change their register limit, which stay at their count.
void bound_by_count(sass::Effects& fx, uint32_t register_count);
bool changes_register_limit(const Code& code);

// By instruction: it belongs to a function that calls itself, perhaps by way of others.
std::vector<bool> in_recursion(const Code& code);

// Reads the section of `kernel`. Refuses (unsupported): unknown instructions on reachable paths, indirect branches
// without a proven jump table, calls that leave the section (but for failed assertions), return addresses that can not be found.
// An LDC whose result nobody reads (LDC R1 of kernels without a stack) has no scoreboard in the cubin and one in the code: else nobody
// could tell when its register is free.
Result<Code> read_code(const cubin::Image& image, const cubin::KernelInfo& info);

// sass::accesses() of instruction i; one whose offset the loader fills in is not covered.
std::variant<std::vector<sass::Access>, sass::NotCovered> accesses(const Code& code, InstIndex i);

// "kernel@0x1a0: LDG.E R0, desc[UR4][R2.64]" for messages.
std::string where(const Code& code, InstIndex i);

}  // namespace xtrace::instrument
