// Double precision.
#include "replay/interp/op_table.h"
#include "replay/interp/step.h"
#include "replay/interp/value/float.h"

namespace xtrace::replay::interp {
namespace {

using namespace value;

struct Source64 {
  Source64(const Step& s, const Operand* o) : lo(s.row(o[0])), hi(s, o[1]) {}
  const uint32_t* lo;
  Source hi;
  double operator[](unsigned l) const { return f64(lo[l], hi[l]); }
  // As the register has it, without sign and absolute value of the operand.
  double plain(unsigned l) const { return f64(lo[l], hi.p[l]); }
};

// f(lane) is the result, none(lane) what replaces it when it is not a number: operands in the order B, C, A, without their
// modifiers. [measured H200]
template <typename F, typename None>
void map64(Step& s, const Inst& i, F f, None none) {
  uint32_t *lo = s.out(i.d[0]), *hi = s.out(i.d[1]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const double r = f(l);
    const uint64_t v = r == r ? std::bit_cast<uint64_t>(r) : none(l);
    lo[l] = static_cast<uint32_t>(v);
    hi[l] = static_cast<uint32_t>(v >> 32);
  }
}

void dadd_op(Step& s, const Inst& i) {
  const Source64 a(s, i.a), c(s, i.c);
  map64(
      s, i, [&](unsigned l) { return dadd(a[l], c[l], static_cast<Rounding>(i.op)); },
      [&](unsigned l) { return not_a_number({c.plain(l), a.plain(l)}); });
}
void decode_dadd(Decoder& d, Inst& i) {
  d.dst(i, 2);
  i.op = d.take(79, 78);
  d.a64(i.a);
  d.layout.s_is_c ? d.s64(i.c) : d.t64(i.c);
  i.exec = dadd_op;
}

void dmul_op(Step& s, const Inst& i) {
  const Source64 a(s, i.a), b(s, i.b);
  map64(
      s, i, [&](unsigned l) { return dmul(a[l], b[l], static_cast<Rounding>(i.op)); },
      [&](unsigned l) { return not_a_number({b.plain(l), a.plain(l)}); });
}
void decode_dmul(Decoder& d, Inst& i) {
  d.dst(i, 2);
  i.op = d.take(79, 78);
  d.a64(i.a);
  d.s64(i.b);
  i.exec = dmul_op;
}

void dfma_op(Step& s, const Inst& i) {
  const Source64 a(s, i.a), b(s, i.b), c(s, i.c);
  map64(
      s, i, [&](unsigned l) { return dfma(a[l], b[l], c[l], static_cast<Rounding>(i.op)); },
      [&](unsigned l) { return not_a_number({b.plain(l), c.plain(l), a.plain(l)}); });
}
void decode_dfma(Decoder& d, Inst& i) {
  d.dst(i, 2);
  i.op = d.take(79, 78);
  d.a64(i.a);
  d.b64(i.b);
  d.c64(i.c);
  i.exec = dfma_op;
}

uint32_t combine(unsigned how, uint32_t lanes, uint32_t p) {
  return how == 0 ? lanes & p : how == 1 ? lanes | p : lanes ^ p;
}
void dsetp(Step& s, const Inst& i) {
  const Source64 a(s, i.a), b(s, i.b);
  const uint32_t r = test(s, [&](unsigned l) { return fcompare(i.op, a[l], b[l]); });
  const uint32_t p = s.pred(i.pp);
  s.set_pred(i.pu, combine(i.type, r, p));
  s.set_pred(i.pv, combine(i.type, ~r, p));
}
// DSETP.MIN and .MAX: the first predicate holds where the result is A, the second where both are no numbers. A number wins
// over what is none, -0 is less than +0. [measured H200]
void dsetp_minmax(Step& s, const Inst& i) {
  const Source64 a(s, i.a), b(s, i.b);
  const bool minimum = i.op == 0;
  const uint32_t takes_a = test(s, [&](unsigned l) {
    const double x = a[l], y = b[l];
    if (x != x || y != y) return x == x;
    const bool less = x < y || (x == y && (std::signbit(x) || !std::signbit(y)));
    return less == minimum;
  });
  const uint32_t none = test(s, [&](unsigned l) { return a[l] != a[l] && b[l] != b[l]; });
  const uint32_t p = s.pred(i.pp);
  s.set_pred(i.pu, combine(i.type, takes_a, p));
  s.set_pred(i.pv, none);
}
void decode_dsetp(Decoder& d, Inst& i) {
  i.op = d.take(79, 76);
  i.type = d.take(75, 74);
  if (i.type == 3) d.refuse("an invalid way to combine predicates");
  d.a64(i.a);
  d.s64(i.b);
  i.pu = d.pred_dst(81);
  i.pv = d.pred_dst(84);
  i.pp = d.pred(87);
  i.exec = i.op == 0 || i.op == 15 ? dsetp_minmax : dsetp;
}

constexpr Op ops[] = {
    {"DADD", 0x029, decode_dadd},
    {"DMUL", 0x028, decode_dmul},
    {"DFMA", 0x02b, decode_dfma},
    {"DSETP", 0x02a, decode_dsetp},
};

}  // namespace

std::span<const Op> float64_ops() { return ops; }

}  // namespace xtrace::replay::interp
