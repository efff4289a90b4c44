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

// HMMA: D (16 x 8) = A (16 x 16, or 16 x 8 in 1688) * B (as deep, x 8) + C. Lane l = 4g + t holds of A rows g and g+8, columns
// 2t, 2t+1, 2t+8, 2t+9; of B column g, the same rows; of C and D rows g and g+8, columns 2t and 2t+1, in one register each or,
// in half precision, two in one. [PTX ISA: mma.m16n8k16, m16n8k8]
// op: depth in steps of 8; flag[0] bfloat16, flag[1] C and D in half precision.
void hmma(Step& s, const Inst& i) {
  if (!whole_warp(s)) return;
  uint16_t a[16][16] = {}, b[8][16] = {};  // b by column
  for (unsigned l = 0; l < lane_count; ++l) {
    const unsigned g = l / 4, t = l % 4;
    for (unsigned r = 0; r < 2 * i.op; ++r) {
      const uint32_t v = s.row(i.a[r])[l];
      for (unsigned k = 0; k < 2; ++k) a[g + 8 * (r % 2)][2 * t + k + 8 * (r / 2)] = half_of(v, k);
    }
    for (unsigned r = 0; r < i.op; ++r) {
      const uint32_t v = s.row(i.b[r])[l];
      for (unsigned k = 0; k < 2; ++k) b[g][2 * t + k + 8 * r] = half_of(v, k);
    }
  }
  uint32_t d[4][lane_count];
  for (unsigned l = 0; l < lane_count; ++l) {
    const unsigned g = l / 4, t = l % 4;
    for (unsigned row = 0; row < 2; ++row)
      for (unsigned column = 0; column < 2; ++column) {
        const std::span<const uint16_t, 16> x(a[g + 8 * row]), y(b[2 * t + column]);
        if (!i.flag[1]) {
          const unsigned r = 2 * row + column;
          d[r][l] = value::hmma_f32(x, y, s.row(i.c[r])[l], i.flag[0] ? value::brain_format : value::half_format);
        } else {
          const uint32_t r = value::hmma_f16(x, y, half_of(s.row(i.c[row])[l], column));
          d[row][l] = column == 0 ? r : d[row][l] | r << 16;
        }
      }
  }
  for (unsigned r = 0; r < (i.flag[1] ? 2u : 4u); ++r) map(s, i.d[r], [&](unsigned l) { return d[r][l]; });
}
void decode_hmma(Decoder& d, Inst& i) {
  i.op = d.flag(75) ? 2 : 1;
  d.expect(78, 78, 0, "the shape");
  i.flag[1] = !d.flag(76);
  const uint32_t type = d.take(83, 82);
  if (type > 1 || (type == 1 && (i.flag[1] || i.op == 1))) d.refuse("the operand type");
  i.flag[0] = type == 1;
  d.dst_gpr(i, i.flag[1] ? 2 : 4);
  d.gprs(i.a, 24, 2 * i.op);
  d.gprs(i.b, 32, i.op);
  d.gprs(i.c, 64, i.flag[1] ? 2 : 4);
  i.unit = Unit::matrix;
  i.exec = hmma;
}

// IMMA: sums of products of bytes, exact in 32 bits. Lane l = 4g + t holds of A rows g (and g+8), of B column
// g, each register the elements 4t..4t+3 of 16; of C and D as HMMA. 8816 has 8 rows and one register of A and
// B, 16816 two of A, 16832 four of A and two of B. [PTX ISA: mma.m8n8k16, m16n8k16, m16n8k32 of .s8 and .u8]
struct ByteShape {
  unsigned rows, depth;  // in steps of 8 rows and 16 elements
};
void imma(Step& s, const Inst& i) {
  if (!whole_warp(s)) return;
  const ByteShape shape{i.op & 3, i.op >> 2};
  int32_t a[16][32] = {}, b[8][32] = {};  // b by column
  const auto byte = [](uint32_t v, unsigned k, bool is_signed) {
    const uint32_t x = v >> (8 * k) & 0xff;
    return is_signed ? int32_t{static_cast<int8_t>(x)} : static_cast<int32_t>(x);
  };
  for (unsigned l = 0; l < lane_count; ++l) {
    const unsigned g = l / 4, t = l % 4;
    for (unsigned k = 0; k < 4; ++k)
      for (unsigned step = 0; step < shape.depth; ++step) {
        for (unsigned r = 0; r < shape.rows; ++r)
          a[g + 8 * r][16 * step + 4 * t + k] = byte(s.row(i.a[shape.rows * step + r])[l], k, i.flag[0]);
        b[g][16 * step + 4 * t + k] = byte(s.row(i.b[step])[l], k, i.flag[1]);
      }
  }
  uint32_t d[4][lane_count];
  for (unsigned l = 0; l < lane_count; ++l)
    for (unsigned r = 0; r < 2 * shape.rows; ++r) {
      int64_t sum = static_cast<int32_t>(s.row(i.c[r])[l]);
      for (unsigned k = 0; k < 16 * shape.depth; ++k)
        sum += a[l / 4 + 8 * (r / 2)][k] * b[2 * (l % 4) + r % 2][k];
      if (i.flag[2] && sum != static_cast<int32_t>(sum))
        return s.fail(ErrorKind::unsupported, "a sum that .SAT limits, which was not measured",
                      static_cast<int>(l));
      d[r][l] = static_cast<uint32_t>(sum);
    }
  for (unsigned r = 0; r < 2 * shape.rows; ++r) map(s, i.d[r], [&](unsigned l) { return d[r][l]; });
}
void decode_imma(Decoder& d, Inst& i) {
  const uint32_t shape = d.take(86, 85) << 1 | d.take(75, 75);
  const unsigned rows = shape == 0 ? 1 : 2, depth = shape == 5 ? 2 : 1;
  if (shape != 0 && shape != 4 && shape != 5) d.refuse("the shape");
  i.op = rows | depth << 2;
  i.flag[0] = d.flag(76);
  i.flag[1] = d.flag(78);
  i.flag[2] = d.flag(82);
  d.expect(74, 73, 2, "the layout");
  d.dst_gpr(i, 2 * rows);
  d.gprs(i.a, 24, rows * depth);
  d.gprs(i.b, 32, depth);
  d.gprs(i.c, 64, 2 * rows);
  i.unit = Unit::matrix;
  i.exec = imma;
}

constexpr Op ops[] = {
    {"IMMA", 0x037, decode_imma},
    {"MOVM", 0x03a, decode_movm},
    {"HMMA", 0x03c, decode_hmma},
};

}  // namespace

std::span<const Op> matrix_ops() { return ops; }

}  // namespace xtrace::replay::interp
