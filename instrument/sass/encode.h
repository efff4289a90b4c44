// Constructors for the instructions that probe code is made of. Each returns the bare instruction with the
// default control word: stall 1, keep issuing, no barriers, no waits, no reuse. The caller sets the guard
// (with_guard) and the control (set_control); latency classes are its business.
//
// The encodings are those of sm_90 (6-bit uniform registers, URZ = 63); for_arch() gives those of another
// architecture. Fields are checked: an index or immediate that does not fit is an internal error. [measured H200; checked
// against nvdisasm 13 in encode_test.cc]
#pragma once

#include <cstdint>

#include "instrument/sass/arch.h"
#include "instrument/sass/inst.h"

namespace xtrace::sass::enc {

// Register operands, so that a vector register can not be passed for a uniform one.
struct Gpr {
  uint8_t index = 255;
  bool operator==(const Gpr&) const = default;
};
struct Ureg {
  uint8_t index = 63;
  bool operator==(const Ureg&) const = default;
};
struct Pred {
  uint8_t index = 7;
  bool operator==(const Pred&) const = default;
};
inline constexpr Gpr RZ{255};
inline constexpr Ureg URZ{63};
inline constexpr Pred PT{7};

// Special register numbers of S2R, S2UR and CS2R. [measured H200, sass.md 3.3]
enum SpecialReg : uint8_t {
  sr_laneid = 0,
  sr_virtcfg = 2,
  sr_virtid = 3,  // warp id in bits 8..14
  sr_tid_x = 33,
  sr_tid_y = 34,
  sr_tid_z = 35,
  sr_ctaid_x = 37,
  sr_ctaid_y = 38,
  sr_ctaid_z = 39,
  sr_eqmask = 56,
  sr_ltmask = 57,
  sr_virtualsmid = 67,
  sr_clock_lo = 80,
  sr_clock_hi = 81,
  sr_globaltimer_lo = 82,
  sr_globaltimer_hi = 83,
  sr_cga_ctaid = 136,
  sr_zero = 255,
};

// Widths of memory accesses, as the size field counts them.
enum class Size : uint8_t { b32 = 4, b64 = 5, b128 = 6 };

enum class Compare : uint8_t { never = 0, lt = 1, eq = 2, le = 3, gt = 4, ne = 5, ge = 6, always = 7 };

// [ra.U32 + ur:ur+1 + offset]: 64-bit base in a uniform pair, 32-bit zero-extended lane offset in `ra` (RZ:
// none).
struct UniformAddress {
  Ureg base;
  Gpr lane_offset = RZ;
  int32_t offset = 0;  // 24 bits signed
};
// [ra:ra+1 + offset]
struct VectorAddress {
  Gpr base;
  int32_t offset = 0;  // 24 bits signed
};

// --- moves ---
RawInst mov_imm(Gpr d, uint32_t imm);
RawInst mov(Gpr d, Gpr b);
RawInst mov_from_ur(Gpr d, Ureg b);
RawInst umov_imm(Ureg d, uint32_t imm);
RawInst umov(Ureg d, Ureg b);
RawInst r2ur(Ureg d, Gpr a);        // fixed latency; the value of the lowest active lane
RawInst r2ur_differs(Ureg d, Pred other, Gpr a);   // and in which lanes there is another one [measured H200]
RawInst s2r(Gpr d, uint8_t sr);     // variable latency
RawInst s2ur(Ureg d, uint8_t sr);   // variable latency
RawInst cs2r32(Gpr d, uint8_t sr);  // fixed latency
RawInst cs2r64(Gpr d, uint8_t sr);  // fixed latency; writes d and d+1, d even

// --- vector arithmetic ---
RawInst iadd3(Gpr d, Gpr a, Gpr b, Gpr c);
RawInst iadd3_imm(Gpr d, Gpr a, uint32_t imm, Gpr c);             // d = a + imm + c
RawInst iadd3_carry_out(Gpr d, Pred carry, Gpr a, Gpr b, Gpr c);  // low half of a 64-bit sum
RawInst iadd3_carry_out_imm(Gpr d, Pred carry, Gpr a, uint32_t imm, Gpr c);
RawInst iadd3_carry_in(Gpr d, Gpr a, Gpr b, Gpr c, Pred carry);  // high half (IADD3.X)
RawInst iadd3_from_ur(Gpr d, Gpr a, Ureg b, Gpr c);
RawInst imad(Gpr d, Gpr a, Gpr b, Gpr c);
RawInst imad_imm(Gpr d, Gpr a, uint32_t imm, Gpr c);           // d = a * imm + c, low 32 bits
RawInst imad_ur(Gpr d, Gpr a, Ureg b, Gpr c);
RawInst imad_wide_u32_imm(Gpr d, Gpr a, uint32_t imm, Gpr c);  // d:d+1 = a * imm + c:c+1
RawInst lop3(Gpr d, Gpr a, Gpr b, Gpr c, uint8_t lut);
RawInst lop3_imm(Gpr d, Gpr a, uint32_t imm, Gpr c, uint8_t lut);
RawInst lop3_imm_any(Gpr d, Pred any, Gpr a, uint32_t imm, Gpr c, uint8_t lut);   // any = d is not 0
RawInst lop3_ur(Gpr d, Gpr a, Ureg b, Gpr c, uint8_t lut);
RawInst shf_r_u32_hi_imm(Gpr d, Gpr c, uint8_t shift);                       // d = c >> shift
RawInst shf_l_u32_imm(Gpr d, Gpr a, uint8_t shift);                          // d = a << shift
RawInst lea_imm(Gpr d, Gpr a, uint32_t imm, uint8_t shift);                  // d = (a << shift) + imm
RawInst prmt_imm(Gpr d, Gpr a, uint32_t selector, Gpr c);                    // d = bytes of c:a by selector nibbles
RawInst isetp_imm(Pred d, Compare op, bool is_signed, Gpr a, uint32_t imm);  // d = a op imm
RawInst isetp(Pred d, Compare op, bool is_signed, Gpr a, Gpr b);
RawInst isetp_ur(Pred d, Compare op, bool is_signed, Gpr a, Ureg b);
RawInst sel_imm(Gpr d, Gpr a, uint32_t imm, Pred p);  // d = p ? a : imm
RawInst sel_imm_unless(Gpr d, Gpr a, uint32_t imm, Pred p);   // d = p ? imm : a
RawInst p2r(Gpr d, uint8_t mask);                     // d = predicates P0..P6 under `mask`
RawInst r2p(Gpr a, uint8_t mask);                     // predicates under `mask` = bits of a

// --- uniform arithmetic ---
RawInst uiadd3(Ureg d, Ureg a, Ureg b, Ureg c);
RawInst uiadd3_imm(Ureg d, Ureg a, uint32_t imm, Ureg c = URZ);
RawInst uimad(Ureg d, Ureg a, Ureg b, Ureg c);  // low 32 bits
RawInst uimad_imm(Ureg d, Ureg a, uint32_t imm, Ureg c);
RawInst uimad_wide_u32(Ureg d, Ureg a, Ureg b, Ureg c);  // d:d+1 = a * b + c:c+1
RawInst uimad_wide_u32_imm(Ureg d, Ureg a, uint32_t imm, Ureg c);
RawInst ulop3(Ureg d, Ureg a, Ureg b, Ureg c, uint8_t lut);
RawInst ulop3_imm(Ureg d, Ureg a, uint32_t imm, Ureg c, uint8_t lut);
RawInst ushf_r_u32_hi_imm(Ureg d, Ureg c, uint8_t shift);  // d = c >> shift
RawInst ushf_l_u32_imm(Ureg d, Ureg a, uint8_t shift);     // d = a << shift

// --- across the warp ---
RawInst vote_any(Gpr d, Pred p);  // d = mask of active lanes whose p holds
RawInst vote_any_active(Gpr d);   // d = mask of active lanes
RawInst voteu_any(Ureg d, Pred p);
RawInst popc(Gpr d, Gpr s);         // bits that are set; variable latency
RawInst popc(Gpr d, Ureg s);
RawInst elect(Pred d);  // d holds in exactly one active lane

// --- memory ---
RawInst ldc(Gpr d, uint8_t bank, uint16_t offset, Size size = Size::b32);    // variable latency
RawInst uldc(Ureg d, uint8_t bank, uint16_t offset, Size size = Size::b32);  // fixed latency
RawInst ldg(Gpr d, VectorAddress address, Size size);
RawInst ldg(Gpr d, UniformAddress address, Size size);
RawInst ldg_desc(Gpr d, Ureg desc, VectorAddress address, Size size);
RawInst stg(UniformAddress address, Gpr data, Size size);
RawInst stg(VectorAddress address, Gpr data, Size size);
RawInst ldl(Gpr d, UniformAddress address, Size size);   // local memory
RawInst stl(UniformAddress address, Gpr data, Size size);
RawInst red_add_u32(UniformAddress address, Gpr data);
RawInst red_add_u64(UniformAddress address, Gpr data);
RawInst red_add_u32(VectorAddress address, Gpr data);
RawInst red_add_u64(VectorAddress address, Gpr data);

// --- control ---
RawInst trap();
RawInst bra(uint32_t pc, int64_t target);  // unconditional; both are byte offsets in the section
RawInst nop();
RawInst exit();

// The word of sm_90, as one of these constructors makes it, for another architecture: uniform registers have 8 bits from sm_100
// on; in front of sm_90 branches are coded otherwise, and R2UR has another opcode and variable latency; sm_75 codes the order
// of global accesses otherwise. exists() is false for what the architecture does not have: ELECT in front of sm_90, memory
// descriptors on sm_75.
RawInst for_arch(const Arch& arch, RawInst w);
bool exists(const Arch& arch, const RawInst& w);

// The same instruction under a guard: @P, or @!P with `negate`. On uniform-datapath instructions the guard is
// a uniform predicate of that index.
RawInst with_guard(RawInst w, Pred p, bool negate = false);

}  // namespace xtrace::sass::enc
