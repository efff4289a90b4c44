// What an operation sees when it executes: the warp, the lanes that take part, and where to report a fault.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "replay/interp/state.h"
#include "replay/interp/witness.h"

namespace xtrace::replay::interp {

struct Program;
class MemoryMap;

// How an instruction leaves its path.
enum class Next : uint8_t { fall, moved };

// Says where in the launch something went wrong, and stops it.
struct Fault {
  ErrorKind kind = ErrorKind::device;
  std::string message;  // without place
  int lane = -1;
  std::string hint = {};
};

struct Step {
  Warp* warp = nullptr;
  Cta* cta = nullptr;
  const Program* program = nullptr;
  MemoryMap* memory = nullptr;
  WitnessSink* witness = nullptr;
  Row* regs = nullptr;
  const Row* pool = nullptr;
  uint32_t mask = 0;    // lanes whose guard holds; all for the uniform datapath
  uint32_t active = 0;  // lanes of the path
  Next next = Next::fall;
  bool faulted = false;
  bool yield = false;  // another path or warp may go first
  Fault fault;

  void fail(ErrorKind kind, std::string message, int lane = -1) {
    if (faulted) return;
    faulted = true;
    fault = {kind, std::move(message), lane};
  }

  const uint32_t* row(const Operand& o) const { return (o.pool ? pool : regs)[o.row].lane; }
  uint32_t* out(int32_t r) const { return regs[r].lane; }
  uint32_t pred(PredOperand p) const { return warp->preds[p.index] ^ p.flip; }
  void set_pred(uint8_t index, uint32_t lanes) const {
    if (index == pt || index == upt) return;
    uint32_t& p = warp->preds[index];
    p = (p & ~mask) | (lanes & mask);
  }
};

// An operand ready to be read lane by lane.
struct Source {
  Source(const Step& s, const Operand& o) : p(s.row(o)), mask(o.mask), flip(o.flip), add(o.add) {}
  const uint32_t* p;
  uint32_t mask, flip, add;
  uint32_t operator[](unsigned l) const { return ((p[l] & mask) ^ flip) + add; }
};
// The same for registers without modifiers.
struct Plain {
  Plain(const Step& s, const Operand& o) : p(s.row(o)) {}
  const uint32_t* p;
  uint32_t operator[](unsigned l) const { return p[l]; }
};

// f(lane) for every lane that takes part. Lanes depend on nothing of each other: the compiler may do them
// side by side.
template <typename F>
inline void each(const Step& s, F f) {
  if (s.mask == all_lanes) {
#pragma GCC ivdep
    for (unsigned l = 0; l < lane_count; ++l) f(l);
  } else {
    for (uint32_t m = s.mask; m != 0; m &= m - 1) f(static_cast<unsigned>(__builtin_ctz(m)));
  }
}

// d[lane] = f(lane)
template <typename F>
inline void map(const Step& s, int32_t d, F f) {
  uint32_t* to = s.out(d);
  each(s, [&](unsigned l) { to[l] = f(l); });
}

// One value for the whole warp into a uniform register.
inline void broadcast(const Step& s, int32_t d, uint32_t value) {
  uint32_t* to = s.out(d);
  for (unsigned l = 0; l < lane_count; ++l) to[l] = value;
}

// A mask of the lanes that take part and for which f(lane).
template <typename F>
inline uint32_t test(const Step& s, F f) {
  uint32_t lanes = 0;
  for (unsigned l = 0; l < lane_count; ++l) lanes |= static_cast<uint32_t>(static_cast<bool>(f(l))) << l;
  return lanes & s.mask;
}

inline unsigned first_lane(uint32_t mask) { return static_cast<unsigned>(__builtin_ctz(mask)); }

}  // namespace xtrace::replay::interp
