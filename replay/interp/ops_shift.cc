// Shifts and bit fields, vector and uniform.
#include "replay/interp/op_table.h"
#include "replay/interp/step.h"
#include "replay/interp/value/integer.h"

namespace xtrace::replay::interp {
namespace {

using namespace value;

void shf_op(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  const ShiftKind k{i.flag[0], i.flag[1], i.flag[2], (i.type & 1) != 0, (i.type & 2) != 0};
  map(s, i.d[0], [&](unsigned l) { return shf(a[l], b[l], c[l], k); });
}
// Amounts known when decoding, as almost all are.
void shift_right_unsigned(Step& s, const Inst& i) {
  const Plain c(s, i.c[0]);
  map(s, i.d[0], [&](unsigned l) { return c[l] >> i.imm; });
}
void shift_right_signed(Step& s, const Inst& i) {
  const Plain c(s, i.c[0]);
  map(s, i.d[0], [&](unsigned l) { return static_cast<uint32_t>(static_cast<int32_t>(c[l]) >> i.imm); });
}
void shift_left(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]);
  map(s, i.d[0], [&](unsigned l) { return a[l] << i.imm; });
}
void decode_shf(Decoder& d, Inst& i) {
  d.dst(i);
  const bool right = i.flag[0] = d.flag(76);
  const bool high = i.flag[1] = d.flag(80);
  const bool wrap = i.flag[2] = d.flag(75);
  const uint32_t type = d.take(74, 73);  // S64 U64 S32 U32
  const bool wide = type < 2, is_signed = (type & 1) == 0;
  i.type = (wide ? 1u : 0u) | (is_signed ? 2u : 0u);
  const bool literal = d.layout.s == sass::SourceS::imm && !d.layout.s_is_c;
  i.imm = static_cast<uint32_t>(get_bits(d.word(), bits(63, 32)));
  i.a[0] = d.a();
  i.b[0] = d.b();
  i.c[0] = d.c();
  i.exec = shf_op;
  if (!literal || i.imm >= 32 || wide || wrap) return;
  if (right && high) i.exec = is_signed ? shift_right_signed : shift_right_unsigned;
  if (!right && !high) i.exec = shift_left;
}

void sgxt_op(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]);
  map(s, i.d[0], [&](unsigned l) { return sgxt(a[l], b[l], i.flag[0], i.flag[1]); });
}
void decode_sgxt(Decoder& d, Inst& i) {
  d.dst(i);
  i.flag[0] = d.flag(73);
  i.flag[1] = d.flag(75);
  i.a[0] = d.a();
  i.b[0] = d.s();
  i.exec = sgxt_op;
}

void bmsk_op(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]);
  map(s, i.d[0], [&](unsigned l) { return bmsk(a[l], b[l], i.flag[0]); });
}
void decode_bmsk(Decoder& d, Inst& i) {
  d.dst(i);
  i.flag[0] = d.flag(75);
  i.a[0] = d.a();
  i.b[0] = d.s();
  i.exec = bmsk_op;
}

constexpr Op ops[] = {
    {"SHF", 0x019, decode_shf},    {"USHF", 0x099, decode_shf},  {"SGXT", 0x01a, decode_sgxt},
    {"USGXT", 0x09a, decode_sgxt}, {"BMSK", 0x01b, decode_bmsk}, {"UBMSK", 0x09b, decode_bmsk},
};

}  // namespace

std::span<const Op> shift_ops() { return ops; }

}  // namespace xtrace::replay::interp
