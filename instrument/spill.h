// Where no register is free, one of the kernel's stands aside in local memory while a probe works with it, in front of one instruction:
//
//   ULDC U, c[0x0][0x28]     the stack's top
//   STL  [U - frame], R      this thread's value
//   ...                      the probe has R
//   LDL  R, [U - frame]
//   NOP                      waits for it
//
// The place lies below all that the kernel's own stack may take, in a frame that is larger by that much. Only where that is proven: no
// calls (a function may call itself), and a stack pointer that moves once, by the frame. `mem` does it: addresses are the same however
// long a probe takes. A lane's word goes to memory and back, which the report counts.
#pragma once

#include <cstdint>
#include <optional>

#include "instrument/code.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/encode.h"
#include "instrument/sequence.h"

namespace xtrace::instrument {

struct SpillFrame {
  uint32_t bytes = 0;      // of the frame that has room for it
  int32_t place() const { return -static_cast<int32_t>(bytes); }   // from the stack's top on
};
constexpr uint32_t spill_bytes = 16;                  // frames are multiples of it [nvcc 13.0]
constexpr uint16_t stack_top = 0x28;                  // in bank 0, up to sm_90 [nvcc 13.0: the first instruction of kernels with a frame]

std::optional<SpillFrame> spill_frame(const Code& code, const cubin::KernelInfo& info);

// `address`: a uniform register that nobody else has until the register is back.
// `waits`: scoreboards to wait for first, so that the register's value is there.
void put_save(Sequence& seq, const SpillFrame& frame, sass::enc::Ureg address, sass::enc::Gpr reg, uint8_t scoreboard, uint8_t waits);
void put_restore(Sequence& seq, const SpillFrame& frame, sass::enc::Ureg address, sass::enc::Gpr reg, uint8_t scoreboard);

}  // namespace xtrace::instrument
