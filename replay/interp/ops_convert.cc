// Conversions between integers and floating-point numbers.
#include "replay/interp/op_table.h"
#include "replay/interp/step.h"
#include "replay/interp/value/float.h"

namespace xtrace::replay::interp {
namespace {

using namespace value;

constexpr uint32_t format_f32 = 2;  // [85:84] and [77:75]: F16 1, F32 2, F64 3
constexpr uint32_t size_32 = 2;     // 8, 16, 32, 64 bits

// --- I2F, I2FP: 32-bit integer to single precision
void i2f(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]);
  const auto r = static_cast<Rounding>(i.op);
  const bool is_signed = i.flag[0];
  map(s, i.d[0], [&](unsigned l) {
    const bool negative = is_signed && static_cast<int32_t>(a[l]) < 0;
    return i2f32(negative ? 0u - a[l] : a[l], negative, r);
  });
}
void decode_i2f(Decoder& d, Inst& i) {
  d.dst(i);
  d.expect(77, 75, format_f32, "the result type");
  d.expect(85, 84, size_32, "the operand size");
  i.flag[0] = d.flag(74);
  i.op = d.take(79, 78);
  i.a[0] = d.s();
  i.exec = i2f;
}
// --- F2I: single precision to 32-bit integer
void f2i_op(Step& s, const Inst& i) {
  const Source a(s, i.a[0]);
  uint32_t* d = s.out(i.d[0]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const uint32_t v = i.flag[0] ? flush(a[l]) : a[l];
    if (is_nan(v))
      return s.fail(ErrorKind::unsupported, "the conversion of what is not a number, which was not measured",
                    static_cast<int>(l));
    d[l] = static_cast<uint32_t>(f2i(f32(v), 32, i.flag[1], static_cast<Rounding>(i.op)));
  }
}
void decode_f2i(Decoder& d, Inst& i) {
  d.dst(i);
  i.flag[0] = d.flag(80);
  i.flag[1] = d.flag(72);
  d.expect(76, 75, size_32, "the result size");
  d.expect(85, 84, format_f32, "the operand type");
  i.op = d.take(79, 78);
  d.hint(77, 77);  // .NTZ: what a NaN becomes, and those are refused
  i.a[0] = d.s(Mod::fp);
  i.exec = f2i_op;
}

// --- F2F between single and double precision
void f64_to_f32(Step& s, const Inst& i) {
  const Plain lo(s, i.a[0]);
  const Source hi(s, i.a[1]);
  map(s, i.d[0], [&](unsigned l) { return canonical(static_cast<float>(f64(lo[l], hi[l]))); });
}
void f32_to_f64(Step& s, const Inst& i) {
  const Source a(s, i.a[0]);
  uint32_t *lo = s.out(i.d[0]), *hi = s.out(i.d[1]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    if (is_nan(a[l]))
      return s.fail(ErrorKind::unsupported, "a result that is not a number, whose payload was not measured",
                    static_cast<int>(l));
    const auto v = std::bit_cast<uint64_t>(static_cast<double>(f32(a[l])));
    lo[l] = static_cast<uint32_t>(v);
    hi[l] = static_cast<uint32_t>(v >> 32);
  }
}
void decode_f2f_wide(Decoder& d, Inst& i) {
  d.expect(80, 80, 0, ".FTZ");
  d.expect(79, 78, 0, "the rounding");
  const uint32_t to = d.take(77, 75), from = d.take(85, 84);
  if (to == 3 && from == format_f32) {
    d.dst(i, 2);
    i.a[0] = d.s(Mod::fp);
    i.exec = f32_to_f64;
  } else if (to == format_f32 && from == 3) {
    d.dst(i);
    d.s64(i.a);
    i.exec = f64_to_f32;
  } else {
    d.refuse("a conversion other than between single and double precision");
  }
}

constexpr Op ops[] = {
    {"I2F", 0x106, decode_i2f},
    {"I2FP", 0x045, decode_i2f},
    {"F2I", 0x105, decode_f2i},
    {"F2F", 0x110, decode_f2f_wide},
};

}  // namespace

std::span<const Op> convert_ops() { return ops; }

}  // namespace xtrace::replay::interp
