// Typed view of what a cubin says about one kernel: EIATTR records of .nv.info and .nv.info.<kernel>, constant banks,
// local functions. Records whose meaning is not known are kept verbatim by Image and named here.
#pragma once

#include <map>

#include "instrument/cubin/image.h"

namespace xtrace::cubin {

struct ParamInfo {
  uint16_t ordinal = 0;
  uint16_t offset = 0;   // in the parameter block
  uint32_t size = 0;
};

struct LocalFunction {   // a FUNC symbol inside the kernel's own .text (non-inlined device function)
  uint32_t symbol = 0;
  std::string name;
  uint64_t offset = 0, size = 0;
};

struct IndirectBranch {  // EIATTR_INDIRECT_BRANCH_TARGETS (0x34)
  uint32_t instruction = 0;
  std::vector<uint32_t> targets;
};

struct KernelInfo {
  std::string name;
  uint32_t text_section = 0, symbol = 0;
  std::optional<uint32_t> info_section;                    // .nv.info.<kernel>
  std::map<unsigned, uint32_t> constant_sections;          // bank -> section (.nv.constant0/2.<kernel>, .nv.constant3/4)
  uint32_t register_count = 0;                             // EIATTR_REGCOUNT, includes the 2 reserved registers
  uint32_t frame_bytes = 0, min_stack_bytes = 0;
  uint32_t max_threads = 0;                                // product of EIATTR_MAX_THREADS; 0 when absent
  uint32_t max_register_count = 0xff;                      // EIATTR_MAXREG_COUNT
  uint32_t shared_bytes = 0;                               // static: size of .nv.shared.<kernel>
  uint32_t param_base = 0, param_bytes = 0;
  std::vector<ParamInfo> params;                           // sorted by offset
  std::vector<LocalFunction> functions;
  std::vector<IndirectBranch> indirect_branches;
  std::vector<uint8_t> unknown_payload_attributes;         // format 4, not in the table of known attributes: code that
                                                           // moves instructions must refuse the kernel
};

Result<KernelInfo> kernel_info(const Image& image, std::string_view kernel);

// Sets EIATTR_REGCOUNT of `kernel` (and the top byte of sh_info where the architecture keeps it there too), and raises EIATTR_MAXREG_COUNT to it.
Status set_register_count(Image& image, const KernelInfo& kernel, uint32_t count);
// Sets EIATTR_FRAME_SIZE and EIATTR_MIN_STACK_SIZE of `kernel`, both of which it must have.
Status set_frame_bytes(Image& image, const KernelInfo& kernel, uint32_t bytes);

// Rewrites every instruction offset that the metadata of `kernel` holds. `map` gives, for an old offset, the new offsets
// (several when the code exists in several copies; empty is an error of the caller for offsets that name an
// instruction). May be called before or after the new bytes of the section are set. Covers:
//   - EIATTR lists with offsets (eiattr.def: 0x1c 0x28 0x29 0x2e 0x31 0x34 0x39 0x44 0x46 0x55 and the rest): first all
//     entries of the primary copy, then all entries of the next one;
//   - symbols in the section (value and size). The kernel's own symbol stays at 0 and covers the whole new section: what
//     was put in front of its first instruction belongs to it;
//   - relocations: offset, once for each copy; addend where it names a position in this text, also from other sections.
//     Addend 0 against a function stays the function;
//   - .debug_line, .nv_debug_line_sass: rewritten, with a sequence for each copy; .debug_frame: function ranges and frame
//     changes of the primary copy.
// .nv.callgraph needs nothing. Jump tables in constant banks and immediates in code are the caller's.
// A debug section that can not be rewritten is kept verbatim and listed in `dropped` with the reason: the loader does not
// read it, emptying it would leave relocations and headers that point into nothing, and what it says is of the old code,
// which a tool can find out from this list only. So are mercury capsules (sm_100 and later), which describe the old code.
// Anything else that can not be mapped is an error that names the attribute or section (unsupported; bad_input when the
// metadata contradicts the code). After an error the image is half changed: drop it.
struct MovedCode {
  std::function<std::vector<uint32_t>(uint32_t old_offset)> instruction;  // all copies, first the primary
  std::function<uint32_t(uint32_t old_offset)> boundary;                  // for ends of functions and of the section
  uint32_t new_text_bytes = 0;
};
struct MovedReport {
  std::vector<std::string> dropped;
};
Result<MovedReport> map_code_offsets(Image& image, const KernelInfo& kernel, const MovedCode& moved);

// pc -> source position from the line tables, when the cubin was built with -lineinfo.
struct SourceLine {
  std::string file;
  uint32_t line = 0;
};
Result<std::map<uint32_t, SourceLine>> source_lines(const Image& image, const KernelInfo& kernel);

}  // namespace xtrace::cubin
