// One machine instruction: 128 bits, and its scheduling control fields.
//
//   127   125 124  122 121       116 115  113 112  110 109  108   105
//   |  zero  | reuse  | wait mask   | rd bar | wr bar | [109] | stall |   bits [104:0] are the instruction proper
//
// [109] = 1 keeps issuing this warp; 0 lets the scheduler prefer another (called "yield" in other tools).
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "base/types.h"

namespace xtrace::sass {

using RawInst = U128;
constexpr uint32_t inst_bytes = 16;

// Control fields. Scoreboards are six counters per warp, SB0..SB5: a variable-latency instruction increments one at
// issue; it is decremented when the result is written (write barrier) or the sources were read (read barrier); an
// instruction waits until every counter in its wait mask is zero. [measured H200, sass.md 1.3]
struct Control {
  static constexpr uint8_t no_barrier = 7;
  uint8_t stall = 0;              // 0..15 cycles until the next instruction of this warp may issue
  bool keep_issuing = true;       // bit 109
  uint8_t write_barrier = no_barrier;
  uint8_t read_barrier = no_barrier;
  uint8_t wait_mask = 0;          // bit i: SBi
  uint8_t reuse = 0;              // operand cache hints A, B, C; only with keep_issuing (else the field means something
                                  // else: DEPBAR keeps BARRIER_EXEMPT there)
  bool operator==(const Control&) const = default;
};

namespace control_fields {
inline constexpr BitRange stall = bits(108, 105), keep_issuing = bit(109), write_barrier = bits(112, 110),
                          read_barrier = bits(115, 113), wait_mask = bits(121, 116), reuse = bits(124, 122);
}  // namespace control_fields

constexpr Control get_control(const RawInst& w) {
  const auto get = [&w](BitRange field) { return static_cast<uint8_t>(get_bits(w, field)); };
  return {.stall = get(control_fields::stall),
          .keep_issuing = get(control_fields::keep_issuing) != 0,
          .write_barrier = get(control_fields::write_barrier),
          .read_barrier = get(control_fields::read_barrier),
          .wait_mask = get(control_fields::wait_mask),
          .reuse = get(control_fields::reuse)};
}
void set_control(RawInst& w, const Control& c);
// True for the 27 legal (stall, keep_issuing, reuse) combinations: stall 12..15 and 0 need keep_issuing = false, and
// reuse needs keep_issuing = true. [65 M vendor instructions]
bool is_legal(const Control& c);

// 13-bit opcode {[91], [11:0]}.
constexpr uint16_t opcode13(const RawInst& w) {
  return static_cast<uint16_t>((w.lo & 0xfff) | ((w.hi >> 27 & 1) << 12));
}

}  // namespace xtrace::sass
