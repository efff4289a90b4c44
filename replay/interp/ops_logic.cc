// Bitwise logic and bit counting, vector and uniform.
#include "replay/interp/op_table.h"
#include "replay/interp/step.h"
#include "replay/interp/value/integer.h"

namespace xtrace::replay::interp {
namespace {

using namespace value;

template <uint32_t fixed>  // the tables most code uses, so that the loop is a single operation; 0x100 = any
void lop3_op(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  const uint32_t lut = fixed == 0x100 ? i.imm : fixed;
  map(s, i.d[0], [&](unsigned l) { return lop3(a[l], b[l], c[l], lut); });
}
void lop3_pred(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  const uint32_t set = test(s, [&](unsigned l) { return lop3(a[l], b[l], c[l], i.imm) != 0; });
  const uint32_t p = s.pred(i.pp);
  lop3_op<0x100>(s, i);
  s.set_pred(i.pu, i.flag[0] ? set & p : set | p);
}
void decode_lop3(Decoder& d, Inst& i) {
  d.dst(i);
  i.a[0] = d.a();
  i.b[0] = d.b();
  i.c[0] = d.c();
  i.imm = d.take(79, 72);
  i.flag[0] = d.flag(80);  // .PAND
  i.pu = d.pred_dst(81);
  i.pp = d.pred(87);
  if (i.pu != pt && i.pu != upt) {
    i.exec = lop3_pred;
    return;
  }
  switch (i.imm) {
    case 0xc0:
      i.exec = lop3_op<0xc0>;
      break;
    case 0xfc:
      i.exec = lop3_op<0xfc>;
      break;
    case 0x3c:
      i.exec = lop3_op<0x3c>;
      break;
    case 0x96:
      i.exec = lop3_op<0x96>;
      break;
    default:
      i.exec = lop3_op<0x100>;
      break;
  }
}

void prmt_op(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  map(s, i.d[0], [&](unsigned l) { return prmt(a[l], b[l], c[l]); });
}
void prmt_by_mode(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  map(s, i.d[0], [&](unsigned l) { return prmt_mode(a[l], b[l], c[l], static_cast<PermuteMode>(i.op)); });
}
void decode_prmt(Decoder& d, Inst& i) {
  i.op = d.take(74, 72);
  if (i.op > static_cast<uint32_t>(PermuteMode::replicate16)) d.refuse("the mode of PRMT");
  d.dst(i);
  i.a[0] = d.a();
  i.b[0] = d.b();
  i.c[0] = d.c();
  i.exec = i.op == 0 ? prmt_op : prmt_by_mode;
}

void popc(Step& s, const Inst& i) {
  const Source a(s, i.a[0]);
  map(s, i.d[0], [&](unsigned l) { return static_cast<uint32_t>(std::popcount(a[l])); });
}
void decode_popc(Decoder& d, Inst& i) {
  d.dst(i);
  i.a[0] = d.s(Mod::invert);
  i.exec = popc;
}

void flo_op(Step& s, const Inst& i) {
  const Source a(s, i.a[0]);
  map(s, i.d[0], [&](unsigned l) { return flo(a[l], i.flag[0], i.flag[1]); });
}
void decode_flo(Decoder& d, Inst& i) {
  d.dst(i);
  i.flag[0] = d.flag(73);
  i.flag[1] = d.flag(74);
  i.a[0] = d.s(Mod::invert);
  d.no_pred_dst(81, "a predicate result");
  i.exec = flo_op;
}

void brev_op(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]);
  map(s, i.d[0], [&](unsigned l) { return brev(a[l]); });
}
void decode_brev(Decoder& d, Inst& i) {
  d.dst(i);
  i.a[0] = d.s();
  i.exec = brev_op;
}

constexpr Op ops[] = {
    {"LOP3", 0x012, decode_lop3},  {"ULOP3", 0x092, decode_lop3}, {"PRMT", 0x016, decode_prmt},
    {"UPRMT", 0x096, decode_prmt}, {"POPC", 0x109, decode_popc},  {"UPOPC", 0x0bf, decode_popc},
    {"FLO", 0x100, decode_flo},    {"UFLO", 0x0bd, decode_flo},   {"BREV", 0x101, decode_brev},
    {"UBREV", 0x0be, decode_brev},
};

}  // namespace

std::span<const Op> logic_ops() { return ops; }

}  // namespace xtrace::replay::interp
