// The interpreter's own log of what it executed, to hold against traces decoded from instrumented code.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "instrument/sass/effects.h"

namespace xtrace::replay::interp {

// Registers of a warp, as they are in front of an instruction.
struct RegisterView {
  virtual ~RegisterView() = default;
  virtual uint32_t vector(uint8_t index, unsigned lane) const = 0;   // 0 above the kernel's register count
  virtual uint32_t uniform(uint8_t index) const = 0;
  virtual uint32_t predicate(uint8_t index) const = 0;               // lanes in which it holds
};

// What an instruction moves that is made once for the warp, as it executes.
struct Moved {
  std::optional<uint64_t> global, map;                       // a piece of global memory; a tensor map
  std::optional<uint32_t> shared, shared_from, barrier;      // in the cluster's shared memory, the CTA's rank in bits 31:24
  uint32_t bytes = 0;                                        // of a bulk copy
  uint32_t ctas = 0;                                         // of .MULTICAST
  std::vector<int32_t> at;                                   // coordinates of a box
};

struct WitnessSink {
  virtual ~WitnessSink() = default;
  // One instruction of one warp, in the order of its execution. `warp` counts over the launch:
  // cta_linear * warps_per_cta + warp of the CTA. `active` are the lanes that execute together at this pc,
  // `executed` those of them whose guard holds.
  virtual void executed(uint32_t warp, uint32_t pc, uint32_t active, uint32_t executed) = 0;
  // The same instruction, before executed(), for sinks that look at registers.
  virtual bool reads_registers() const { return false; }
  virtual void before(uint32_t /*warp*/, uint32_t /*pc*/, uint32_t /*active*/, const RegisterView&) {}
  // When it is the next to issue, by the model of time: it may wait from then on. Before executed().
  virtual void reached(uint32_t /*warp*/, uint32_t /*pc*/, uint64_t /*clock*/) {}
  // One lane of that instruction accesses memory: the address as the instruction forms it. Lanes in ascending order.
  virtual void accessed(sass::MemSpace, uint32_t /*lane*/, uint64_t /*address*/, uint32_t /*bytes*/) {}
  // That instruction is a bulk copy, or one through a tensor map.
  virtual void moved(const Moved&) {}
};

}  // namespace xtrace::replay::interp
