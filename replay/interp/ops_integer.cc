// Integer arithmetic, vector and uniform: the uniform forms are the same functions on rows whose lanes are
// all equal.
#include "replay/interp/op_table.h"
#include "replay/interp/step.h"
#include "replay/interp/value/integer.h"

namespace xtrace::replay::interp {
namespace {

using namespace value;

// --- IADD3: a + b + c, or with .X a + b + c and two carries. A negated source is its complement plus one, as
// hardware adds it: the carry out of 0 - 0 is set. With two carries out their number is what the sum ran
// over: the instruction that takes them adds both. Which of the two is set when there is one is a guess; the
// recorded switch_table agrees.
template <bool carry_in, bool carry_out>
void iadd3(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  const uint32_t fa = i.a[0].flip, fb = i.b[0].flip, fc = i.c[0].flip;
  const uint32_t ones = i.a[0].add + i.b[0].add + i.c[0].add;
  uint32_t* d = s.out(i.d[0]);
  if constexpr (!carry_in && !carry_out) {
    each(s, [&](unsigned l) { d[l] = (a[l] ^ fa) + (b[l] ^ fb) + (c[l] ^ fc) + ones; });
  } else {
    const uint32_t p = carry_in ? s.pred(i.pp) : 0, q = carry_in ? s.pred(i.pq) : 0;
    uint32_t carry = 0, second = 0;
    for (uint32_t m = s.mask; m != 0; m &= m - 1) {
      const unsigned l = first_lane(m);
      const uint64_t sum =
          uint64_t{a[l] ^ fa} + (b[l] ^ fb) + (c[l] ^ fc) + ones + (p >> l & 1) + (q >> l & 1);
      d[l] = static_cast<uint32_t>(sum);
      carry |= static_cast<uint32_t>(sum >> 32 != 0) << l;
      second |= static_cast<uint32_t>(sum >> 33 != 0) << l;
    }
    s.set_pred(i.pu, carry);
    s.set_pred(i.pv, second);
  }
}
void decode_iadd3(Decoder& d, Inst& i) {
  const bool x = d.flag(74);
  const Mod m = x ? Mod::invert : Mod::negate;
  d.dst(i);
  i.a[0] = d.a(m);
  i.b[0] = d.b(m);
  i.c[0] = d.c(m);
  i.pu = d.pred_dst(81);
  i.pv = d.pred_dst(84);
  i.pp = d.pred(87);
  i.pq = d.pred(77);
  const bool out = (i.pu & 7) != pt || (i.pv & 7) != pt;
  i.exec = x ? iadd3<true, true> : out ? iadd3<false, true> : iadd3<false, false>;
}

void viadd(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]);
  map(s, i.d[0], [&](unsigned l) { return a[l] + b[l]; });
}
// UIADD3.64: the same of pairs of uniform registers; a literal is extended with its sign.
void uiadd3_wide(Step& s, const Inst& i) {
  const auto pair = [&](const Operand* o, bool minus) -> unsigned __int128 {
    const uint64_t v = uint64_t{s.row(o[1])[0]} << 32 | s.row(o[0])[0];
    return minus ? ~v : v;
  };
  unsigned __int128 sum = pair(i.a, i.flag[0]) + pair(i.b, i.flag[1]) + pair(i.c, i.flag[2]);
  if (i.flag[3])
    sum += (s.pred(i.pp) & 1) + (s.pred(i.pq) & 1);
  else
    sum += unsigned{i.flag[0]} + unsigned{i.flag[1]} + unsigned{i.flag[2]};
  broadcast(s, i.d[0], static_cast<uint32_t>(sum));
  broadcast(s, i.d[1], static_cast<uint32_t>(sum >> 32));
  s.set_pred(i.pu, sum >> 64 != 0 ? all_lanes : 0);
  s.set_pred(i.pv, sum >> 65 != 0 ? all_lanes : 0);
}
void decode_uiadd3_wide(Decoder& d, Inst& i) {
  i.flag[3] = d.flag(74);
  d.dst(i, 2);
  d.urs(i.a, 24, 2);
  i.flag[0] = d.flag(72);
  if (d.layout.s == sass::SourceS::imm) {
    const uint32_t v = d.take(63, 32);
    i.b[0] = d.constant(v);
    i.b[1] = d.constant(static_cast<int32_t>(v) < 0 ? ~0u : 0);
  } else {
    d.urs(i.b, 32, 2);
    i.flag[1] = d.flag(63);
  }
  d.urs(i.c, 64, 2);
  i.flag[2] = d.flag(75);
  i.pu = d.pred_dst(81);
  i.pv = d.pred_dst(84);
  i.pp = d.pred(87);
  i.pq = d.pred(77);
  i.exec = uiadd3_wide;
}

// .16x2
void viadd_halves(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]);
  const bool minus = i.b[0].add != 0;
  map(s, i.d[0], [&](unsigned l) { return minus ? subtract16(a[l], b[l]) : add16(a[l], b[l]); });
}
void decode_viadd(Decoder& d, Inst& i) {
  d.dst(i);
  i.a[0] = d.a();
  if (d.flag(73)) {
    i.b[0] = d.s(Mod::negate);
    i.exec = viadd_halves;
    return;
  }
  i.b[0] = d.s(Mod::negate);
  i.exec = viadd;
}

// --- IMAD
template <bool carry_in>
void imad(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]);
  const Source c(s, i.c[0]);
  const uint32_t p = carry_in ? s.pred(i.pp) : 0;
  map(s, i.d[0], [&](unsigned l) { return a[l] * b[l] + c[l] + (carry_in ? p >> l & 1 : 0); });
}
void decode_imad(Decoder& d, Inst& i) {
  const bool x = d.flag(74);
  d.hint(73, 73);  // signedness: the low half of a product has none
  d.dst(i);
  i.a[0] = d.a();
  i.b[0] = d.b();
  i.c[0] = d.c(x ? Mod::invert : Mod::negate);
  d.no_pred_dst(81, "a carry out");
  i.pp = d.pred(87);
  i.exec = x ? imad<true> : imad<false>;
}

// The 64-bit summand may be negated.
bool decode_summand(Decoder& d, Inst& i) {
  d.c_pair(i.c);
  const bool apart = !d.layout.s_is_c, has_sign = apart || d.layout.s != sass::SourceS::imm;
  return i.flag[1] = has_sign && d.flag(apart ? 75 : 63);
}
uint64_t summand(const Inst& i, uint32_t lo, uint32_t hi) {
  const uint64_t v = uint64_t{hi} << 32 | lo;
  return i.flag[1] ? 0 - v : v;
}
template <bool is_signed>
void imad_wide(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]), cl(s, i.c[0]), ch(s, i.c[1]);
  uint32_t *dl = s.out(i.d[0]), *dh = s.out(i.d[1]);
  each(s, [&](unsigned l) {
    const uint64_t v = multiply_wide(a[l], b[l], is_signed) + summand(i, cl[l], ch[l]);
    dl[l] = static_cast<uint32_t>(v);
    dh[l] = static_cast<uint32_t>(v >> 32);
  });
}
// Unsigned, with a carry in (.X) or out of the 64-bit sum.
void imad_wide_carry(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]), cl(s, i.c[0]), ch(s, i.c[1]);
  const uint32_t p = i.flag[0] ? s.pred(i.pp) : 0;
  uint32_t *dl = s.out(i.d[0]), *dh = s.out(i.d[1]);
  uint32_t carry = 0;
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    // The product is at most 2^64 - 2^33 + 1: adding the carry first can not run over.
    const uint64_t product = uint64_t{a[l]} * b[l] + (p >> l & 1),
                   sum = product + (uint64_t{ch[l]} << 32 | cl[l]);
    dl[l] = static_cast<uint32_t>(sum);
    dh[l] = static_cast<uint32_t>(sum >> 32);
    carry |= static_cast<uint32_t>(sum < product) << l;
  }
  s.set_pred(i.pu, carry);
}
void decode_imad_wide(Decoder& d, Inst& i) {
  const bool is_signed = d.flag(73), x = i.flag[0] = d.flag(74);
  d.dst(i, 2);
  i.a[0] = d.a();
  i.b[0] = d.b();
  const bool minus = decode_summand(d, i);
  i.pu = d.pred_dst(81);
  i.pp = d.pred(87);  // used with .X only
  const bool out = (i.pu & 7) != pt;
  if ((x || out) && (is_signed || minus)) d.refuse("a carry of a signed product");
  i.exec = x || out ? imad_wide_carry : is_signed ? imad_wide<true> : imad_wide<false>;
}

template <bool is_signed>
void imad_high(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]), cl(s, i.c[0]), ch(s, i.c[1]);
  map(s, i.d[0], [&](unsigned l) {
    return static_cast<uint32_t>((multiply_wide(a[l], b[l], is_signed) + summand(i, cl[l], ch[l])) >> 32);
  });
}
void imad_high_carry(Step& s, const Inst& i) {  // unsigned, with a carry in (.X) or out of the 64-bit sum
  const Plain a(s, i.a[0]), b(s, i.b[0]), cl(s, i.c[0]), ch(s, i.c[1]);
  const uint32_t p = i.flag[0] ? s.pred(i.pp) : 0;
  uint32_t* d = s.out(i.d[0]);
  uint32_t carry = 0;
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const uint64_t product = uint64_t{a[l]} * b[l] + (p >> l & 1),
                   sum = product + (uint64_t{ch[l]} << 32 | cl[l]);
    d[l] = static_cast<uint32_t>(sum >> 32);
    carry |= static_cast<uint32_t>(sum < product) << l;
  }
  s.set_pred(i.pu, carry);
}
void decode_imad_high(Decoder& d, Inst& i) {
  const bool is_signed = d.flag(73), x = i.flag[0] = d.flag(74);
  d.dst(i);
  i.a[0] = d.a();
  i.b[0] = d.b();
  const bool minus = decode_summand(d, i);
  i.pu = d.pred_dst(81);
  i.pp = d.pred(87);  // used with .X only
  const bool out = (i.pu & 7) != pt;
  if ((x || out) && (is_signed || minus)) d.refuse("a carry of a signed product");
  i.exec = x || out ? imad_high_carry : is_signed ? imad_high<true> : imad_high<false>;
}

// --- LEA: (a << n) + b; .HI: the high word of {c:a} << n, or of the sign-extended a with .SX32, + b.
void lea(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), c(s, i.c[0]);
  const Plain b(s, i.b[0]);
  // A negated first source is negated when it is shifted, as IADD3 does it.
  const uint32_t fa = i.flag[3] ? ~0u : 0, fb = i.b[0].flip, one = i.b[0].add + (i.flag[3] ? 1 : 0);
  const bool high = i.flag[0], sign = i.flag[1], x = i.flag[2];
  const uint32_t p = x ? s.pred(i.pp) : 0, n = i.imm;
  uint32_t* d = s.out(i.d[0]);
  uint32_t carry = 0;
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const uint32_t av = a[l];
    const uint32_t top = sign ? static_cast<uint32_t>(static_cast<int32_t>(av) >> 31) : c[l];
    const uint64_t sum = uint64_t{(high ? shift_high(av, top, n) : av << n) ^ fa} + (b[l] ^ fb) + one + (p >> l & 1);
    d[l] = static_cast<uint32_t>(sum);
    carry |= static_cast<uint32_t>(sum >> 32 != 0) << l;
  }
  s.set_pred(i.pu, carry);
}
void lea_plain(Step& s, const Inst& i) {  // no carry in either direction
  const Plain a(s, i.a[0]);
  const Source b(s, i.b[0]);
  const uint32_t n = i.imm;
  map(s, i.d[0], [&](unsigned l) { return (a[l] << n) + b[l]; });
}
void decode_lea(Decoder& d, Inst& i) {
  const bool high = d.flag(80), x = d.flag(74), sign = d.flag(73);
  d.dst(i);
  i.flag[3] = d.flag(72);
  if (i.flag[3] && (high || x)) d.refuse("a negated first source of .HI or .X");
  i.a[0] = d.a();
  i.b[0] = d.b(d.layout.s_is_c ? Mod::none : x ? Mod::invert : Mod::negate);
  i.c[0] = d.c();
  i.imm = d.take(79, 75);
  i.pu = d.pred_dst(81);
  i.pp = d.pred(87);
  i.flag[0] = high;
  i.flag[1] = sign;
  i.flag[2] = x;
  if (sign && !high) d.refuse("LEA.SX32 without .HI");
  i.exec = high || x || i.flag[3] || (i.pu != pt && i.pu != upt) ? lea : lea_plain;
}

// --- comparisons that give a number: of 32-bit numbers, or of packed 16-bit ones
VectorType vector_type(const Inst& i) { return {i.flag[0], i.flag[1], i.flag[2]}; }
// [73:72]: U32 S32 U16x2 S16x2; .RELU in [76].
void decode_vector_type(Decoder& d, Inst& i) {
  const uint32_t type = d.take(73, 72);
  i.flag[0] = (type & 1) != 0;
  i.flag[1] = type >= 2;
  i.flag[2] = d.flag(76);
  if (i.flag[2] && !i.flag[0]) d.refuse(".RELU of unsigned numbers");
}
void vimnmx(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]);
  const uint32_t minimum = s.pred(i.pp);
  const VectorType t = vector_type(i);
  map(s, i.d[0], [&](unsigned l) { return vector_minmax(a[l], b[l], (minimum >> l & 1) != 0, t); });
}
// The predicates say where the result is the first operand: Pu in the lower half of packed numbers, Pv in the upper one; both
// the same of 32-bit numbers [measured H200].
void vimnmx_p(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]);
  const uint32_t minimum = s.pred(i.pp);
  const VectorType t = vector_type(i);
  uint32_t* d = s.out(i.d[0]);
  uint32_t upper = 0, lower = 0;
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const uint32_t first = a[l], r = vector_minmax(first, b[l], (minimum >> l & 1) != 0, t), other = r ^ first;
    d[l] = r;
    upper |= static_cast<uint32_t>((t.packed ? other >> 16 : other) == 0) << l;
    lower |= static_cast<uint32_t>((t.packed ? other & 0xffff : other) == 0) << l;
  }
  s.set_pred(i.pu, lower);
  s.set_pred(i.pv, upper);
}
void decode_vimnmx(Decoder& d, Inst& i) {
  d.dst(i);
  decode_vector_type(d, i);
  i.a[0] = d.a();
  i.b[0] = d.s();
  i.pu = d.pred_dst(81);
  i.pv = d.pred_dst(84);
  i.pp = d.pred(87);
  i.exec = (i.pu & 7) == pt && (i.pv & 7) == pt ? vimnmx : vimnmx_p;
}
void decode_imnmx(Decoder& d, Inst& i) {
  d.dst(i);
  i.flag[0] = d.flag(73);
  i.a[0] = d.a();
  i.b[0] = d.s();
  i.pp = d.pred(87);
  i.exec = vimnmx;
}

void vimnmx3(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  const uint32_t minimum = s.pred(i.pp);
  const VectorType last = vector_type(i), first{last.is_signed, last.packed, false};
  map(s, i.d[0], [&](unsigned l) {
    const bool least = (minimum >> l & 1) != 0;
    return vector_minmax(vector_minmax(a[l], b[l], least, first), c[l], least, last);
  });
}
void decode_vimnmx3(Decoder& d, Inst& i) {
  d.dst(i);
  decode_vector_type(d, i);
  i.a[0] = d.a();
  i.b[0] = d.b();
  i.c[0] = d.c();
  i.pp = d.pred(87);
  i.exec = vimnmx3;
}

void viaddmnmx(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  const uint32_t minimum = s.pred(i.pp);
  const VectorType t = vector_type(i);
  map(s, i.d[0], [&](unsigned l) {
    const uint32_t sum = t.packed ? add16(a[l], b[l]) : a[l] + b[l];
    return vector_minmax(sum, c[l], (minimum >> l & 1) != 0, t);
  });
}
void decode_viaddmnmx(Decoder& d, Inst& i) {
  d.dst(i);
  decode_vector_type(d, i);
  const Mod m = i.flag[1] ? Mod::none : Mod::negate;
  i.a[0] = d.a();
  i.b[0] = d.b(m);
  i.c[0] = d.c(m);
  i.pp = d.pred(87);
  i.exec = viaddmnmx;
}

// --- dot products and differences
void idp4(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  map(s, i.d[0], [&](unsigned l) { return dot4(a[l], b[l], c[l], i.flag[0], i.flag[1]); });
}
void idp2(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  map(s, i.d[0], [&](unsigned l) { return dot2(a[l], b[l], c[l], i.flag[0], i.flag[1], i.imm); });
}
void decode_idp(Decoder& d, Inst& i) {
  d.dst(i);
  i.flag[0] = d.flag(73);
  i.flag[1] = d.flag(74);
  const bool two = d.flag(76);
  i.imm = two && d.flag(77) ? 2 : 0;
  i.a[0] = d.a();
  i.b[0] = d.b();
  i.c[0] = d.c(Mod::negate);
  i.exec = two ? idp2 : idp4;
}
void vabsdiff(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  map(s, i.d[0], [&](unsigned l) { return distance(a[l], b[l], i.flag[0]) + c[l]; });
}
void decode_vabsdiff(Decoder& d, Inst& i) {  // [PTX ISA: sad]
  d.dst(i);
  i.flag[0] = d.flag(73);
  d.no_pred_dst(81, "a predicate result");
  i.a[0] = d.a();
  i.b[0] = d.b();
  i.c[0] = d.c();
  i.exec = vabsdiff;
}

// VABSDIFF4: by bytes, side by side or, with .ACC, added up.
void vabsdiff4(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  map(s, i.d[0], [&](unsigned l) {
    uint32_t r = i.flag[1] ? c[l] : 0;
    for (unsigned k = 0; k < 32; k += 8)
      r += distance(part(a[l], k, 8, i.flag[0]), part(b[l], k, 8, i.flag[0]), i.flag[0]) << (i.flag[1] ? 0 : k);
    return r;
  });
}
void decode_vabsdiff4(Decoder& d, Inst& i) {
  d.dst(i);
  i.flag[0] = d.flag(73);
  i.flag[1] = d.flag(75);
  d.no_pred_dst(81, "a predicate result");
  i.a[0] = d.a();
  i.b[0] = d.b();
  i.c[0] = d.c();
  i.exec = vabsdiff4;
}

void iabs_op(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]);
  map(s, i.d[0], [&](unsigned l) { return iabs(a[l]); });
}
void decode_iabs(Decoder& d, Inst& i) {
  d.dst(i);
  i.a[0] = d.s();
  i.exec = iabs_op;
}

constexpr Op ops[] = {
    {"IADD3", 0x010, decode_iadd3},       {"UIADD3", 0x090, decode_iadd3},
    {"UIADD3.64", 0x097, decode_uiadd3_wide},
    {"VIADD", 0x036, decode_viadd},       {"IMAD", 0x024, decode_imad},
    {"UIMAD", 0x0a4, decode_imad},        {"IMAD", 0x025, decode_imad_wide},
    {"UIMAD", 0x0a5, decode_imad_wide},   {"IMAD", 0x027, decode_imad_high},
    {"LEA", 0x011, decode_lea},           {"ULEA", 0x091, decode_lea},
    {"VIMNMX", 0x048, decode_vimnmx},     {"VIMNMX3", 0x00f, decode_vimnmx3},
    {"IMNMX", 0x017, decode_imnmx},       {"VIADDMNMX", 0x046, decode_viaddmnmx},
    {"IABS", 0x013, decode_iabs},         {"IDP", 0x026, decode_idp},
    {"VABSDIFF", 0x014, decode_vabsdiff}, {"VABSDIFF4", 0x015, decode_vabsdiff4},
};

}  // namespace

std::span<const Op> integer_ops() { return ops; }

}  // namespace xtrace::replay::interp
