// A kernel, decoded once for one launch: instructions with their operands found, and constants as rows.
// Constants of the banks are baked in: they do not change while a kernel runs.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "instrument/sass/arch.h"
#include "instrument/sass/inst.h"
#include "replay/interp/constant_banks.h"
#include "replay/interp/handle.h"
#include "replay/interp/inst.h"
#include "replay/interp/state.h"

namespace xtrace::replay::interp {

struct UniformEffects {
  UniformSet use, def;
};

struct Program {
  const sass::Arch* arch = nullptr;
  std::string kernel;
  std::vector<Inst> insts;
  std::vector<sass::RawInst> words;
  std::vector<Row> pool;
  std::unordered_map<uint32_t, int32_t> pool_index;
  std::vector<std::string>
      problems;  // why an instruction is refused: Inst::op of a refusing one is the index here
  std::map<uint32_t, std::string> unresolved;  // by index: what the loader would have written into the instruction, and is not known here
  std::vector<UniformEffects> uniforms;
  std::map<uint32_t, HandleConstant> handles;  // of the instructions that have one, by index
  ConstantBanks banks;
  RowLayout layout;
  uint32_t registers = 0;          // EIATTR_REGCOUNT
  bool changes_registers = false;  // USETMAXREG
  uint32_t local_bytes = 0;        // a thread: frame and stack
  uint32_t frame_bytes = 0;
  uint32_t shared_bytes = 0;  // static
  uint32_t code_bytes = 0;
  bool uses_local = false;
  bool spliced = false;  // not the recorded code: probes are in it
  std::map<uint32_t, cubin::SourceLine> lines;  // by pc, where the line changes; empty without line tables

  int32_t constant_row(uint32_t value);
  std::string text(uint32_t index) const;  // SASS
  // "saxpy.cu:7"; empty when it is not known.
  std::string source(uint32_t index) const;
  // Why the instruction is refused; nullptr when it is not.
  const std::string* problem(uint32_t index) const;
};

// Decodes `words` into `insts`, with arch, banks and layout set.
void decode_words(Program& p);

// Never fails for an instruction that is not implemented: that one stops the launch when it is reached.
Result<Program> decode_program(ByteView cubin, const LaunchImage& launch);

}  // namespace xtrace::replay::interp
