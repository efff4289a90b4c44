// The only authority over what probes may use: vector registers, uniform registers, predicates, scoreboards.
//
// Vector registers come in aligned quads (a record is stored 16 bytes at a time), in this order:
//   1. fresh   above the kernel's own count, where the hardware's allocation has room for them at the same occupancy:
//              dead everywhere, and no original instruction can still be reading them
//   2. dead    registers of the kernel that Liveness allows at every point where the probe holds a value in them
//   3. grown   above the kernel's count at the price of occupancy, never past what the launch can hold
// Kernels that change their register limit while they run (setmaxnreg) are refused.
#pragma once

#include <optional>
#include <vector>

#include "instrument/blocks.h"
#include "instrument/instrument.h"
#include "instrument/liveness.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {

// Uniform registers of the spliced code; all untouched by the original kernel.
struct UniformPlan {
  sass::enc::Ureg address;     // of a pair: where the next record goes; `count`: the counters
  sass::enc::Ureg header;      // of a pair: this warp's WarpHeader
  sass::enc::Ureg cursor;      // bytes produced, starting at lead_bytes (wrapping slots); `count`: block bytes
  sass::enc::Ureg mask;        // slot size - 1; `count`: inst bytes
  sass::enc::Ureg base;        // low word of the slot's address
  sass::enc::Ureg temp;
};
constexpr sass::enc::Ureg high_half(sass::enc::Ureg pair) { return {static_cast<uint8_t>(pair.index + 1)}; }

struct Quad {
  uint8_t reg = 0;       // R<reg> .. R<reg+3>, reg % 4 == 0
  uint8_t scoreboard = 0;
  bool fresh = false;
  sass::enc::Gpr r(unsigned k) const { return {static_cast<uint8_t>(reg + k)}; }
};

class Scratch {
 public:
  // Refuses (unsupported) when no uniform registers or no scoreboard are left.
  static Result<Scratch> plan(const Code& code, const cubin::KernelInfo& info, const Blocks& blocks,
                              const Liveness& liveness, const LaunchShape& shape);

  const UniformPlan& uniform() const { return uniform_; }
  // A quad that may hold values at every point "immediately before i" for i in [from, to]. Prefers one whose register
  // differs from `previous`, so that consecutive records do not wait for each other's stores.
  Result<Quad> quad(InstIndex from, InstIndex to, std::optional<Quad> previous);
  // A predicate that may be written immediately before i.
  Result<sass::enc::Pred> predicate(InstIndex i) const;
  // Scoreboards that probes use (mask); whoever enters a block with borrowed registers waits for all of them.
  uint8_t scoreboards() const;
  bool borrowed() const { return borrowed_; }          // some quad came from the kernel's own registers
  uint32_t register_count() const { return count_; }   // EIATTR_REGCOUNT for what was handed out so far
  uint32_t fresh_registers() const { return fresh_used_; }

 private:
  const Code* code_ = nullptr;
  const Liveness* liveness_ = nullptr;
  UniformPlan uniform_;
  uint8_t scoreboard_[2] = {0, 0};
  uint32_t own_count_ = 0, count_ = 0, free_count_ = 0, launch_count_ = 0;
  uint32_t fresh_used_ = 0;
  bool borrowed_ = false;
};

// The two registers that the count includes and no instruction may use [measured H200].
constexpr uint32_t reserved_registers = 2;

}  // namespace xtrace::instrument
