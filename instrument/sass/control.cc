#include "instrument/sass/inst.h"

namespace xtrace::sass {

void set_control(RawInst& w, const Control& c) {
  set_bits(w, control_fields::stall, c.stall);
  set_bits(w, control_fields::keep_issuing, c.keep_issuing);
  set_bits(w, control_fields::write_barrier, c.write_barrier);
  set_bits(w, control_fields::read_barrier, c.read_barrier);
  set_bits(w, control_fields::wait_mask, c.wait_mask);
  set_bits(w, control_fields::reuse, c.reuse);
}

// The five usched bits that occur are 0, 1..15 and 17..27, and reuse flags occur only with bit 109 set.
// [67 M vendor instructions; nvdisasm rejects the others]
bool is_legal(const Control& c) {
  const bool stall_ok = c.keep_issuing ? c.stall >= 1 && c.stall <= 11 : c.stall <= 15;
  const auto barrier_ok = [](uint8_t b) { return b <= 5 || b == Control::no_barrier; };
  return stall_ok && (c.reuse == 0 || (c.keep_issuing && c.reuse <= 7)) && barrier_ok(c.write_barrier) &&
         barrier_ok(c.read_barrier) && c.wait_mask <= 0x3f;
}

}  // namespace xtrace::sass
