// Packed half precision and bfloat16.
#include "replay/interp/op_table.h"
#include "replay/interp/step.h"
#include "replay/interp/value/narrow.h"

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
    case sass::SourceS::constant: {
      const unsigned bank = d.take(58, 54);
      o = d.constant(d.bank_word(bank, d.take(53, 40) * 4));
      select = d.take(61, 60);
      half_modifiers(d, o, select, 62, 63);
      break;
    }
    case sass::SourceS::constant_bindless:
      d.through_handle(&o, 1);
      select = d.take(61, 60);
      half_modifiers(d, o, select, 62, 63);
      break;
  }
  i.op |= select << shift;
  return o;
}

uint16_t half_of(uint32_t v, unsigned k) { return static_cast<uint16_t>(v >> (16 * k)); }

template <typename F>
void packed(Step& s, const Inst& i, F f) {
  const HalfSource a(s, i.a[0], i.op & 3), b(s, i.b[0], i.op >> 2 & 3), c(s, i.c[0], i.op >> 4 & 3);
  uint32_t* d = s.out(i.d[0]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const uint32_t x = a[l], y = b[l], z = c[l];
    d[l] = uint32_t{f(half_of(x, 0), half_of(y, 0), half_of(z, 0))} |
           uint32_t{f(half_of(x, 1), half_of(y, 1), half_of(z, 1))} << 16;
  }
}

// Plain half precision: what most code is.
void hfma2(Step& s, const Inst& i) {
  packed(s, i, [](uint16_t a, uint16_t b, uint16_t c) { return hfma(a, b, c); });
}
void hadd2(Step& s, const Inst& i) {
  packed(s, i, [](uint16_t a, uint16_t b, uint16_t) { return hadd(a, b); });
}
void hmul2(Step& s, const Inst& i) {
  packed(s, i, [](uint16_t a, uint16_t b, uint16_t) { return hmul(a, b); });
}

// .BF16_V2 in flag[0], .SAT in flag[1], .RELU in flag[2], .FTZ in flag[3].
const Narrow& format(const Inst& i) { return i.flag[0] ? brain_format : half_format; }
template <typename F>
void modified(Step& s, const Inst& i, F f) {
  const Narrow& n = format(i);
  const auto flushed = [&](uint16_t v) { return i.flag[3] ? narrow_flush(v, n) : v; };
  packed(s, i, [&](uint16_t a, uint16_t b, uint16_t c) {
    const uint16_t r = flushed(f(flushed(a), flushed(b), flushed(c), n));
    if (i.flag[1]) return narrow_saturate(r, n);
    return i.flag[2] && (r & 0x8000) != 0 ? uint16_t{0} : r;
  });
}
void hfma2_modified(Step& s, const Inst& i) { modified(s, i, narrow_fma); }
void hadd2_modified(Step& s, const Inst& i) {
  modified(s, i, [](uint16_t a, uint16_t b, uint16_t, const Narrow& n) { return narrow_add(a, b, n); });
}
void hmul2_modified(Step& s, const Inst& i) {
  modified(s, i, [](uint16_t a, uint16_t b, uint16_t, const Narrow& n) { return narrow_mul(a, b, n); });
}
// True when the operation is the plain one. .FMZ is refused, and .F32 where the operation has none.
bool decode_modifiers(Decoder& d, Inst& i, bool has_relu) {
  i.flag[0] = d.flag(85);
  i.flag[1] = d.flag(77);
  i.flag[2] = has_relu && d.flag(79);
  i.flag[3] = d.flag(80);
  d.expect(76, 76, 0, ".FMZ");
  if (i.flag[1] && i.flag[2]) d.refuse(".SAT together with .RELU");
  return !i.flag[0] && !i.flag[1] && !i.flag[2] && !i.flag[3];
}

void decode_hfma2(Decoder& d, Inst& i) {
  d.dst(i);
  const bool plain = decode_modifiers(d, i, true);
  i.a[0] = half_a(d, i);
  i.b[0] = d.layout.s_is_c ? half_t(d, i, 2) : half_s(d, i, 2);
  i.c[0] = d.layout.s_is_c ? half_s(d, i, 4) : half_t(d, i, 4);
  d.expect(86, 86, 0, ".H0_NH1");
  if (i.flag[2])
    d.expect(90, 87, 7, "the predicate of .RELU");
  else
    d.hint(90, 87);
  i.exec = plain ? hfma2 : hfma2_modified;
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
  const bool plain = decode_modifiers(d, i, false), single = d.flag(78);
  if (single && !plain) d.refuse(".F32 with another modifier");
  i.a[0] = half_a(d, i);
  i.b[0] = half_s(d, i, 2);
  i.c[0] = d.constant(0);
  i.exec = single ? hadd2_single : plain ? hadd2 : hadd2_modified;
}

void decode_hmul2(Decoder& d, Inst& i) {
  d.dst(i);
  const bool plain = decode_modifiers(d, i, false);
  i.a[0] = half_a(d, i);
  i.b[0] = half_s(d, i, 2);
  i.c[0] = d.constant(0);
  i.exec = plain ? hmul2 : hmul2_modified;
}

// HMNMX2: .NAN in flag[1].
void hmnmx2(Step& s, const Inst& i) {
  const HalfSource a(s, i.a[0], i.op & 3), b(s, i.b[0], i.op >> 2 & 3);
  const uint32_t minimum = s.pred(i.pp);
  const Narrow& n = format(i);
  map(s, i.d[0], [&](unsigned l) {
    const uint32_t x = a[l], y = b[l];
    const bool least = (minimum >> l & 1) != 0;
    return uint32_t{narrow_minmax(half_of(x, 0), half_of(y, 0), least, i.flag[1], n)} |
           uint32_t{narrow_minmax(half_of(x, 1), half_of(y, 1), least, i.flag[1], n)} << 16;
  });
}
void decode_hmnmx2(Decoder& d, Inst& i) {
  d.dst(i);
  i.flag[0] = d.flag(85);
  i.flag[1] = d.flag(81);
  d.expect(80, 80, 0, ".FTZ");
  d.expect(82, 82, 0, ".XORSIGN");
  i.a[0] = half_a(d, i);
  i.b[0] = half_s(d, i, 2);
  i.pp = d.pred(87);
  i.exec = hmnmx2;
}

// Lanes in which half k compares as i.imm says.
uint32_t compare_halves(const Step& s, const Inst& i, unsigned k) {
  const HalfSource a(s, i.a[0], i.op & 3), b(s, i.b[0], i.op >> 2 & 3);
  const Narrow& n = format(i);
  const auto number = [&](uint32_t v) {
    const uint16_t h = half_of(v, k);
    return narrow_to_double(i.flag[3] ? narrow_flush(h, n) : h, n);
  };
  return test(s, [&](unsigned l) { return fcompare(i.imm, number(a[l]), number(b[l])); });
}
uint32_t combine(unsigned how, uint32_t lanes, uint32_t p) {
  return how == 0 ? lanes & p : how == 1 ? lanes | p : lanes ^ p;
}
void decode_comparison(Decoder& d, Inst& i) {
  i.flag[0] = d.flag(65);
  i.imm = d.take(79, 76);
  i.flag[3] = d.flag(80);
  i.type = d.take(70, 69);
  if (i.type == 3) d.refuse("an invalid way to combine predicates");
  i.a[0] = half_a(d, i);
  i.b[0] = half_s(d, i, 2);
  i.pp = d.pred(87);
}
// HSET2: ones, or with .BF the number one, in each half that compares so. [PTX ISA: set]
void hset2(Step& s, const Inst& i) {
  const uint32_t p = s.pred(i.pp), low = combine(i.type, compare_halves(s, i, 0), p),
                 high = combine(i.type, compare_halves(s, i, 1), p), yes = i.flag[1] ? format(i).one : 0xffff;
  map(s, i.d[0], [&](unsigned l) { return (low >> l & 1) * yes | ((high >> l & 1) * yes) << 16; });
}
void decode_hset2(Decoder& d, Inst& i) {
  d.dst(i);
  decode_comparison(d, i);
  i.flag[1] = d.flag(71);
  i.exec = hset2;
}
// HSETP2: the low half to the first predicate, the high half to the second. [PTX ISA: setp]
void hsetp2(Step& s, const Inst& i) {
  const uint32_t p = s.pred(i.pp), low = compare_halves(s, i, 0), high = compare_halves(s, i, 1);
  s.set_pred(i.pu, combine(i.type, low, p));
  s.set_pred(i.pv, combine(i.type, high, p));
}
void decode_hsetp2(Decoder& d, Inst& i) {
  decode_comparison(d, i);
  d.expect(71, 71, 0, ".H_AND");
  i.pu = d.pred_dst(81);
  i.pv = d.pred_dst(84);
  i.exec = hsetp2;
}

// F2FP.PACK_AB: two singles to the halves of a register, a above b.
void pack(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]);
  const Narrow& n = format(i);
  const auto r = static_cast<Rounding>(i.imm);
  map(s, i.d[0], [&](unsigned l) {
    return uint32_t{double_to_narrow(f32(a[l]), n, r)} << 16 | double_to_narrow(f32(b[l]), n, r);
  });
}
// To and from 8 bits: two numbers in the low half of a register, above them the low half of c.
void pack_fp8(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  map(s, i.d[0], [&](unsigned l) {
    const uint32_t high = double_to_fp8(f32(a[l]), i.flag[0]), low = double_to_fp8(f32(b[l]), i.flag[0]);
    return c[l] << 16 | high << 8 | low;
  });
}
void halves_to_fp8(Step& s, const Inst& i) {
  const Plain b(s, i.b[0]), c(s, i.c[0]);
  const auto to = [&](uint16_t h) -> uint32_t { return double_to_fp8(half_to_double(h), i.flag[0]); };
  map(s, i.d[0], [&](unsigned l) { return c[l] << 16 | to(half_of(b[l], 1)) << 8 | to(half_of(b[l], 0)); });
}
void fp8_to_halves(Step& s, const Inst& i) {
  const Plain b(s, i.b[0]);
  const auto from = [&](uint32_t v) -> uint32_t { return fp8_to_half(static_cast<uint8_t>(v), i.flag[0]); };
  const unsigned at = i.flag[1] ? 16 : 0;
  map(s, i.d[0], [&](unsigned l) { return from(b[l] >> at >> 8) << 16 | from(b[l] >> at); });
}
// To TF32, the upper 19 bits of single precision.
void to_tf32(Step& s, const Inst& i) {
  const Source b(s, i.b[0]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    uint32_t v = b[l];
    if (is_nan(v))
      return s.fail(ErrorKind::unsupported, "a result that is not a number, which was not measured",
                    static_cast<int>(l));
    if ((v & 0x7f800000) != 0x7f800000 && i.imm == 0) v += 0xfff + (v >> 13 & 1);
    s.out(i.d[0])[l] = v & ~0x1fffu;
  }
}
enum Packing : uint32_t { pack_ab, unpack_b, unpack_b_merge_c };
enum Narrowed : uint32_t { from_f32, from_f16, from_e5m2, from_e4m3 };
void decode_f2fp(Decoder& d, Inst& i) {
  d.dst(i);
  const uint32_t result = d.take(87, 86), from = d.take(74, 73), packing = d.take(90, 89);
  const bool finite = d.flag(77), ab = d.flag(78), upper = d.flag(88);
  d.expect(75, 75, 0, ".RELU");
  i.imm = d.take(80, 79);
  if (i.imm != 0 && i.imm != static_cast<uint32_t>(Rounding::zero)) d.refuse("the rounding");
  i.flag[0] = d.flag(76);  // bfloat16, or E4M3
  // The place of the first operand's absolute bit belongs to the operand type.
  d.gprs(i.a, 24, 1);
  if (d.flag(72)) i.a[0].flip = 0x80000000;
  constexpr uint32_t to_16_bits = 0, to_19_bits = 1, to_8_bits = 2;
  if (result == to_19_bits) {
    if (from != from_f32 || packing != unpack_b || finite || !ab || upper || !i.flag[0]) d.refuse("the packing");
    i.b[0] = d.b(Mod::fp);
    i.c[0] = d.c();
    i.exec = to_tf32;
    return;
  }
  if (from == from_f32 && result == to_16_bits) {
    i.b[0] = d.b(Mod::fp);
    d.layout.s_is_c ? d.refuse("this form of F2FP") : d.expect(71, 64, 255, "the third operand");
    if (finite || ab || upper || packing != pack_ab) d.refuse("the packing, or .SATFINITE");
    i.exec = pack;
    return;
  }
  if (i.imm != 0) d.refuse("the rounding");
  if (from >= from_e5m2) {
    i.b[0] = d.b();
    i.c[0] = d.c();
    if (result != to_16_bits || packing != unpack_b || finite || ab || i.flag[0]) d.refuse("the packing");
    i.flag[0] = from == from_e4m3;
    i.flag[1] = upper;
    i.exec = fp8_to_halves;
    return;
  }
  if (result != to_8_bits || upper || packing != unpack_b_merge_c || !finite || ab != (from == from_f32))
    d.refuse("the packing");
  i.b[0] = d.b(from == from_f32 ? Mod::fp : Mod::none);
  i.c[0] = d.c();
  i.exec = from == from_f32 ? pack_fp8 : halves_to_fp8;
}

// VHMNMX: of three; .NAN in flag[1].
void vhmnmx(Step& s, const Inst& i) {
  const Narrow& n = format(i);
  const Plain a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  const uint32_t minimum = s.pred(i.pp);
  map(s, i.d[0], [&](unsigned l) {
    const bool least = (minimum >> l & 1) != 0;
    uint32_t r = 0;
    for (unsigned k = 0; k < 2; ++k) {
      const uint16_t two = narrow_minmax(half_of(a[l], k), half_of(b[l], k), least, i.flag[1], n);
      r |= uint32_t{narrow_minmax(two, half_of(c[l], k), least, i.flag[1], n)} << (16 * k);
    }
    return r;
  });
}
void decode_vhmnmx(Decoder& d, Inst& i) {
  d.dst(i);
  i.flag[0] = d.flag(85);
  i.flag[1] = d.flag(81);
  i.a[0] = d.a();
  i.b[0] = d.b();
  i.c[0] = d.c();
  i.pp = d.pred(87);
  i.exec = vhmnmx;
}

constexpr Op ops[] = {
    {"HADD2", 0x030, decode_hadd2}, {"HMUL2", 0x032, decode_hmul2},     {"F2FP", 0x03e, decode_f2fp},
    {"HFMA2", 0x031, decode_hfma2}, {"HFMA2.MMA", 0x035, decode_hfma2}, {"HMNMX2", 0x040, decode_hmnmx2},
    {"HSET2", 0x033, decode_hset2}, {"HSETP2", 0x034, decode_hsetp2},   {"VHMNMX", 0x047, decode_vhmnmx},
};

}  // namespace

std::span<const Op> half_ops() { return ops; }

}  // namespace xtrace::replay::interp
