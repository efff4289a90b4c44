#include "instrument/sass/encode.h"

#include "base/check.h"

namespace xtrace::sass::enc {
namespace {

constexpr BitRange rd_field = bits(23, 16), ra_field = bits(31, 24), rb_field = bits(39, 32),
                   rc_field = bits(71, 64);
constexpr BitRange urd_field = bits(21, 16), ura_field = bits(29, 24), urb_field = bits(37, 32),
                   urc_field = bits(69, 64);
constexpr BitRange imm32_field = bits(63, 32), offset_field = bits(63, 40);
constexpr BitRange pu_field = bits(83, 81), pp_field = bits(89, 87), pp_not = bit(90);

// `hi` holds the bits of the upper word that are constant for the form, bit 91 included.
RawInst base(uint16_t opcode12, uint64_t hi) {
  RawInst w{uint64_t{opcode12} | 7u << 12, hi};
  set_control(w, Control{.stall = 1});
  return w;
}

void put(RawInst& w, BitRange field, uint64_t value) { set_bits(w, field, value); }

void put_offset(RawInst& w, int32_t offset) {
  XT_CHECK(offset >= -(1 << 23) && offset < (1 << 23), "address offset does not fit 24 bits");
  put(w, offset_field, static_cast<uint32_t>(offset) & 0xffffff);
}

void check_tuple(unsigned index, unsigned count, unsigned zero) {
  XT_CHECK(index == zero || index % count == 0, "register of a pair or quad is not aligned");
}
void check_size(Gpr r, Size size) { check_tuple(r.index, 1u << (static_cast<unsigned>(size) - 4), RZ.index); }
void check_size(Ureg r, Size size) {
  check_tuple(r.index, 1u << (static_cast<unsigned>(size) - 4), URZ.index);
}

uint64_t size_bits(Size size) { return static_cast<uint64_t>(size) << 9; }

// The three-operand vector layouts: register in B, 32-bit immediate in B, uniform register in B.
RawInst rrr(uint16_t op, uint64_t hi, Gpr d, Gpr a, Gpr b, Gpr c) {
  RawInst w = base(op, hi);
  put(w, rd_field, d.index);
  put(w, ra_field, a.index);
  put(w, rb_field, b.index);
  put(w, rc_field, c.index);
  return w;
}
RawInst rir(uint16_t op, uint64_t hi, Gpr d, Gpr a, uint32_t imm, Gpr c) {
  RawInst w = base(op, hi);
  put(w, rd_field, d.index);
  put(w, ra_field, a.index);
  put(w, imm32_field, imm);
  put(w, rc_field, c.index);
  return w;
}
RawInst uuu(uint16_t op, uint64_t hi, Ureg d, Ureg a, Ureg b, Ureg c) {
  RawInst w = base(op, hi);
  put(w, urd_field, d.index);
  put(w, ura_field, a.index);
  put(w, urb_field, b.index);
  put(w, urc_field, c.index);
  return w;
}
RawInst uiu(uint16_t op, uint64_t hi, Ureg d, Ureg a, uint32_t imm, Ureg c) {
  RawInst w = base(op, hi);
  put(w, urd_field, d.index);
  put(w, ura_field, a.index);
  put(w, imm32_field, imm);
  put(w, urc_field, c.index);
  return w;
}

// Loads keep the uniform register in the B slot, stores and reductions in the C slot.
RawInst at(RawInst w, VectorAddress address) {
  check_tuple(address.base.index, 2, RZ.index);
  put(w, ra_field, address.base.index);
  put_offset(w, address.offset);
  return w;
}
RawInst at(RawInst w, UniformAddress address, BitRange ur_field) {
  check_tuple(address.base.index, 2, URZ.index);
  put(w, ra_field, address.lane_offset.index);
  put(w, ur_field, address.base.index);
  put_offset(w, address.offset);
  return w;
}
RawInst with_data(RawInst w, Gpr data, Size size) {
  check_size(data, size);
  put(w, rb_field, data.index);
  return w;
}

constexpr uint64_t uniform_page = 1u << 27;      // bit 91
constexpr uint64_t wide_address = 1u << 8;       // bit 72, ".E"
constexpr uint64_t cache_normal = 1u << 20;      // bits [86:84] = 1
constexpr uint64_t no_predicate_out = 7u << 17;  // bits [83:81] = PT
constexpr uint64_t strong_gpu = 7u << 13;        // bits [80:77]

}  // namespace

RawInst mov_imm(Gpr d, uint32_t imm) {
  RawInst w = base(0x802, 0xf00);
  put(w, rd_field, d.index);
  put(w, imm32_field, imm);
  return w;
}
RawInst mov(Gpr d, Gpr b) {
  RawInst w = base(0x202, 0xf00);
  put(w, rd_field, d.index);
  put(w, rb_field, b.index);
  return w;
}
RawInst mov_from_ur(Gpr d, Ureg b) {
  RawInst w = base(0xc02, uniform_page | 0xf00);
  put(w, rd_field, d.index);
  put(w, urb_field, b.index);
  return w;
}
RawInst umov_imm(Ureg d, uint32_t imm) {
  RawInst w = base(0x882, 0);
  put(w, urd_field, d.index);
  put(w, imm32_field, imm);
  return w;
}
RawInst umov(Ureg d, Ureg b) {
  RawInst w = base(0xc82, uniform_page);
  put(w, urd_field, d.index);
  put(w, urb_field, b.index);
  return w;
}
RawInst r2ur(Ureg d, Gpr a) {
  RawInst w = base(0x2ca, no_predicate_out);
  put(w, urd_field, d.index);
  put(w, ra_field, a.index);
  return w;
}
RawInst r2ur_differs(Ureg d, Pred other, Gpr a) {
  RawInst w = r2ur(d, a);
  set_bits(w, bits(83, 81), other.index);
  return w;
}
RawInst s2r(Gpr d, uint8_t sr) {
  RawInst w = base(0x919, uint64_t{sr} << 8);
  put(w, rd_field, d.index);
  return w;
}
RawInst s2ur(Ureg d, uint8_t sr) {
  RawInst w = base(0x9c3, uint64_t{sr} << 8);
  put(w, urd_field, d.index);
  return w;
}
RawInst cs2r32(Gpr d, uint8_t sr) {
  RawInst w = base(0x805, uint64_t{sr} << 8);
  put(w, rd_field, d.index);
  return w;
}
RawInst cs2r64(Gpr d, uint8_t sr) {
  check_tuple(d.index, 2, RZ.index);
  RawInst w = base(0x805, uint64_t{sr} << 8 | 1u << 16);
  put(w, rd_field, d.index);
  return w;
}

// Bits [90:87] and [80:77] of IADD3 are the carry inputs, 0xf = !PT = none.
RawInst iadd3(Gpr d, Gpr a, Gpr b, Gpr c) { return rrr(0x210, 0x7ffe000, d, a, b, c); }
RawInst iadd3_imm(Gpr d, Gpr a, uint32_t imm, Gpr c) { return rir(0x810, 0x7ffe000, d, a, imm, c); }
RawInst iadd3_carry_out(Gpr d, Pred carry, Gpr a, Gpr b, Gpr c) {
  RawInst w = iadd3(d, a, b, c);
  put(w, pu_field, carry.index);
  return w;
}
RawInst iadd3_carry_out_imm(Gpr d, Pred carry, Gpr a, uint32_t imm, Gpr c) {
  RawInst w = iadd3_imm(d, a, imm, c);
  put(w, pu_field, carry.index);
  return w;
}
RawInst iadd3_carry_in(Gpr d, Gpr a, Gpr b, Gpr c, Pred carry) {
  RawInst w = rrr(0x210, 0x7fe400, d, a, b, c);
  put(w, pu_field, PT.index);
  put(w, pp_field, carry.index);
  return w;
}
RawInst iadd3_from_ur(Gpr d, Gpr a, Ureg b, Gpr c) {
  RawInst w = base(0xc10, uniform_page | 0x7ffe000);
  put(w, rd_field, d.index);
  put(w, ra_field, a.index);
  put(w, urb_field, b.index);
  put(w, rc_field, c.index);
  return w;
}
RawInst imad(Gpr d, Gpr a, Gpr b, Gpr c) { return rrr(0x224, 0x78e0200, d, a, b, c); }
RawInst imad_imm(Gpr d, Gpr a, uint32_t imm, Gpr c) { return rir(0x824, 0x78e0200, d, a, imm, c); }
RawInst imad_ur(Gpr d, Gpr a, Ureg b, Gpr c) {
  RawInst w = base(0xc24, uniform_page | 0x78e0200);
  put(w, rd_field, d.index);
  put(w, ra_field, a.index);
  put(w, urb_field, b.index);
  put(w, rc_field, c.index);
  return w;
}
RawInst imad_wide_u32_imm(Gpr d, Gpr a, uint32_t imm, Gpr c) {
  check_tuple(d.index, 2, RZ.index);
  check_tuple(c.index, 2, RZ.index);
  return rir(0x825, 0x78e0000, d, a, imm, c);
}
RawInst lop3(Gpr d, Gpr a, Gpr b, Gpr c, uint8_t lut) {
  return rrr(0x212, 0x78e0000 | uint64_t{lut} << 8, d, a, b, c);
}
RawInst lop3_imm(Gpr d, Gpr a, uint32_t imm, Gpr c, uint8_t lut) {
  return rir(0x812, 0x78e0000 | uint64_t{lut} << 8, d, a, imm, c);
}
RawInst lop3_imm_any(Gpr d, Pred any, Gpr a, uint32_t imm, Gpr c, uint8_t lut) {
  RawInst w = lop3_imm(d, a, imm, c, lut);
  put(w, pu_field, any.index);
  return w;
}
RawInst lop3_ur(Gpr d, Gpr a, Ureg b, Gpr c, uint8_t lut) {
  RawInst w = base(0xc12, uniform_page | 0x78e0000 | uint64_t{lut} << 8);
  put(w, rd_field, d.index);
  put(w, ra_field, a.index);
  put(w, urb_field, b.index);
  put(w, rc_field, c.index);
  return w;
}
RawInst shf_r_u32_hi_imm(Gpr d, Gpr c, uint8_t shift) { return rir(0x819, 0x11600, d, RZ, shift, c); }
RawInst shf_l_u32_imm(Gpr d, Gpr a, uint8_t shift) { return rir(0x819, 0x600, d, a, shift, RZ); }

namespace {
// ISETP.op.AND d, PT, a, b, PT
RawInst setp(RawInst w, Pred d, Compare op, bool is_signed) {
  put(w, rd_field, 0);
  put(w, rc_field, 7u << 4);  // third predicate input PT at [70:68]
  put(w, pu_field, d.index);
  put(w, bits(86, 84), PT.index);
  put(w, pp_field, PT.index);
  put(w, bits(78, 76), static_cast<uint64_t>(op));
  put(w, bit(73), is_signed);
  return w;
}
}  // namespace

RawInst isetp_imm(Pred d, Compare op, bool is_signed, Gpr a, uint32_t imm) {
  return setp(rir(0x80c, 0, RZ, a, imm, RZ), d, op, is_signed);
}
RawInst isetp(Pred d, Compare op, bool is_signed, Gpr a, Gpr b) {
  return setp(rrr(0x20c, 0, RZ, a, b, RZ), d, op, is_signed);
}
RawInst isetp_ur(Pred d, Compare op, bool is_signed, Gpr a, Ureg b) {
  RawInst w = setp(rrr(0xc0c, uniform_page, RZ, a, RZ, RZ), d, op, is_signed);
  put(w, rb_field, 0);
  put(w, urb_field, b.index);
  return w;
}
RawInst lea_imm(Gpr d, Gpr a, uint32_t imm, uint8_t shift) {
  XT_CHECK(shift < 32, "LEA shifts by less than 32");
  RawInst w = rir(0x811, no_predicate_out, d, a, imm, RZ);
  put(w, bits(90, 87), 0xf);  // no carry in: !PT
  put(w, bits(79, 75), shift);
  return w;
}
RawInst prmt_imm(Gpr d, Gpr a, uint32_t selector, Gpr c) { return rir(0x816, 0, d, a, selector, c); }
RawInst sel_imm(Gpr d, Gpr a, uint32_t imm, Pred p) {
  RawInst w = rir(0x807, 0, d, a, imm, Gpr{0});
  put(w, pp_field, p.index);
  return w;
}
RawInst sel_imm_unless(Gpr d, Gpr a, uint32_t imm, Pred p) {
  RawInst w = sel_imm(d, a, imm, p);
  put(w, pp_not, 1);
  return w;
}
RawInst p2r(Gpr d, uint8_t mask) { return rir(0x803, 0, d, RZ, mask, Gpr{0}); }
RawInst r2p(Gpr a, uint8_t mask) {
  RawInst w = base(0x804, 0);
  put(w, ra_field, a.index);
  put(w, imm32_field, mask);
  return w;
}

RawInst uiadd3(Ureg d, Ureg a, Ureg b, Ureg c) { return uuu(0x290, uniform_page | 0x7ffe000, d, a, b, c); }
RawInst uiadd3_imm(Ureg d, Ureg a, uint32_t imm, Ureg c) {
  return uiu(0x890, uniform_page | 0x7ffe000, d, a, imm, c);
}
RawInst uimad(Ureg d, Ureg a, Ureg b, Ureg c) { return uuu(0x2a4, uniform_page | 0x78e0200, d, a, b, c); }
RawInst uimad_imm(Ureg d, Ureg a, uint32_t imm, Ureg c) {
  return uiu(0x8a4, uniform_page | 0x78e0200, d, a, imm, c);
}
RawInst uimad_wide_u32(Ureg d, Ureg a, Ureg b, Ureg c) {
  check_tuple(d.index, 2, URZ.index);
  check_tuple(c.index, 2, URZ.index);
  return uuu(0x2a5, uniform_page | 0x78e0000, d, a, b, c);
}
RawInst uimad_wide_u32_imm(Ureg d, Ureg a, uint32_t imm, Ureg c) {
  check_tuple(d.index, 2, URZ.index);
  check_tuple(c.index, 2, URZ.index);
  return uiu(0x8a5, uniform_page | 0x78e0000, d, a, imm, c);
}
RawInst ulop3(Ureg d, Ureg a, Ureg b, Ureg c, uint8_t lut) {
  return uuu(0x292, uniform_page | 0x78e0000 | uint64_t{lut} << 8, d, a, b, c);
}
RawInst ulop3_imm(Ureg d, Ureg a, uint32_t imm, Ureg c, uint8_t lut) {
  return uiu(0x892, uniform_page | 0x78e0000 | uint64_t{lut} << 8, d, a, imm, c);
}
RawInst ushf_r_u32_hi_imm(Ureg d, Ureg c, uint8_t shift) {
  return uiu(0x899, uniform_page | 0x11600, d, URZ, shift, c);
}
RawInst ushf_l_u32_imm(Ureg d, Ureg a, uint8_t shift) {
  return uiu(0x899, uniform_page | 0x600, d, a, shift, URZ);
}

RawInst vote_any(Gpr d, Pred p) {
  RawInst w = base(0x806, no_predicate_out | 0x100);
  put(w, rd_field, d.index);
  put(w, pp_field, p.index);
  return w;
}
RawInst vote_any_active(Gpr d) { return vote_any(d, PT); }
RawInst voteu_any(Ureg d, Pred p) {
  RawInst w = base(0x886, no_predicate_out | 0x100);
  put(w, urd_field, d.index);
  put(w, pp_field, p.index);
  return w;
}
RawInst popc(Gpr d, Gpr s) {
  RawInst w = base(0x309, 0);
  put(w, rd_field, d.index);
  put(w, rb_field, s.index);
  return w;
}
RawInst popc(Gpr d, Ureg s) {
  RawInst w = base(0xd09, uniform_page);
  put(w, rd_field, d.index);
  put(w, urb_field, s.index);
  return w;
}
RawInst elect(Pred d) {
  RawInst w = base(0x82f, 0);
  put(w, urd_field, URZ.index);
  put(w, pu_field, d.index);
  put(w, pp_field, PT.index);
  return w;
}

RawInst ldc(Gpr d, uint8_t bank, uint16_t offset, Size size) {
  check_size(d, size);
  RawInst w = base(0xb82, size_bits(size));
  put(w, rd_field, d.index);
  put(w, ra_field, RZ.index);
  put(w, bits(53, 38), offset);
  put(w, bits(58, 54), bank);
  return w;
}
RawInst uldc(Ureg d, uint8_t bank, uint16_t offset, Size size) {
  check_size(d, size);
  RawInst w = base(0xab9, size_bits(size));
  put(w, urd_field, d.index);
  put(w, bits(53, 38), offset);
  put(w, bits(58, 54), bank);
  return w;
}

namespace {
RawInst load(uint16_t op, uint64_t hi, Gpr d, Size size) {
  check_size(d, size);
  RawInst w = base(op, hi | cache_normal | no_predicate_out | wide_address | size_bits(size));
  put(w, rd_field, d.index);
  return w;
}
}  // namespace

RawInst ldg(Gpr d, VectorAddress address, Size size) { return at(load(0x381, 0, d, size), address); }
RawInst ldg(Gpr d, UniformAddress address, Size size) {
  return at(load(0x981, uniform_page, d, size), address, urb_field);
}
RawInst ldg_desc(Gpr d, Ureg desc, VectorAddress address, Size size) {
  check_tuple(desc.index, 2, URZ.index);
  RawInst w = at(load(0x981, 0xc001000, d, size),
                 address);  // bits 91, 90 (64-bit vector address) and 76 (descriptor)
  put(w, urb_field, desc.index);
  return w;
}
RawInst stg(UniformAddress address, Gpr data, Size size) {
  return at(with_data(base(0x986, uniform_page | cache_normal | wide_address | size_bits(size)), data, size),
            address, urc_field);
}
RawInst stg(VectorAddress address, Gpr data, Size size) {
  return at(with_data(base(0x386, cache_normal | wide_address | size_bits(size)), data, size), address);
}

RawInst ldl(Gpr d, UniformAddress address, Size size) {
  check_size(d, size);
  RawInst w = base(0x983, uniform_page | cache_normal | size_bits(size));
  put(w, rd_field, d.index);
  return at(w, address, urb_field);
}
RawInst stl(UniformAddress address, Gpr data, Size size) {
  return at(with_data(base(0x987, uniform_page | cache_normal | size_bits(size)), data, size), address, urc_field);
}

namespace {
constexpr uint64_t red_u32 = 0, red_u64 = 2u << 9;
RawInst red_add(UniformAddress address, Gpr data, uint64_t type, Size size) {
  return at(
      with_data(base(0x98e, uniform_page | cache_normal | strong_gpu | wide_address | type), data, size),
      address, urc_field);
}
RawInst red_add(VectorAddress address, Gpr data, uint64_t type, Size size) {
  return at(with_data(base(0x98e, cache_normal | strong_gpu | wide_address | type), data, size), address);
}
}  // namespace

RawInst red_add_u32(UniformAddress address, Gpr data) { return red_add(address, data, red_u32, Size::b32); }
RawInst red_add_u64(UniformAddress address, Gpr data) { return red_add(address, data, red_u64, Size::b64); }
RawInst red_add_u32(VectorAddress address, Gpr data) { return red_add(address, data, red_u32, Size::b32); }
RawInst red_add_u64(VectorAddress address, Gpr data) { return red_add(address, data, red_u64, Size::b64); }

RawInst bra(uint32_t pc, int64_t target) {
  RawInst w = base(0x947, 0x3800000);
  const int64_t distance = target - (int64_t{pc} + inst_bytes);
  XT_CHECK(distance % 4 == 0, "branch target is not a multiple of 4 bytes");
  const uint64_t units = static_cast<uint64_t>(distance / 4);  // 56 bits signed: always fits
  put(w, bits(23, 16), units & 0xff);
  put(w, bits(81, 34), units >> 8 & low_mask(48));
  return w;
}
RawInst nop() { return base(0x918, 0); }
RawInst trap() { return RawInst{0x000000040000795c, 0x0000000000300000}; }   // BPT.TRAP 0x1 [nvdisasm 13.0]
RawInst exit() { return base(0x94d, 0x3800000); }

RawInst with_guard(RawInst w, Pred p, bool negate) {
  put(w, bits(14, 12), p.index);
  put(w, bit(15), negate);
  return w;
}

}  // namespace xtrace::sass::enc
