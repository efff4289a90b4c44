// A run of probe instructions with their scheduling. put() states how many cycles must pass before whatever follows
// may issue; longer waits than one instruction can express become NOPs.
#pragma once

#include <vector>

#include "instrument/sass/arch.h"
#include "instrument/sass/inst.h"

namespace xtrace::instrument {

// Cycles that must lie between a producer and its consumer: the smallest distances that 4.6 M instructions of vendor code for
// sm_90 keep for any of the pairs that probes use (sass.md 5.1), or more. 3 M instructions for each of sm_80, 86, 89, 100, 103,
// 120 and 121 keep them too.
namespace latency {
constexpr unsigned vector_to_vector = 5;     // ALU or IMAD result to ALU or IMAD
constexpr unsigned vector_to_memory = 5;     // ALU, IMAD or CS2R result to address or data of a store; sm_75: splice.cc adds to it
constexpr unsigned predicate_to_guard = 13;
constexpr unsigned uniform_to_vector = 12;   // uniform ALU to a vector or memory instruction
constexpr unsigned r2ur_to_use = 15;
inline unsigned clock_to_vector(const sass::Arch& arch) { return arch.clock_to_alu; }   // CS2R result to ALU
constexpr unsigned scoreboard_visible = 2;   // from an instruction that sets a scoreboard to one that waits on it
}  // namespace latency

struct Schedule {
  unsigned stall = 1;          // cycles before the next instruction; any number >= 1
  uint8_t wait_mask = 0;
  uint8_t write_barrier = sass::Control::no_barrier;
  uint8_t read_barrier = sass::Control::no_barrier;
};

using Sequence = std::vector<sass::RawInst>;

void put(Sequence& seq, sass::RawInst inst, const Schedule& schedule = {});
// Lets so many cycles pass at the end of the sequence: the last word stalls for longer, or a NOP does.
void put_pause(Sequence& seq, unsigned cycles);
// Sum of the stall counts: cycles that pass at least between the first instruction and what follows the sequence.
unsigned least_cycles(const Sequence& seq);

}  // namespace xtrace::instrument
