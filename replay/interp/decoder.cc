#include "replay/interp/decoder.h"

namespace xtrace::replay::interp {
namespace {

constexpr unsigned rz = 255, urz = 63;

// Sign and absolute bits by place. [sass.md 1.1]
unsigned sign_bit(unsigned low) { return low == 24 ? 72 : low == 32 ? 63 : 75; }
unsigned absolute_bit(unsigned low) { return low == 24 ? 73 : low == 32 ? 62 : 74; }

}  // namespace

Operand Decoder::gpr(unsigned index) {
  Operand o;
  if (index == rz) {
    o.row = program_.layout.zero();
    return o;
  }
  if (index >= program_.layout.gprs)
    refuse(fmt::format("R{} is beyond the {} registers of the kernel", index, program_.layout.gprs));
  o.row = static_cast<int32_t>(index);
  return o;
}

Operand Decoder::ur(unsigned index) {
  Operand o;
  o.row = index == urz ? program_.layout.zero() : program_.layout.ur(std::min(index, urz - 1));
  if (index > urz) refuse(fmt::format("UR{} does not exist", index));
  return o;
}

void Decoder::gprs(Operand* out, unsigned low, unsigned n) {
  const unsigned index = take(low + 7, low);
  if (n > 1 && index != rz && index % n != 0)
    refuse(fmt::format("R{} does not begin {} registers", index, n));
  for (unsigned k = 0; k < n; ++k) out[k] = gpr(index == rz ? rz : index + k);
}

void Decoder::urs(Operand* out, unsigned low, unsigned n) {
  const unsigned index = take(low + 5, low);
  for (unsigned k = 0; k < n; ++k) out[k] = ur(index == urz ? urz : index + k);
}

void Decoder::dst_gpr(Inst& i, unsigned n) {
  const unsigned index = take(23, 16);
  if (n > 1 && index != rz && index % n != 0)
    refuse(fmt::format("R{} does not begin {} registers", index, n));
  for (unsigned k = 0; k < n; ++k) i.d[k] = index == rz ? program_.layout.sink() : gpr(index + k).row;
}

void Decoder::dst_ur(Inst& i, unsigned n) {
  const unsigned index = take(21, 16);
  if (index != urz && index + n > urz) return refuse(fmt::format("UR{} does not begin {} registers", index, n));
  for (unsigned k = 0; k < n; ++k) i.d[k] = index == urz ? program_.layout.sink() : ur(index + k).row;
}

void Decoder::dst(Inst& i, unsigned n) { uniform_ ? dst_ur(i, n) : dst_gpr(i, n); }

void Decoder::modify(Operand& o, Mod m, unsigned sign, unsigned absolute) {
  switch (m) {
    case Mod::none:
      return;
    case Mod::negate:
      if (flag(sign)) o.flip = ~0u, o.add = 1;
      return;
    case Mod::invert:
      if (flag(sign)) o.flip = ~0u;
      return;
    case Mod::fp:
      if (flag(absolute)) o.mask = 0x7fffffff;
      if (flag(sign)) o.flip = 0x80000000;
      return;
  }
}

Operand Decoder::wide_register(unsigned low, Mod m, Operand* out, unsigned n) {
  Operand one;
  if (out == nullptr) out = &one;
  uniform_ ? urs(out, low, n) : gprs(out, low, n);
  modify(out[n - 1], m, sign_bit(low), absolute_bit(low));
  return out[0];
}

uint32_t Decoder::bank_word(unsigned bank, uint32_t offset) {
  const ByteView bytes = program_.banks.bank(bank);
  if (const UnknownConstant* u = program_.banks.unknown_in(bank, offset, 4))
    refuse(fmt::format("the address of {}, which was not recorded", u->symbol));
  if (bytes.size() < uint64_t{offset} + 4) {
    refuse(fmt::format("c[{:#x}][{:#x}] lies outside the constants of the kernel", bank, offset));
    return 0;
  }
  return *read_at<uint32_t>(bytes, offset, "constant");
}

// cx[UR][imm]: the pair at [37:32], the offset in words at [53:40].
void Decoder::through_handle(Operand* out, unsigned words) {
  Operand pair[2];
  urs(pair, 32, 2);
  HandleConstant h;
  h.ur[0] = pair[0].row, h.ur[1] = pair[1].row;
  h.offset = take(53, 40) * 4;
  h.words = words;
  for (unsigned k = 0; k < words; ++k) out[k].row = program_.layout.handle(k);
  handle_ = h;
}

Operand Decoder::s(Mod m) {
  Operand o;
  switch (layout.s) {
    case sass::SourceS::imm:
      return constant(take(63, 32));
    case sass::SourceS::reg:
      return wide_register(32, m, nullptr, 1);
    case sass::SourceS::ur:
      urs(&o, 32, 1);
      modify(o, m, 63, 62);
      return o;
    case sass::SourceS::constant: {
      const unsigned bank = take(58, 54);
      o = constant(bank_word(bank, take(53, 40) * 4));
      modify(o, m, 63, 62);
      return o;
    }
    case sass::SourceS::constant_bindless:
      through_handle(&o, 1);
      modify(o, m, 63, 62);
      return o;
  }
  return o;
}

void Decoder::s64(Operand* out) {
  switch (layout.s) {
    case sass::SourceS::imm:
      out[0] = constant(0);
      out[1] = constant(take(63, 32));
      return;
    case sass::SourceS::reg:
      wide_register(32, Mod::fp, out, 2);
      return;
    case sass::SourceS::ur:
      urs(out, 32, 2);
      modify(out[1], Mod::fp, 63, 62);
      return;
    case sass::SourceS::constant: {
      const unsigned bank = take(58, 54);
      const uint32_t offset = take(53, 40) * 4;
      out[0] = constant(bank_word(bank, offset));
      out[1] = constant(bank_word(bank, offset + 4));
      modify(out[1], Mod::fp, 63, 62);
      return;
    }
    case sass::SourceS::constant_bindless:
      through_handle(out, 2);
      modify(out[1], Mod::fp, 63, 62);
      return;
  }
}

void Decoder::c_pair(Operand* out) {
  if (!layout.s_is_c) {
    uniform_ ? urs(out, 64, 2) : gprs(out, 64, 2);
    return;
  }
  switch (layout.s) {
    case sass::SourceS::reg:
      gprs(out, 32, 2);
      return;
    case sass::SourceS::ur:
      urs(out, 32, 2);
      return;
    case sass::SourceS::constant: {
      const unsigned bank = take(58, 54);
      const uint32_t offset = take(53, 40) * 4;
      out[0] = constant(bank_word(bank, offset));
      out[1] = constant(bank_word(bank, offset + 4));
      return;
    }
    case sass::SourceS::constant_bindless:
      through_handle(out, 2);
      return;
    default:
      refuse("a 64-bit summand in this form");
      return;
  }
}

uint8_t Decoder::no_pred_dst(unsigned low, const char* what) {
  expect(low + 2, low, 7, what);
  return uniform_ ? upt : pt;
}

PredOperand Decoder::pred(unsigned low, bool uniform) {
  PredOperand p;
  p.index = static_cast<uint8_t>(take(low + 2, low) + (uniform ? 8 : 0));
  p.flip = flag(low + 3) ? ~0u : 0;
  return p;
}

}  // namespace xtrace::replay::interp
