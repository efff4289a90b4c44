// Moves, special registers, constants.
#include "replay/interp/handle.h"
#include "replay/interp/op_table.h"
#include "replay/interp/special.h"
#include "replay/interp/step.h"

namespace xtrace::replay::interp {
namespace {

void mov(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]);
  map(s, i.d[0], [&](unsigned l) { return a[l]; });
}
void decode_mov(Decoder& d, Inst& i) {
  d.dst(i);
  i.a[0] = d.s();
  d.expect(75, 72, 15, "the lane mask of MOV");
  i.exec = mov;
}
void decode_umov(Decoder& d, Inst& i) {
  d.dst(i);
  i.a[0] = d.s();
  i.exec = mov;
}

// --- S2R, S2UR, CS2R
void s2r(Step& s, const Inst& i) {
  map(s, i.d[0], [&](unsigned l) { return special_register(s, i.op, l); });
}
void s2ur(Step& s, const Inst& i) {
  // One value for the warp: that of its first lane.
  broadcast(s, i.d[0], special_register(s, i.op, first_lane(s.active)));
}
void cs2r64(Step& s, const Inst& i) {
  s2r(s, i);
  uint32_t* d = s.out(i.d[1]);
  each(s, [&](unsigned l) { d[l] = special_register_high(s, i.op, l); });
}
void decode_special(Decoder& d, Inst& i) {
  i.op = d.take(79, 72);
  if (!special_register_known(i.op)) d.refuse(fmt::format("special register {}", i.op));
}
void decode_s2r(Decoder& d, Inst& i) {
  d.dst_gpr(i);
  decode_special(d, i);
  i.exec = s2r;
}
void decode_s2ur(Decoder& d, Inst& i) {
  d.dst_ur(i);
  decode_special(d, i);
  i.exec = s2ur;
}
// LANEID, TID, EQMASK .. GEMASK.
bool differs_by_lane(uint32_t index) { return index == 0 || (index >= 32 && index <= 34) || (index >= 56 && index <= 60); }
void decode_cs2r(Decoder& d, Inst& i) {
  const bool wide = d.flag(80);
  d.dst_gpr(i, wide ? 2 : 1);
  decode_special(d, i);
  // Hardware gives 0 for LANEID in every lane [measured H200]; the others that differ by lane were not tried.
  if (differs_by_lane(i.op)) d.refuse("CS2R of a register that differs by lane");
  i.exec = wide ? cs2r64 : s2r;
}

// --- constants
const std::byte* bank_bytes(Step& s, const Inst& i, unsigned lane, int64_t offset) {
  const ByteView bank = s.program->banks.bank(i.type);
  if (offset < 0 || static_cast<uint64_t>(offset) + i.bytes > bank.size() || offset % i.bytes != 0) {
    s.fail(ErrorKind::device,
           fmt::format("a read of {} bytes at c[{:#x}][{:#x}]: the bank has {:#x} bytes", i.bytes, i.type,
                       offset, bank.size()),
           static_cast<int>(lane));
    return nullptr;
  }
  if (const UnknownConstant* u =
          s.program->banks.unknown_in(i.type, static_cast<uint64_t>(offset), i.bytes)) {
    s.fail(ErrorKind::unsupported, fmt::format("the address of {}, which was not recorded", u->symbol),
           static_cast<int>(lane));
    return nullptr;
  }
  return bank.data() + offset;
}
// i.flag[1]: the constants are those of the handle in i.c[0..1].
bool load_constant(Step& s, const Inst& i, unsigned lane, int64_t offset) {
  const std::byte* p = nullptr;
  if (i.flag[1])
    p = handle_bytes(s, {i.c[0], i.c[1]}, offset, i.bytes, lane);
  else
    p = bank_bytes(s, i, lane, offset);
  if (p == nullptr) return false;
  if (i.bytes >= 4) {
    for (unsigned k = 0; k < i.bytes / 4u; ++k) std::memcpy(&s.out(i.d[k])[lane], p + 4 * k, 4);
    return true;
  }
  uint32_t v = 0;
  std::memcpy(&v, p, i.bytes);
  if (i.flag[0]) v = static_cast<uint32_t>(sign_extend(v, 8u * i.bytes));
  s.out(i.d[0])[lane] = v;
  return true;
}
void ldc(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    if (!load_constant(s, i, l, int64_t{static_cast<int32_t>(a[l])} + i.offset)) return;
  }
}
void decode_size(Decoder& d, Inst& i) {
  constexpr uint8_t sizes[] = {1, 1, 2, 2, 4, 8, 16, 0};
  const uint32_t size = d.take(75, 73);
  i.bytes = sizes[size];
  i.flag[0] = size == 1 || size == 3;
  if (i.bytes == 0) d.refuse("the access size");
}
// The bank, or the pair of the handle at [29:24].
void decode_constants(Decoder& d, Inst& i) {
  const uint16_t opcode = d.opcode();
  i.flag[1] = opcode == 0x1582 || opcode == 0x1ab9;
  if (i.flag[1])
    d.urs(i.c, 24, 2);
  else
    i.type = d.take(58, 54);
}
void decode_ldc(Decoder& d, Inst& i) {
  decode_size(d, i);
  d.dst_gpr(i, std::max(1u, i.bytes / 4u));
  decode_constants(d, i);
  const unsigned vector_low = i.flag[1] ? 64 : 24;
  const bool indexed = get_bits(d.word(), bits(vector_low + 7, vector_low)) != 255;
  d.gprs(i.a, vector_low, 1);
  const uint32_t offset = d.take(53, 38);
  i.offset = indexed ? sign_extend(offset, 16) : offset;
  d.expect(79, 78, 0, "the addressing mode");
  i.unit = Unit::constant_memory;
  i.exec = ldc;
}
void uldc(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]);
  for (unsigned l = 0; l < lane_count; ++l)
    if (!load_constant(s, i, l, int64_t{static_cast<int32_t>(a[l])} + i.offset)) return;
}
void decode_uldc(Decoder& d, Inst& i) {
  const bool indexed = d.opcode() == 0x1abb;
  if (d.opcode() != 0xab9 && d.opcode() != 0x1ab9 && !indexed) return d.refuse("a constant of global memory");
  decode_size(d, i);
  d.dst_ur(i, std::max(1u, i.bytes / 4u));
  decode_constants(d, i);
  const uint32_t offset = d.take(53, 38);
  i.offset = indexed ? sign_extend(offset, 16) : offset;
  i.a[0] = d.constant(0);
  if (indexed) d.urs(i.a, 24, 1);
  i.exec = uldc;
}

constexpr Op ops[] = {
    {"MOV", 0x002, decode_mov},   {"UMOV", 0x082, decode_umov}, {"S2R", 0x119, decode_s2r},
    {"S2UR", 0x1c3, decode_s2ur}, {"CS2R", 0x005, decode_cs2r}, {"LDC", 0x182, decode_ldc},
    {"ULDC", 0x0b9, decode_uldc},
    {"ULDC", 0x0bb, decode_uldc},
};

}  // namespace

std::span<const Op> move_ops() { return ops; }

}  // namespace xtrace::replay::interp
