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
// HMMA.TF32: as half precision with one element in a register: of A rows g and g+8, columns t and t+4; of B column
// g, the same rows. [PTX ISA: mma.m16n8k8 of .tf32, m16n8k4]
void hmma_tf32(Step& s, const Inst& i) {
  if (!whole_warp(s)) return;
  uint32_t a[16][8] = {}, b[8][8] = {};
  for (unsigned l = 0; l < lane_count; ++l)
    for (unsigned step = 0; step < i.op; ++step) {
      for (unsigned r = 0; r < 2; ++r) a[l / 4 + 8 * r][l % 4 + 4 * step] = s.row(i.a[2 * step + r])[l];
      b[l / 4][l % 4 + 4 * step] = s.row(i.b[step])[l];
    }
  uint32_t d[4][lane_count];
  for (unsigned l = 0; l < lane_count; ++l)
    for (unsigned r = 0; r < 4; ++r)
      d[r][l] = value::hmma_tf32(a[l / 4 + 8 * (r / 2)], b[2 * (l % 4) + r % 2], s.row(i.c[r])[l]);
  for (unsigned r = 0; r < 4; ++r) map(s, i.d[r], [&](unsigned l) { return d[r][l]; });
}
void decode_hmma(Decoder& d, Inst& i) {
  i.op = d.flag(75) ? 2 : 1;
  const bool shallow = d.flag(78);
  i.flag[1] = !d.flag(76);
  const uint32_t type = d.take(83, 82);
  constexpr uint32_t tf32 = 2;
  if (type == tf32) {
    if (i.flag[1] || i.op == 2) d.refuse("the shape");
    i.op = shallow ? 1 : 2;
    d.dst_gpr(i, 4);
    d.gprs(i.a, 24, 2 * i.op);
    d.gprs(i.b, 32, i.op);
    d.gprs(i.c, 64, 4);
    i.unit = Unit::matrix;
    i.exec = hmma_tf32;
    return;
  }
  if (shallow) d.refuse("the shape");
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

// DMMA: D (8 or 16 x 8) = A (4, 8 or 16 deep) * B + C in double precision, one fused multiply-add after the other
// in the order of the depth. Lane l = 4g + t holds of A rows g (and g+8), columns t, t+4, ...; of B rows t, t+4,
// ... of column g; of C and D as HMMA. [PTX ISA: mma.m8n8k4, m16n8k4, m16n8k8, m16n8k16 of .f64]
// op: rounding; type: rows in steps of 8; imm: depth in steps of 4.
double number64(const Step& s, const int32_t row, unsigned l) { return value::f64(s.out(row)[l], s.out(row + 1)[l]); }
void dmma(Step& s, const Inst& i) {
  if (!whole_warp(s)) return;
  const auto at = [&](const Operand& o, unsigned k, unsigned l) {
    const int32_t zero = s.program->layout.zero();
    return o.row == zero ? 0.0 : number64(s, o.row + 2 * static_cast<int32_t>(k), l);
  };
  double a[16][16], b[8][16];  // b by column
  for (unsigned l = 0; l < lane_count; ++l) {
    const unsigned g = l / 4, t = l % 4;
    for (unsigned step = 0; step < i.imm; ++step) {
      for (unsigned r = 0; r < i.type; ++r) a[g + 8 * r][4 * step + t] = at(i.a[0], i.type * step + r, l);
      b[g][4 * step + t] = at(i.b[0], step, l);
    }
  }
  const auto rounding = static_cast<value::Rounding>(i.op);
  uint64_t d[4][lane_count];
  for (unsigned l = 0; l < lane_count; ++l)
    for (unsigned r = 0; r < 2 * i.type; ++r) {
      double sum = at(i.c[0], r, l);
      const double *x = a[l / 4 + 8 * (r / 2)], *y = b[2 * (l % 4) + r % 2];
      for (unsigned k = 0; k < 4 * i.imm; ++k) {
        const double next = value::dfma(x[k], y[k], sum, rounding);
        sum = next == next ? next : std::bit_cast<double>(value::not_a_number({y[k], sum, x[k]}));
      }
      d[r][l] = std::bit_cast<uint64_t>(sum);
    }
  for (unsigned r = 0; r < 2 * i.type; ++r)
    for (unsigned l = 0; l < lane_count; ++l) {
      s.out(i.d[0] + 2 * static_cast<int32_t>(r))[l] = static_cast<uint32_t>(d[r][l]);
      s.out(i.d[0] + 2 * static_cast<int32_t>(r) + 1)[l] = static_cast<uint32_t>(d[r][l] >> 32);
    }
}
void decode_dmma(Decoder& d, Inst& i) {
  const uint32_t shape = d.take(77, 76);
  i.type = shape == 0 ? 1 : 2;
  i.imm = shape < 2 ? 1 : shape == 2 ? 2 : 4;
  i.op = d.take(79, 78);
  d.expect(90, 87, 0, "the predicate");
  const unsigned sum_registers = 4 * i.type;
  const auto several = [&](unsigned low, unsigned n) {
    const unsigned index = d.take(low + 7, low);
    if (index == 255) return Operand{d.program().layout.zero()};
    if (index + n > d.program().layout.gprs || index % 2 != 0)
      d.refuse(fmt::format("R{} does not begin {} registers of the kernel", index, n));
    return Operand{static_cast<int32_t>(index)};
  };
  i.d[0] = several(16, sum_registers).row;
  i.a[0] = several(24, 2 * i.type * i.imm);
  i.b[0] = several(32, 2 * i.imm);
  i.c[0] = several(64, sum_registers);
  if (i.d[0] == d.program().layout.zero()) d.refuse("a result that nobody gets");
  i.unit = Unit::matrix;
  i.exec = dmma;
}

constexpr Op ops[] = {
    {"IMMA", 0x037, decode_imma},
    {"MOVM", 0x03a, decode_movm},
    {"HMMA", 0x03c, decode_hmma},
    {"DMMA", 0x03f, decode_dmma},
};

}  // namespace

std::span<const Op> matrix_ops() { return ops; }

}  // namespace xtrace::replay::interp
