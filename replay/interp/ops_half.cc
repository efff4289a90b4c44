// Packed half precision.
#include "replay/interp/op_table.h"
#include "replay/interp/step.h"
#include "replay/interp/value/float.h"

namespace xtrace::replay::interp {
namespace {

using namespace value;

// Which halves of a register an operand takes: [1] .F32 is another operation, 2 .H0_H0, 3 .H1_H1.
uint32_t pick(uint32_t v, unsigned select) {
  if (select == 2) return (v & 0xffff) * 0x10001u;
  if (select == 3) return (v >> 16) * 0x10001u;
  return v;
}

struct HalfSource {
  HalfSource(const Step& s, const Operand& o, unsigned select_) : p(s, o), select(select_) {}
  Source p;
  unsigned select;
  uint32_t operator[](unsigned l) const { return (pick(p.p[l], select) & p.mask) ^ p.flip; }
};

void half_modifiers(Decoder& d, Operand& o, unsigned select, unsigned absolute, unsigned sign) {
  if (select == 1) d.refuse("a single-precision operand of a half-precision operation");
  if (d.flag(absolute)) o.mask = 0x7fff7fff;
  if (d.flag(sign)) o.flip = 0x80008000;
}
Operand half_register(Decoder& d, unsigned low, unsigned& select, unsigned select_low, unsigned absolute,
                      unsigned sign) {
  Operand o;
  d.gprs(&o, low, 1);
  select = d.take(select_low + 1, select_low);
  half_modifiers(d, o, select, absolute, sign);
  return o;
}
// op keeps the three selections, two bits each.
Operand half_a(Decoder& d, Inst& i) {
  unsigned select = 0;
  const Operand o = half_register(d, 24, select, 74, 73, 72);
  i.op |= select;
  return o;
}
Operand half_t(Decoder& d, Inst& i, unsigned shift) {
  unsigned select = 0;
  const Operand o = half_register(d, 64, select, 81, 83, 84);
  i.op |= select << shift;
  return o;
}
Operand half_s(Decoder& d, Inst& i, unsigned shift) {
  unsigned select = 0;
  Operand o;
  switch (d.layout.s) {
    case sass::SourceS::reg:
      o = half_register(d, 32, select, 60, 62, 63);
      break;
    case sass::SourceS::imm:
      o = d.constant(d.take(63, 32));
      break;
    case sass::SourceS::ur:
      d.urs(&o, 32, 1);
      select = d.take(61, 60);
      half_modifiers(d, o, select, 62, 63);
      break;
    default:
      d.refuse("this operand of a half-precision operation");
      break;
  }
  i.op |= select << shift;
  return o;
}

template <typename F>
void packed(Step& s, const Inst& i, F f) {
  const HalfSource a(s, i.a[0], i.op & 3), b(s, i.b[0], i.op >> 2 & 3), c(s, i.c[0], i.op >> 4 & 3);
  uint32_t* d = s.out(i.d[0]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const uint32_t x = a[l], y = b[l], z = c[l];
    const auto half = [](uint32_t v, unsigned k) { return static_cast<uint16_t>(v >> (16 * k)); };
    d[l] = uint32_t{f(half(x, 0), half(y, 0), half(z, 0))} | uint32_t{f(half(x, 1), half(y, 1), half(z, 1))}
                                                                 << 16;
  }
}

// .BF16_V2 .FTZ .RELU .SAT .FMZ, and .F32 where the operation has none.
void refuse_modifiers(Decoder& d, bool single_result) {
  d.expect(85, 85, 0, ".BF16_V2");
  d.expect(80, 79, 0, "a modifier of a half-precision operation");
  d.expect(77, 76, 0, "a modifier of a half-precision operation");
  if (!single_result) d.expect(78, 78, 0, ".F32");
}

void hfma2(Step& s, const Inst& i) {
  packed(s, i, [](uint16_t a, uint16_t b, uint16_t c) { return hfma(a, b, c); });
}
void decode_hfma2(Decoder& d, Inst& i) {
  d.dst(i);
  refuse_modifiers(d, false);
  i.a[0] = half_a(d, i);
  i.b[0] = d.layout.s_is_c ? half_t(d, i, 2) : half_s(d, i, 2);
  i.c[0] = d.layout.s_is_c ? half_s(d, i, 4) : half_t(d, i, 4);
  d.expect(86, 86, 0, ".H0_NH1");
  d.hint(90, 87);  // the predicate of .RELU
  i.exec = hfma2;
}

void hadd2(Step& s, const Inst& i) {
  packed(s, i, [](uint16_t a, uint16_t b, uint16_t) { return hadd(a, b); });
}
// .F32: the lower halves, added in single precision.
void hadd2_single(Step& s, const Inst& i) {
  const HalfSource a(s, i.a[0], i.op & 3), b(s, i.b[0], i.op >> 2 & 3);
  map(s, i.d[0], [&](unsigned l) {
    return canonical(static_cast<float>(half_to_double(static_cast<uint16_t>(a[l])) +
                                        half_to_double(static_cast<uint16_t>(b[l]))));
  });
}
void decode_hadd2(Decoder& d, Inst& i) {
  d.dst(i);
  refuse_modifiers(d, true);
  const bool single = d.flag(78);
  i.a[0] = half_a(d, i);
  i.b[0] = half_s(d, i, 2);
  i.c[0] = d.constant(0);
  i.exec = single ? hadd2_single : hadd2;
}

void hmul2(Step& s, const Inst& i) {
  packed(s, i, [](uint16_t a, uint16_t b, uint16_t) { return hmul(a, b); });
}
void decode_hmul2(Decoder& d, Inst& i) {
  d.dst(i);
  refuse_modifiers(d, false);
  i.a[0] = half_a(d, i);
  i.b[0] = half_s(d, i, 2);
  i.c[0] = d.constant(0);
  i.exec = hmul2;
}

// F2FP.PACK_AB: two singles to the halves of a register, a above b.
template <uint16_t (*convert)(uint32_t)>
void pack(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]);
  map(s, i.d[0], [&](unsigned l) { return uint32_t{convert(a[l])} << 16 | convert(b[l]); });
}
uint16_t to_half(uint32_t v) { return double_to_half(f32(v)); }
void decode_f2fp(Decoder& d, Inst& i) {
  d.dst(i);
  d.expect(87, 86, 0, "the result type");
  d.expect(77, 77, 0, ".SATFINITE");
  d.expect(75, 75, 0, ".RELU");
  d.expect(74, 73, 0, "the operand type");
  d.expect(90, 89, 0, "the packing");
  d.expect(78, 78, 0, "the packing");
  d.expect(80, 79, 0, "the rounding");
  const bool brain = d.flag(76);
  // The place of the first operand's absolute bit belongs to the operand type.
  d.gprs(i.a, 24, 1);
  if (d.flag(72)) i.a[0].flip = 0x80000000;
  i.b[0] = d.b(Mod::fp);
  d.layout.s_is_c ? d.refuse("this form of F2FP") : d.expect(71, 64, 255, "the third operand");
  i.exec = brain ? pack<float_to_bf16> : pack<to_half>;
}

constexpr Op ops[] = {
    {"HADD2", 0x030, decode_hadd2}, {"HMUL2", 0x032, decode_hmul2},     {"F2FP", 0x03e, decode_f2fp},
    {"HFMA2", 0x031, decode_hfma2}, {"HFMA2.MMA", 0x035, decode_hfma2},
};

}  // namespace

std::span<const Op> half_ops() { return ops; }

}  // namespace xtrace::replay::interp
