#include "instrument/sass/inst.h"

namespace xtrace::sass {
namespace {
constexpr BitRange stall_field = bits(108, 105), keep_field = bit(109), write_field = bits(112, 110),
                   read_field = bits(115, 113), wait_field = bits(121, 116), reuse_field = bits(124, 122);
}

Control get_control(const RawInst& w) {
  return {.stall = static_cast<uint8_t>(get_bits(w, stall_field)),
          .keep_issuing = get_bits(w, keep_field) != 0,
          .write_barrier = static_cast<uint8_t>(get_bits(w, write_field)),
          .read_barrier = static_cast<uint8_t>(get_bits(w, read_field)),
          .wait_mask = static_cast<uint8_t>(get_bits(w, wait_field)),
          .reuse = static_cast<uint8_t>(get_bits(w, reuse_field))};
}

void set_control(RawInst& w, const Control& c) {
  set_bits(w, stall_field, c.stall);
  set_bits(w, keep_field, c.keep_issuing);
  set_bits(w, write_field, c.write_barrier);
  set_bits(w, read_field, c.read_barrier);
  set_bits(w, wait_field, c.wait_mask);
  set_bits(w, reuse_field, c.reuse);
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
