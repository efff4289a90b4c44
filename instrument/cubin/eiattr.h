// What is known about the attributes of .nv.info records. eiattr.def is the table; everything walks it.
#pragma once

#include <cstdint>
#include <span>

namespace xtrace::cubin {

struct Eiattr {
  // Where a format 4 payload, a list of u32 words, holds instruction offsets.
  enum class Payload : uint8_t {
    unknown,  // layout not known: code that moves instructions must refuse
    refused,  // known to depend on code positions in a way that is not modelled
    no_offsets,
    offsets,         // every word
    first_of_2,      // the first word of each pair
    second_of_2,     // the second word of each pair
    first_of_4,      // the first word of each group of four
    branch_targets,  // {offset, 0, n, n offsets} repeated
    per_coop_group,  // no offsets, but one word for each offset of COOP_GROUP_INSTR_OFFSETS
  };
  uint8_t code = 0;
  const char* name = "";
  uint8_t format = 0;
  Payload payload = Payload::unknown;
  const char* meaning = "";
};

// Sorted by code.
std::span<const Eiattr> eiattr_table();
// nullptr for a code that is not in the table.
const Eiattr* find_eiattr(uint8_t code);
// True when a format 4 record of this attribute may be moved along with code.
bool is_movable(uint8_t code);

// The codes this room reads by meaning.
namespace eiattr {
constexpr uint8_t kMaxThreads = 0x05, kParamCbank = 0x0a, kFrameSize = 0x11, kMinStackSize = 0x12,
                  kKparamInfo = 0x17, kCbankParamSize = 0x19, kMaxregCount = 0x1b,
                  kCoopGroupInstrOffsets = 0x28, kCoopGroupMaskRegids = 0x29, kRegcount = 0x2f,
                  kIndirectBranchTargets = 0x34;
}  // namespace eiattr

}  // namespace xtrace::cubin
