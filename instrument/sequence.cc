#include "instrument/sequence.h"

#include <algorithm>

#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

constexpr unsigned longest_stall = 15, longest_keep_issuing = 11;   // legal combinations, sass.md 1.3

sass::Control control_for(unsigned stall) {
  sass::Control c;
  c.stall = static_cast<uint8_t>(stall);
  c.keep_issuing = stall <= longest_keep_issuing;
  return c;
}

}  // namespace

void put(Sequence& seq, sass::RawInst inst, const Schedule& s) {
  XT_CHECK(s.stall >= 1, "a probe instruction needs a stall of at least one cycle");
  unsigned left = s.stall;
  sass::Control c = control_for(std::min(left, longest_stall));
  c.wait_mask = s.wait_mask;
  c.write_barrier = s.write_barrier;
  c.read_barrier = s.read_barrier;
  set_control(inst, c);
  seq.push_back(inst);
  for (left -= c.stall; left > 0;) {
    sass::RawInst nop = sass::enc::nop();
    const sass::Control n = control_for(std::min(left, longest_stall));
    set_control(nop, n);
    seq.push_back(nop);
    left -= n.stall;
  }
}

void put_pause(Sequence& seq, unsigned cycles) {
  if (cycles == 0) return;
  if (seq.empty()) return put(seq, sass::enc::nop(), {.stall = cycles});
  sass::Control c = sass::get_control(seq.back());
  const unsigned stall = c.stall + cycles;
  if (stall > longest_stall) return put(seq, sass::enc::nop(), {.stall = cycles});
  c.stall = static_cast<uint8_t>(stall);
  c.keep_issuing = stall <= longest_keep_issuing;
  sass::set_control(seq.back(), c);
}

unsigned least_cycles(const Sequence& seq) {
  unsigned sum = 0;
  for (const sass::RawInst& w : seq) sum += sass::get_control(w).stall;
  return sum;
}

}  // namespace xtrace::instrument
