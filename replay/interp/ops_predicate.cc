// What makes and moves predicates, vector and uniform.
#include "replay/interp/op_table.h"
#include "replay/interp/step.h"
#include "replay/interp/value/integer.h"

namespace xtrace::replay::interp {
namespace {

using namespace value;

uint32_t combine(unsigned how, uint32_t lanes, uint32_t p) {
  return how == 0 ? lanes & p : how == 1 ? lanes | p : lanes ^ p;
}

template <bool is_signed>
void isetp_op(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]);
  const uint32_t r = test(s, [&](unsigned l) { return isetp(i.op, a[l], b[l], is_signed); });
  const uint32_t p = s.pred(i.pp);
  s.set_pred(i.pu, combine(i.type, r, p));
  s.set_pred(i.pv, combine(i.type, ~r, p));
}
// .EX: the high words of 64-bit numbers; Pr says how the low words compared.
void isetp_high(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]);
  const uint32_t low = s.pred(i.pr), p = s.pred(i.pp);
  const uint32_t r = test(s, [&](unsigned l) {
    if (i.op == 0 || i.op == 7) return i.op == 7;  // [measured H200]
    if (a[l] == b[l]) return (low >> l & 1) != 0;
    return isetp(i.op, a[l], b[l], i.flag[0]);
  });
  s.set_pred(i.pu, combine(i.type, r, p));
  s.set_pred(i.pv, combine(i.type, ~r, p));
}
void decode_isetp(Decoder& d, Inst& i) {
  i.op = d.take(78, 76);
  const bool is_signed = i.flag[0] = d.flag(73);
  i.type = d.take(75, 74);
  if (i.type == 3) d.refuse("an invalid way to combine predicates");
  const bool high = d.flag(72);
  i.a[0] = d.a();
  i.b[0] = d.s();
  i.pu = d.pred_dst(81);
  i.pv = d.pred_dst(84);
  i.pp = d.pred(87);
  i.pr = d.pred(68);
  i.exec = high ? isetp_high : is_signed ? isetp_op<true> : isetp_op<false>;
}

// PLOP3: two functions of three predicates by their truth tables.
void plop3(Step& s, const Inst& i) {
  const uint32_t a = s.pred(i.pp), b = s.pred(i.pq), c = s.pred(i.pr);
  s.set_pred(i.pu, lop3(a, b, c, i.op));
  s.set_pred(i.pv, lop3(a, b, c, i.type));
}
void decode_plop3(Decoder& d, Inst& i) {
  if (d.opcode() != 0x81c && d.opcode() != 0x89c) return d.refuse("a register operand of PLOP3");
  i.op = d.take(76, 72) << 3 | d.take(66, 64);
  i.type = d.take(23, 16);
  i.pu = d.pred_dst(81);
  i.pv = d.pred_dst(84);
  i.pp = d.pred(87);
  i.pq = d.pred(77);
  const bool uniform_third = d.flag(67);
  i.pr = d.pred(68, d.is_uniform() || uniform_third);
  i.exec = plop3;
}

void sel(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]);
  const uint32_t p = s.pred(i.pp);
  map(s, i.d[0], [&](unsigned l) { return (p >> l & 1) != 0 ? a[l] : b[l]; });
}
void decode_sel(Decoder& d, Inst& i) {
  d.dst(i);
  i.a[0] = d.a();
  i.b[0] = d.s();
  i.pp = d.pred(87);
  i.exec = sel;
}

// P2R: predicates P0..P6 into one byte of a register, those that the mask names; the rest of `a` stays.
void p2r(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]);
  map(s, i.d[0], [&](unsigned l) {
    uint32_t v = 0;
    for (unsigned p = 0; p < 7; ++p) v |= (s.warp->preds[p + i.type] >> l & 1) << p;
    const uint32_t mask = b[l] & 0xff;
    return (a[l] & ~(mask << (8 * i.op))) | (v & mask) << (8 * i.op);
  });
}
void decode_p2r(Decoder& d, Inst& i) {
  d.dst(i);
  i.a[0] = d.a();
  i.b[0] = d.s();
  i.op = d.take(77, 76);
  i.type = d.is_uniform() ? 8 : 0;
  i.exec = p2r;
}
// R2P, with a literal mask.
void r2p(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]);
  for (unsigned p = 0; p < 7; ++p) {
    if ((i.imm >> p & 1) == 0) continue;
    s.set_pred(static_cast<uint8_t>(p + i.type),
               test(s, [&](unsigned l) { return a[l] >> (8 * i.op + p) & 1; }));
  }
}
void decode_r2p(Decoder& d, Inst& i) {
  if (d.layout.s != sass::SourceS::imm) return d.refuse("a mask that is not literal");
  i.a[0] = d.a();
  i.imm = d.take(63, 32);
  if ((i.imm & ~0x7fu) != 0) d.refuse("a mask beyond P6");
  i.op = d.take(77, 76);
  i.type = d.is_uniform() ? 8 : 0;
  i.exec = r2p;
}

constexpr Op ops[] = {
    {"ISETP", 0x00c, decode_isetp},  {"UISETP", 0x08c, decode_isetp}, {"PLOP3", 0x01c, decode_plop3},
    {"UPLOP3", 0x09c, decode_plop3}, {"SEL", 0x007, decode_sel},      {"USEL", 0x087, decode_sel},
    {"P2R", 0x003, decode_p2r},      {"UP2UR", 0x083, decode_p2r},    {"R2P", 0x004, decode_r2p},
    {"UR2UP", 0x084, decode_r2p},
};

}  // namespace

std::span<const Op> predicate_ops() { return ops; }

}  // namespace xtrace::replay::interp
