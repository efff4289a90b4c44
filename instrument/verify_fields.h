// What the verifier reads of inserted words. Not sass/encode.h, by which the probes wrote them: who checks reads for himself.
// [nvdisasm 13.0; sass.md]
#pragma once

#include "base/bits.h"

namespace xtrace::instrument::fields {

// Opcodes of sass::opcode13, but those marked: bits [11:0].
constexpr uint16_t stg_uniform = 0x1986;   // STG [R.U32+UR+offset], R
constexpr uint16_t mov_reg = 0x202, mov_imm = 0x802, mov_ur = 0x1c02, imad_imm = 0x824, lop3_reg = 0x212, lop3_imm = 0x812,
                   lop3_ur = 0x1c12, shf_imm = 0x819;
constexpr uint16_t p2r = 0x803, vote = 0x806, voteu = 0x886, r2ur = 0x2ca, s2r = 0x919;
constexpr uint16_t cs2r = 0x805, uiadd3_imm = 0x890, ushf_imm = 0x899, uimad_imm = 0x8a4, isetp_ur = 0xc0c,
                   iadd3_imm = 0x810, umov_imm = 0x882, sel_imm = 0x807;   // [11:0]

constexpr BitRange guard_field = bits(15, 12), result_field = bits(23, 16), to_uniform_field = bits(21, 16);
constexpr BitRange a_field = bits(31, 24), b_field = bits(39, 32), c_field = bits(71, 64);   // of a store a: lanes, b: data
constexpr BitRange ur_field = bits(37, 32), imm_field = bits(63, 32), shift_field = bits(39, 32);
constexpr BitRange place_field = bits(63, 40), size_field = bits(75, 73);                    // of a store
constexpr BitRange lut_field = bits(79, 72), shf_field = bits(80, 73), special_field = bits(79, 72);
constexpr BitRange mode_field = bits(73, 72), vote_field = bits(90, 87);                     // of a vote
constexpr BitRange predicate_field = bits(83, 81), compare_field = bits(78, 76);

constexpr uint8_t no_register = 255, always = 7;
constexpr uint64_t size_32 = 4, size_64 = 5, size_128 = 6, vote_any = 1, not_equal = 5;
constexpr uint64_t lane_number = 0, clock_lo = 80, globaltimer_lo = 82;                      // special registers
constexpr uint64_t shf_r_u32_hi = 0x8b, shf_l_u32 = 0x3;
constexpr uint64_t lut_and = 0xc0, lut_and_or = 0xea, lut_select = 0xca;   // a & b; (a & b) | c; a ? b : c

}  // namespace xtrace::instrument::fields
