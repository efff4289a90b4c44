#include "instrument/spill.h"

#include <algorithm>

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;

constexpr unsigned last_sm = 90;
constexpr uint8_t stack_pointer = 1;

// The stack pointer is the stack's top, less the frame: one load, one addition.
bool moves_once(const Code& code) {
  unsigned loads = 0, others = 0;
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    const sass::Effects& fx = code.insts[i].fx;
    if (!code.reachable[i] || !fx.def.gpr.test(stack_pointer)) continue;
    (fx.mnemonic == "LDC" ? loads : others) += 1;
    if (fx.mnemonic != "LDC" && fx.mnemonic != "IADD3" && fx.mnemonic != "VIADD") return false;
  }
  return loads <= 1 && others <= 1;
}

}  // namespace

std::optional<SpillFrame> spill_frame(const Code& code, const cubin::KernelInfo& info) {
  if (code.arch->sm > last_sm || code.functions.size() > 1) return std::nullopt;
  const uint32_t own = std::max(info.frame_bytes, info.min_stack_bytes);
  if (own != 0 && !moves_once(code)) return std::nullopt;
  return SpillFrame{static_cast<uint32_t>(align_up(own, spill_bytes)) + spill_bytes};
}

void put_save(Sequence& seq, const SpillFrame& frame, enc::Ureg address, enc::Gpr reg, uint8_t scoreboard, uint8_t waits) {
  put(seq, enc::uldc(address, 0, stack_top), {.stall = uniform_to_vector, .wait_mask = waits});
  put(seq, enc::stl({address, enc::RZ, frame.place()}, reg, enc::Size::b32), {.stall = scoreboard_visible, .read_barrier = scoreboard});
}

void put_restore(Sequence& seq, const SpillFrame& frame, enc::Ureg address, enc::Gpr reg, uint8_t scoreboard) {
  put(seq, enc::ldl(reg, {address, enc::RZ, frame.place()}, enc::Size::b32), {.stall = scoreboard_visible, .write_barrier = scoreboard});
  put(seq, enc::nop(), {.stall = 1, .wait_mask = static_cast<uint8_t>(1u << scoreboard)});
}

}  // namespace xtrace::instrument
