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
};

// A result that is not a number stops: which payload the hardware gives was not measured.
template <typename F>
void map64(Step& s, const Inst& i, F f) {
  uint32_t *lo = s.out(i.d[0]), *hi = s.out(i.d[1]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const double r = f(l);
    if (r != r)
      return s.fail(ErrorKind::unsupported, "a result that is not a number, whose payload was not measured",
                    static_cast<int>(l));
    const auto v = std::bit_cast<uint64_t>(r);
    lo[l] = static_cast<uint32_t>(v);
    hi[l] = static_cast<uint32_t>(v >> 32);
  }
}

void dadd_op(Step& s, const Inst& i) {
  const Source64 a(s, i.a), c(s, i.c);
  map64(s, i, [&](unsigned l) { return dadd(a[l], c[l], static_cast<Rounding>(i.op)); });
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
  map64(s, i, [&](unsigned l) { return dmul(a[l], b[l], static_cast<Rounding>(i.op)); });
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
  map64(s, i, [&](unsigned l) { return dfma(a[l], b[l], c[l], static_cast<Rounding>(i.op)); });
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
void decode_dsetp(Decoder& d, Inst& i) {
  i.op = d.take(79, 76);
  if (i.op == 0 || i.op == 15) d.refuse("DSETP.MIN and DSETP.MAX");
  i.type = d.take(75, 74);
  if (i.type == 3) d.refuse("an invalid way to combine predicates");
  d.a64(i.a);
  d.s64(i.b);
  i.pu = d.pred_dst(81);
  i.pv = d.pred_dst(84);
  i.pp = d.pred(87);
  i.exec = dsetp;
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
