// Tensor cores, and the transposition that feeds them.
#include "replay/interp/op_table.h"
#include "replay/interp/step.h"
#include "replay/interp/value/mma.h"

namespace xtrace::replay::interp {
namespace {

bool whole_warp(Step& s) {
  if (s.mask == all_lanes) return true;
  s.fail(ErrorKind::unsupported, fmt::format("it needs all 32 lanes, {:#010x} take part", s.mask));
  return false;
}

uint16_t half_of(uint32_t v, unsigned k) { return static_cast<uint16_t>(v >> (16 * k)); }

// MOVM.16.MT88: an 8 x 8 matrix of 16-bit elements, lane l holding row l/4, columns 2(l%4) and the next,
// transposed.
void movm(Step& s, const Inst& i) {
  if (!whole_warp(s)) return;
  const Plain a(s, i.a[0]);
  uint32_t r[lane_count];
  for (unsigned l = 0; l < lane_count; ++l) {
    r[l] = 0;
    for (unsigned k = 0; k < 2; ++k) {
      const unsigned row = 2 * (l % 4) + k, column = l / 4;
      r[l] |= uint32_t{half_of(a[row * 4 + column / 2], column % 2)} << (16 * k);
    }
  }
  map(s, i.d[0], [&](unsigned l) { return r[l]; });
}
void decode_movm(Decoder& d, Inst& i) {
  d.dst_gpr(i);
  d.gprs(i.a, 24, 1);
  d.expect(79, 78, 0, "the kind of transposition");
  i.unit = Unit::matrix;
  i.exec = movm;
}

// HMMA.16816.F32: D (16 x 8) = A (16 x 16) * B (16 x 8) + C. Lane l = 4g + t holds of A rows g and g+8,
// columns 2t, 2t+1, 2t+8, 2t+9; of B column g, the same rows; of C and D rows g and g+8, columns 2t and 2t+1.
// [PTX ISA: mma.m16n8k16]
void hmma(Step& s, const Inst& i) {
  if (!whole_warp(s)) return;
  uint16_t a[16][16], b[8][16];  // b by column
  for (unsigned l = 0; l < lane_count; ++l) {
    const unsigned g = l / 4, t = l % 4;
    for (unsigned r = 0; r < 4; ++r) {
      const uint32_t v = s.row(i.a[r])[l];
      for (unsigned k = 0; k < 2; ++k) a[g + 8 * (r % 2)][2 * t + k + 8 * (r / 2)] = half_of(v, k);
    }
    for (unsigned r = 0; r < 2; ++r) {
      const uint32_t v = s.row(i.b[r])[l];
      for (unsigned k = 0; k < 2; ++k) b[g][2 * t + k + 8 * r] = half_of(v, k);
    }
  }
  uint32_t d[4][lane_count];
  for (unsigned l = 0; l < lane_count; ++l) {
    const unsigned g = l / 4, t = l % 4;
    for (unsigned r = 0; r < 4; ++r) {
      const auto v = value::hmma_16816_f32(std::span<const uint16_t, 16>(a[g + 8 * (r / 2)]),
                                           std::span<const uint16_t, 16>(b[2 * t + r % 2]), s.row(i.c[r])[l]);
      if (!v)
        return s.fail(ErrorKind::unsupported,
                      "an operand that is infinite or not a number, which was not measured",
                      static_cast<int>(l));
      d[r][l] = *v;
    }
  }
  for (unsigned r = 0; r < 4; ++r) map(s, i.d[r], [&](unsigned l) { return d[r][l]; });
}
void decode_hmma(Decoder& d, Inst& i) {
  d.expect(75, 75, 1, "the shape");
  d.expect(78, 78, 0, "the shape");
  d.expect(76, 76, 1, "the result type");
  d.expect(83, 82, 0, "the operand type");
  d.dst_gpr(i, 4);
  d.gprs(i.a, 24, 4);
  d.gprs(i.b, 32, 2);
  d.gprs(i.c, 64, 4);
  i.unit = Unit::matrix;
  i.exec = hmma;
}

constexpr Op ops[] = {
    {"MOVM", 0x03a, decode_movm},
    {"HMMA", 0x03c, decode_hmma},
};

}  // namespace

std::span<const Op> matrix_ops() { return ops; }

}  // namespace xtrace::replay::interp
