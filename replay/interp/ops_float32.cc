// Single precision.
#include <iterator>

#include "replay/interp/op_table.h"
#include "replay/interp/step.h"
#include "replay/interp/value/float.h"
#include "replay/interp/value/mufu.h"
#include "replay/interp/value/narrow.h"

namespace xtrace::replay::interp {
namespace {

using namespace value;

// .FTZ [80], rounding [79:78], .SAT [77].
void decode_modifiers(Decoder& d, Inst& i) {
  i.flag[0] = d.flag(80);
  i.op = d.take(79, 78);
  i.flag[1] = d.flag(77);
}
bool plain(const Inst& i) { return !i.flag[0] && !i.flag[1] && i.op == 0; }

// Everything that is not plain: lane by lane. `exact` is the value before it is rounded, odd in its last bit when it has more
// than fit a double.
template <typename Rounded, typename Exact>
void modified(Step& s, const Inst& i, Rounded rounded, Exact exact) {
  const Source a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  uint32_t* d = s.out(i.d[0]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const auto in = [&](uint32_t v) { return i.flag[0] ? flush(v) : v; };
    const float x = f32(in(a[l])), y = f32(in(b[l])), z = f32(in(c[l]));
    uint32_t r = canonical(rounded(x, y, z, static_cast<Rounding>(i.op)));
    // .FTZ judges the result as it is rounded with exponents of any size. [measured H200]
    if (i.flag[0] && (r & 0x7fffffff) == 0x00800000 &&
        std::fabs(to_single(exact(x, y, z) * 0x1p64, static_cast<Rounding>(i.op))) < 0x1p-62f)
      r &= 0x80000000;
    if (i.flag[0]) r = flush(r);
    d[l] = i.flag[1] ? saturate(r) : r;
  }
}

void fadd_op(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]);
  map(s, i.d[0], [&](unsigned l) { return fadd(a[l], b[l]); });
}
void fadd_modified(Step& s, const Inst& i) {
  modified(
      s, i, [](float a, float b, float, Rounding r) { return fadd_rounded(a, b, r); },
      [](double a, double b, double) { return a + b; });
}
void decode_fadd(Decoder& d, Inst& i) {
  d.dst(i);
  decode_modifiers(d, i);
  i.a[0] = d.a(Mod::fp);
  i.b[0] = d.s(Mod::fp);
  i.c[0] = d.constant(0);
  i.exec = plain(i) ? fadd_op : fadd_modified;
}

void fmul_op(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]);
  map(s, i.d[0], [&](unsigned l) { return fmul(a[l], b[l]); });
}
// .D8 .. .M8: the product times 2^(imm - 4), rounded once. [measured H200]
void fmul_modified(Step& s, const Inst& i) {
  const double scale = std::ldexp(1.0, static_cast<int>(i.imm) - 4);
  modified(
      s, i, [&](float a, float b, float, Rounding r) { return to_single(double{a} * b * scale, r); },
      [&](double a, double b, double) { return a * b * scale; });
}
void decode_fmul(Decoder& d, Inst& i) {
  d.dst(i);
  decode_modifiers(d, i);
  i.imm = d.take(86, 84);
  if (i.imm == 0) d.refuse("an invalid power-of-two factor");
  i.a[0] = d.a(Mod::fp);
  i.b[0] = d.s(Mod::fp);
  i.c[0] = d.constant(0);
  i.exec = plain(i) && i.imm == 4 ? fmul_op : fmul_modified;
}

// The machine's own fused multiply-add where it has one; std::fma gives the same bits elsewhere.
__attribute__((target_clones("default", "arch=haswell"))) void ffma_rows(uint32_t* d, const uint32_t* a,
                                                                         const uint32_t* b, const uint32_t* c,
                                                                         uint32_t ma, uint32_t fa,
                                                                         uint32_t mb, uint32_t fb,
                                                                         uint32_t mc, uint32_t fc) {
#pragma GCC ivdep
  for (unsigned l = 0; l < lane_count; ++l) {
    const float r = std::fma(f32((a[l] & ma) ^ fa), f32((b[l] & mb) ^ fb), f32((c[l] & mc) ^ fc));
    d[l] = r == r ? bits32(r) : nan32;
  }
}
void ffma_op(Step& s, const Inst& i) {
  if (s.mask == all_lanes)
    return ffma_rows(s.out(i.d[0]), s.row(i.a[0]), s.row(i.b[0]), s.row(i.c[0]), i.a[0].mask, i.a[0].flip,
                     i.b[0].mask, i.b[0].flip, i.c[0].mask, i.c[0].flip);
  const Source a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  map(s, i.d[0], [&](unsigned l) { return ffma(a[l], b[l], c[l]); });
}
void ffma_modified(Step& s, const Inst& i) {
  modified(
      s, i, [](float a, float b, float c, Rounding r) { return ffma_rounded(a, b, c, r); },
      [](double a, double b, double c) { return add_to_odd(a * b, c); });
}
void decode_ffma(Decoder& d, Inst& i) {
  d.dst(i);
  decode_modifiers(d, i);
  i.a[0] = d.a(Mod::fp);
  i.b[0] = d.b(Mod::fp);
  i.c[0] = d.c(Mod::fp);
  i.exec = plain(i) ? ffma_op : ffma_modified;
}

void fmnmx_op(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]);
  const uint32_t minimum = s.pred(i.pp);
  const bool ftz = i.flag[0], nan = i.flag[1], xorsign = i.flag[2];
  const uint32_t *x = s.row(i.a[0]), *y = s.row(i.b[0]);
  map(s, i.d[0], [&](unsigned l) {
    if (nan && (is_nan(a[l]) || is_nan(b[l]))) return nan32;
    const uint32_t r = fmnmx(ftz ? flush(a[l]) : a[l], ftz ? flush(b[l]) : b[l], (minimum >> l & 1) != 0);
    return xorsign && !is_nan(r) ? (r & 0x7fffffff) | ((x[l] ^ y[l]) & 0x80000000) : r;
  });
}
void decode_fmnmx(Decoder& d, Inst& i) {
  d.dst(i);
  i.flag[0] = d.flag(80);
  i.flag[1] = d.flag(81);  // .NAN: what is not a number wins [PTX ISA: min.NaN]
  i.flag[2] = d.flag(82);  // .XORSIGN: what wins, with the product of the signs [measured H200]
  i.a[0] = d.a(Mod::fp);
  i.b[0] = d.s(Mod::fp);
  i.pp = d.pred(87);
  i.exec = fmnmx_op;
}

void fsel(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]);
  const uint32_t p = s.pred(i.pp);
  map(s, i.d[0], [&](unsigned l) { return (p >> l & 1) != 0 ? a[l] : b[l]; });
}
void decode_fsel(Decoder& d, Inst& i) {
  d.dst(i);
  d.expect(80, 80, 0, ".FTZ of FSEL");
  i.a[0] = d.a(Mod::fp);
  i.b[0] = d.s(Mod::fp);
  i.pp = d.pred(87);
  i.exec = fsel;
}

// Lanes of the first result of a comparison with a second condition: AND OR XOR.
uint32_t combine(unsigned how, uint32_t lanes, uint32_t p) {
  return how == 0 ? lanes & p : how == 1 ? lanes | p : lanes ^ p;
}
uint32_t fcompare_lanes(const Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]);
  const bool ftz = i.flag[0];
  return test(s, [&](unsigned l) {
    return fcompare(i.op, f32(ftz ? flush(a[l]) : a[l]), f32(ftz ? flush(b[l]) : b[l]));
  });
}
void fsetp(Step& s, const Inst& i) {
  const uint32_t r = fcompare_lanes(s, i);
  const uint32_t p = s.pred(i.pp);
  s.set_pred(i.pu, combine(i.type, r, p));
  s.set_pred(i.pv, combine(i.type, ~r, p));
}
// FSET: ones, or with .BF the number one, where it compares so. [measured H200]
void fset(Step& s, const Inst& i) {
  const uint32_t lanes = combine(i.type, fcompare_lanes(s, i), s.pred(i.pp)), yes = i.flag[1] ? ~0u : 0x3f800000;
  map(s, i.d[0], [&](unsigned l) { return (lanes >> l & 1) != 0 ? yes : 0; });
}
void decode_fcompare(Decoder& d, Inst& i) {
  i.op = d.take(79, 76);
  i.flag[0] = d.flag(80);
  i.type = d.take(75, 74);
  if (i.type == 3) d.refuse("an invalid way to combine predicates");
  i.a[0] = d.a(Mod::fp);
  i.b[0] = d.s(Mod::fp);
}
void decode_fset(Decoder& d, Inst& i) {
  d.dst(i);
  decode_fcompare(d, i);
  i.flag[1] = d.flag(71);
  i.pp = d.pred(87);
  i.exec = fset;
}
void decode_fsetp(Decoder& d, Inst& i) {
  decode_fcompare(d, i);
  i.pu = d.pred_dst(81);
  i.pv = d.pred_dst(84);
  i.pp = d.pred(87);
  i.exec = fsetp;
}

// FCHK: the quick division of two numbers may be wrong, and code behind it calls a slow one. [measured H200]
void fchk(Step& s, const Inst& i) {
  const Source a(s, i.a[0]), b(s, i.b[0]);
  s.set_pred(i.pu, test(s, [&](unsigned l) {
               const auto exponent = [](uint32_t v) { return static_cast<int>(v >> 23 & 0xff) - 127; };
               const int x = exponent(a[l]), y = exponent(b[l]);
               return x < -102 || x > 127 || y < -125 || y > 124 || x - y < -124 || x - y > 126;
             }));
}
void decode_fchk(Decoder& d, Inst& i) {
  i.a[0] = d.a(Mod::fp);
  i.b[0] = d.s(Mod::fp);
  i.pu = d.pred_dst(81);
  i.exec = fchk;
}

template <uint32_t (*function)(uint32_t)>
void mufu(Step& s, const Inst& i) {
  const Source a(s, i.a[0]);
  map(s, i.d[0], [&](unsigned l) { return function(a[l]); });
}
// flag[0]: bfloat16; flag[1]: of the upper half. The upper half of the result is zero [measured H200].
template <uint32_t (*function)(uint32_t)>
void mufu_of_narrow(Step& s, const Inst& i) {
  const Source a(s, i.a[0]);
  const Narrow& format = i.flag[0] ? brain_format : half_format;
  map(s, i.d[0], [&](unsigned l) {
    return uint32_t{mufu_narrow(function, static_cast<uint16_t>(i.flag[1] ? a[l] >> 16 : a[l]), format)};
  });
}
struct Mufu {
  Exec single, narrow;
};
template <uint32_t (*function)(uint32_t)>
constexpr Mufu both{mufu<function>, mufu_of_narrow<function>};
// By the code of the function, [77:74].
constexpr Mufu mufu_functions[] = {
    both<mufu_cos>, both<mufu_sin>, both<mufu_ex2>, both<mufu_lg2>, both<mufu_rcp>, both<mufu_rsq>,
    {mufu<mufu_rcp64h>, nullptr}, {mufu<mufu_rsq64h>, nullptr}, both<mufu_sqrt>, both<mufu_tanh>,
};
void decode_mufu(Decoder& d, Inst& i) {
  d.dst(i);
  const uint32_t type = d.take(73, 72), function = d.take(77, 74);
  if (function >= std::size(mufu_functions)) return d.refuse("a function that the special function unit does not have");
  if (type == 0) {
    i.a[0] = d.s(Mod::fp);
    i.exec = mufu_functions[function].single;
    return;
  }
  i.exec = mufu_functions[function].narrow;
  if (type == 3 || i.exec == nullptr) return d.refuse("the type of the operand");
  if (d.layout.s != sass::SourceS::reg && d.layout.s != sass::SourceS::ur) d.refuse("a 16-bit operand that is no register");
  i.flag[0] = type == 2;
  i.a[0] = d.s();
  i.flag[1] = d.flag(60);
  if (d.flag(62)) i.a[0].mask = 0x7fff7fff;
  if (d.flag(63)) i.a[0].flip = 0x80008000;
}

constexpr Op ops[] = {
    {"FADD", 0x021, decode_fadd},   {"FMUL", 0x020, decode_fmul}, {"FFMA", 0x023, decode_ffma},
    {"FMNMX", 0x009, decode_fmnmx}, {"FSEL", 0x008, decode_fsel}, {"FSETP", 0x00b, decode_fsetp},
    {"FSET", 0x00a, decode_fset},
    {"MUFU", 0x108, decode_mufu},   {"FCHK", 0x102, decode_fchk},
};

}  // namespace

std::span<const Op> float32_ops() { return ops; }

}  // namespace xtrace::replay::interp
