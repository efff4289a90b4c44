// Conversions between integers and floating-point numbers, and rounding to integral numbers.
#include "replay/interp/op_table.h"
#include "replay/interp/step.h"
#include "replay/interp/value/narrow.h"

namespace xtrace::replay::interp {
namespace {

using namespace value;

enum Format : uint32_t { format_f16 = 1, format_f32 = 2, format_f64 = 3, format_bf16 = 4 };
enum Size : uint32_t { size_8, size_16, size_32, size_64 };

// A 64-bit integer operand in [63:32].
void integer_pair(Decoder& d, Inst& i) {
  switch (d.layout.s) {
    case sass::SourceS::reg:
      return d.gprs(i.a, 32, 2);
    case sass::SourceS::ur:
      return d.urs(i.a, 32, 2);
    case sass::SourceS::constant: {
      const unsigned bank = d.take(58, 54);
      const uint32_t offset = d.take(53, 40) * 4;
      i.a[0] = d.constant(d.bank_word(bank, offset));
      i.a[1] = d.constant(d.bank_word(bank, offset + 4));
      return;
    }
    case sass::SourceS::imm:  // the upper word [measured H200]
      i.a[0] = d.constant(0);
      i.a[1] = d.constant(d.take(63, 32));
      return;
    default:
      return d.refuse("this operand of a 64-bit conversion");
  }
}

void store64(const Step& s, const Inst& i, unsigned l, uint64_t v) {
  s.out(i.d[0])[l] = static_cast<uint32_t>(v);
  s.out(i.d[1])[l] = static_cast<uint32_t>(v >> 32);
}

// --- I2F, I2FP. op: rounding; type: operand size; imm: which byte or half of the operand; flag[0]: signed.
struct Integer {
  uint64_t magnitude;
  bool negative;
};
Integer integer_of(const Inst& i, uint32_t lo, uint32_t hi) {
  const unsigned width = 8u << i.type;
  uint64_t v = uint64_t{hi} << 32 | lo;
  if (width < 64) v = (v >> (i.type < size_32 ? width * i.imm : 0)) & ((uint64_t{1} << width) - 1);
  const bool negative = i.flag[0] && (v >> (width - 1) & 1) != 0;
  if (negative) v = width == 64 ? 0 - v : (uint64_t{1} << width) - v;
  return {v, negative};
}
void to_f32(Step& s, const Inst& i) {
  const Plain lo(s, i.a[0]), hi(s, i.a[1]);
  map(s, i.d[0], [&](unsigned l) {
    const Integer v = integer_of(i, lo[l], hi[l]);
    return i2f32(v.magnitude, v.negative, static_cast<Rounding>(i.op));
  });
}
void to_f64(Step& s, const Inst& i) {
  const Plain lo(s, i.a[0]), hi(s, i.a[1]);
  each(s, [&](unsigned l) {
    const Integer v = integer_of(i, lo[l], hi[l]);
    const double r = i2f64(v.magnitude, v.negative, static_cast<Rounding>(i.op));
    store64(s, i, l, std::bit_cast<uint64_t>(r));
  });
}
// To 16 bits, the upper half of the register is zero. [measured H200]
const Narrow& narrow_format(uint32_t format) { return format == format_bf16 ? brain_format : half_format; }
bool decode_narrow(Decoder& d, Inst& i, uint32_t to) {
  if (to != format_f16 && to != format_bf16) return false;
  d.dst(i);
  i.flag[3] = to == format_bf16;
  return true;
}
void to_narrow(Step& s, const Inst& i) {
  const Plain lo(s, i.a[0]), hi(s, i.a[1]);
  const Narrow& n = narrow_format(i.flag[3] ? format_bf16 : format_f16);
  map(s, i.d[0], [&](unsigned l) {
    const Integer v = integer_of(i, lo[l], hi[l]);
    const auto r = static_cast<double>(v.magnitude);
    return uint32_t{double_to_narrow(v.negative ? -r : r, n, static_cast<Rounding>(i.op))};
  });
}
void decode_i2f(Decoder& d, Inst& i) {
  const uint32_t to = d.take(77, 75);
  i.type = d.take(85, 84);
  i.flag[0] = d.flag(74);
  i.op = d.take(79, 78);
  if (i.type < size_32 && d.layout.s != sass::SourceS::imm) i.imm = d.take(61, 60);
  if (i.type == size_16 && i.imm > 1) d.refuse("the half of the operand");
  i.a[1] = d.constant(0);
  if (i.type == size_64)
    integer_pair(d, i);
  else
    i.a[0] = d.s();
  if (to == format_f64) {
    d.dst(i, 2);
    i.exec = to_f64;
    return;
  }
  if (i.type < size_64 && decode_narrow(d, i, to)) {
    i.exec = to_narrow;
    return;
  }
  d.dst(i);
  if (to != format_f32) d.refuse("a 16-bit result of 64 bits");
  i.exec = to_f32;
}

// --- floating-point operands
double number(const Inst& i, uint32_t lo, uint32_t hi) {
  switch (i.type) {
    case format_f16:
    case format_bf16:
      return narrow_to_double(static_cast<uint16_t>(i.flag[3] ? lo >> 16 : lo), narrow_format(i.type));
    case format_f32:
      return f32(i.flag[0] ? flush(lo) : lo);
    default:
      return i.flag[0] && (hi & 0x7ff00000) == 0 ? f64(0, hi & 0x80000000) : f64(lo, hi);
  }
}
// The operand's format is in i.type. The upper half with flag[3].
void decode_number(Decoder& d, Inst& i) {
  i.a[1] = d.constant(0);
  switch (i.type) {
    case format_f16:
    case format_bf16:
      i.a[0] = d.s();
      if (d.layout.s == sass::SourceS::imm) return;
      i.flag[3] = d.flag(60);
      if (d.flag(62)) i.a[0].mask = 0x7fff7fff;
      if (d.flag(63)) i.a[0].flip = 0x80008000;
      return;
    case format_f32:
      i.a[0] = d.s(Mod::fp);
      return;
    case format_f64:
      d.s64(i.a);
      return;
    default:
      d.refuse("the operand type");
  }
}

// --- F2I. op: rounding; imm: bits of the result; flag[0] .FTZ, flag[1] signed, flag[2] .NTZ.
// What is not a number becomes 0 with .NTZ; without it the highest bit alone. [PTX ISA: cvt; measured H200]
void f2i_op(Step& s, const Inst& i) {
  const Source lo(s, i.a[0]), hi(s, i.a[1]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const double v = number(i, lo[l], hi[l]);
    uint64_t r = 0;
    if (v == v) {
      r = f2i(v, i.imm, i.flag[1], static_cast<Rounding>(i.op));
    } else if (!i.flag[2]) {
      r = uint64_t{1} << (i.imm - 1);
    }
    // A number of fewer bits comes out with its sign, what is not a number without. [measured H200]
    if (i.imm < 32 && i.flag[1] && v == v) r = static_cast<uint64_t>(sign_extend(r, i.imm));
    s.out(i.d[0])[l] = static_cast<uint32_t>(r);
    if (i.imm == 64) s.out(i.d[1])[l] = static_cast<uint32_t>(r >> 32);
  }
}
void decode_f2i(Decoder& d, Inst& i) {
  i.flag[0] = d.flag(80);
  i.flag[1] = d.flag(72);
  i.flag[2] = d.flag(77);
  const uint32_t size = d.take(76, 75);
  i.imm = 8u << size;
  i.type = d.take(86, 84);
  i.op = d.take(79, 78);
  d.dst(i, size == size_64 ? 2 : 1);
  decode_number(d, i);
  i.exec = f2i_op;
}

// --- F2F to single and double precision. What is not a number keeps its sign and the upper bits of its payload between
// these two, and becomes quiet. [measured H200]
void number_to_f32(Step& s, const Inst& i) {
  const Source lo(s, i.a[0]), hi(s, i.a[1]);
  map(s, i.d[0], [&](unsigned l) {
    const double v = number(i, lo[l], hi[l]);
    if (v == v || i.type == format_f16) return canonical(to_single(v, static_cast<Rounding>(i.op)));
    return (hi.p[l] & 0x80000000) | 0x7fc00000 | (hi.p[l] & 0xfffff) << 3 | lo.p[l] >> 29;
  });
}
// Only numbers that need no rule were seen. [measured H200: cuBLAS]
void brain_to_f32(Step& s, const Inst& i) {
  const Source a(s, i.a[0]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const uint32_t v = i.flag[3] ? a[l] & 0xffff0000 : a[l] << 16;
    if (is_nan(v) || is_subnormal(v))
      return s.fail(ErrorKind::unsupported, "a subnormal number or what is not a number in bfloat16, which was not measured",
                    static_cast<int>(l));
    s.out(i.d[0])[l] = v;
  }
}
void number_to_f64(Step& s, const Inst& i) {
  const Source lo(s, i.a[0]), hi(s, i.a[1]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const double v = number(i, lo[l], hi[l]);
    if (v != v && i.type == format_f16)
      return s.fail(ErrorKind::unsupported, "a result that is not a number, whose payload was not measured",
                    static_cast<int>(l));
    store64(s, i, l,
            v == v ? std::bit_cast<uint64_t>(v)
                   : uint64_t{lo.p[l] & 0x80000000} << 32 | uint64_t{lo.p[l] & 0x7fffff} << 29 | 0x7ff8000000000000);
  }
}
void number_to_narrow(Step& s, const Inst& i) {
  const Source lo(s, i.a[0]), hi(s, i.a[1]);
  const Narrow& n = narrow_format(i.flag[3] ? format_bf16 : format_f16);
  map(s, i.d[0], [&](unsigned l) -> uint32_t {
    const double v = number(i, lo[l], hi[l]);
    if (v != v && i.type == format_f64)  // keeps its sign, negated or not, and what fits of its payload
      return (hi.p[l] >> 16 & 0x8000) | (i.flag[3] ? 0x7fc0 | (hi.p[l] >> 13 & 0x3f) : 0x7e00 | (hi.p[l] >> 10 & 0x1ff));
    return double_to_narrow(v, n, static_cast<Rounding>(i.op));
  });
}
void decode_f2f(Decoder& d, Inst& i) {
  d.expect(80, 80, 0, ".FTZ");
  const uint32_t to = d.take(77, 75);
  i.type = d.take(86, 84);
  i.op = d.take(79, 78);
  decode_number(d, i);
  if (to == i.type) d.refuse("a conversion to its own type");
  if (i.type == format_bf16) {
    d.dst(i);
    if (to != format_f32 || i.op != 0) d.refuse("the result type");
    i.exec = brain_to_f32;
    return;
  }
  if (to == format_f64) {
    if (i.op != 0) d.refuse("the rounding");
    d.dst(i, 2);
    i.exec = number_to_f64;
    return;
  }
  if (i.type != format_f16 && decode_narrow(d, i, to)) {
    i.exec = number_to_narrow;
    return;
  }
  d.dst(i);
  if (to != format_f32) d.refuse("the result type");
  i.exec = number_to_f32;
}

// --- FRND: to an integral number of the same format
void frnd(Step& s, const Inst& i) {
  const Source lo(s, i.a[0]), hi(s, i.a[1]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const double v = number(i, lo[l], hi[l]);
    if (v != v) {  // [measured H200]
      if (i.type == format_f64)
        store64(s, i, l, (uint64_t{hi.p[l]} << 32 | lo.p[l]) | quiet64);
      else
        s.out(i.d[0])[l] = i.type == format_f32 ? nan32 : nan16;
      continue;
    }
    const double r = to_integral(v, static_cast<Rounding>(i.op));
    if (i.type == format_f64)
      store64(s, i, l, std::bit_cast<uint64_t>(r));
    else if (i.type == format_f32)
      s.out(i.d[0])[l] = bits32(static_cast<float>(r));
    else
      s.out(i.d[0])[l] = double_to_narrow(r, narrow_format(i.type));
  }
}
void decode_frnd(Decoder& d, Inst& i) {
  i.flag[0] = d.flag(80);
  i.type = d.take(77, 75);
  d.expect(86, 84, i.type, "the operand type");
  i.op = d.take(79, 78);
  d.dst(i, i.type == format_f64 ? 2 : 1);
  // Executed on an H200, two words of this gave other values than the same operation of registers and constant banks.
  if (i.type == format_f64 && d.layout.s == sass::SourceS::constant_bindless) d.refuse("a double through a handle");
  decode_number(d, i);
  i.exec = frnd;
}

constexpr Op ops[] = {
    {"I2F", 0x106, decode_i2f}, {"I2F", 0x112, decode_i2f},   {"I2FP", 0x045, decode_i2f},
    {"F2I", 0x105, decode_f2i}, {"F2I", 0x111, decode_f2i},   {"F2F", 0x104, decode_f2f},
    {"F2F", 0x110, decode_f2f}, {"FRND", 0x107, decode_frnd}, {"FRND", 0x113, decode_frnd},
};

}  // namespace

std::span<const Op> convert_ops() { return ops; }

}  // namespace xtrace::replay::interp
