// Forms that random kernels (tests/random/) found refused or wrong. Expected values are written down; that they
// are the hardware's the digests of those kernels show.
#include <gtest/gtest.h>

#include <bit>

#include "tests/unit/interp/machine.h"

namespace xtrace::interp_test {
namespace {

TEST(RareForms, PackedIntegers) {
  Machine m;
  m.set(13, 0x0001ffff);
  m.set(12, 0x00020001);
  EXPECT_EQ(m.run(0x0000000c0d127236, 0x000fe40000000200, "VIADD.16x2 R18, R13, R12"), "");
  EXPECT_EQ(m.r(18)[3], 0x00030000u) << "no carry between the halves";
  EXPECT_EQ(m.run(0x8000000c0d127236, 0x000fe40000000200, "VIADD.16x2 R18, R13, -R12"), "");
  EXPECT_EQ(m.r(18)[3], 0xfffffffeu);
  m.set(19, 0x01ff8000);
  m.set(17, 0x03fe0002);
  m.set(6, 100);
  EXPECT_EQ(m.run(0x0000001113057215, 0x000fe400000e0006, "VABSDIFF4.U8 R5, R19, R17, R6"), "");
  EXPECT_EQ(m.r(5)[0], 0x02018002u) << "without .ACC the third operand does not count";
  EXPECT_EQ(m.run(0x0000001113057215, 0x000fc400000e0806, "VABSDIFF4.U8 R5, R19, R17, R6"), "");
  EXPECT_EQ(m.r(5)[0], 100u + 2 + 1 + 128 + 2);
}

TEST(RareForms, WideProducts) {
  Machine m;
  m.p(0) = 0x2;
  m.set(7, 0xffffffff);
  m.set(28, 0xffffffff);  // with the square's low word 1 this carries, and with the predicate once more does not
  m.set(29, 5);
  EXPECT_EQ(m.run(0x0000000707087227, 0x001fca00000e041c, "IMAD.HI.U32.X R8, R7, R7, R28, P0"), "");
  EXPECT_EQ(m.r(8)[0], 0xfffffffeu + 5 + 1);
  m.set(28, 0xfffffffe);
  EXPECT_EQ(m.run(0x0000000707087227, 0x001fca00000e041c), "");
  EXPECT_EQ(m.r(8)[0], 0xfffffffeu + 5) << "P0 is not set";
  EXPECT_EQ(m.r(8)[1], 0xfffffffeu + 5 + 1) << "P0 is set";
  m.set(5, 3);
  m.set(14, 10);
  m.set(15, 0);
  EXPECT_EQ(m.run(0x00000005050e7225, 0x000fc800078e0a0e, "IMAD.WIDE R14, R5, R5, -R14"), "");
  EXPECT_EQ(m.r(14)[0], 0xffffffffu);
  EXPECT_EQ(m.r(15)[0], 0xffffffffu);
}

TEST(RareForms, CarryOfANegatedShift) {
  Machine m;
  m.set_each(10, [](unsigned l) { return l; });  // times 32
  m.set(15, 64);
  EXPECT_EQ(m.run(0x0000000f0aff7211, 0x000fe400078029ff, "LEA RZ, P0, -R10, R15, 0x5"), "");
  EXPECT_EQ(m.p(0), 0x7u) << "64 >= 32 * lane, for lane 0 too";
}

// Where the result is the first operand: of 32 bits both predicates, of packed numbers one for each half.
TEST(RareForms, PredicatesOfAMaximum) {
  Machine m;
  m.set_each(4, [](unsigned l) { return l - 2; });
  EXPECT_EQ(m.run(0x0000000404ff7248, 0x020fe20007801100, "VIMNMX.RELU RZ, P0, P0, R4, R4, !PT"), "");
  EXPECT_EQ(m.p(0), 0xfffffffcu) << "what is below 0 is not kept";
  m.set(8, 0x0001fffe);
  m.set(24, 0x0000ffff);
  EXPECT_EQ(m.run(0x0000001808287248, 0x000fe20007d80300, "VIMNMX.S16x2 R40, P4, P5, R8, R24, !PT"), "");
  EXPECT_EQ(m.r(40)[3], 0x0001ffffu);
  EXPECT_EQ(m.p(4), 0u) << "-1, not -2";
  EXPECT_EQ(m.p(5), ~0u) << "1, not 0";
  EXPECT_EQ(m.run(0x0000001808287248, 0x000fe20007d80100, "VIMNMX R40, P4, P5, R8, R24, !PT"), "");
  EXPECT_EQ(m.p(4), ~0u);
  EXPECT_EQ(m.p(5), ~0u);
}

// A minus turns numbers around; what is no number keeps its sign.
TEST(RareForms, NegatedDoublePrecisionToHalf) {
  Machine m;
  const auto half_of_minus = [&](uint32_t hi, uint32_t lo) {
    m.set(16, lo);
    m.set(17, hi);
    EXPECT_EQ(m.run(0x80000010000e7310, 0x000e680000300800, "F2F.F16.F64 R14, -R16"), "");
    return m.r(14)[4];
  };
  EXPECT_EQ(half_of_minus(0x3ff00000, 0), 0xbc00u);
  EXPECT_EQ(half_of_minus(0x7ff00000, 0), 0xfc00u);
  EXPECT_EQ(half_of_minus(0x7ff00000, 0x477fe000), 0x7e00u);
  EXPECT_EQ(half_of_minus(0xffffffff, 0x11990da7), 0xffffu);
}

TEST(RareForms, HalfPrecision) {
  Machine m;
  m.set(14, 0x3f807fc0);  // 1, not a number
  m.set(15, 0x40004000);  // 2, 2
  m.set(9, 0xc0403f80);   // -3, 1
  EXPECT_EQ(m.run(0x0000000f0e147247, 0x000fca0007a00009, "VHMNMX.BF16_V2 R20, R14, R15, R9, !PT"), "");
  EXPECT_EQ(m.r(20)[2], 0x40004000u);
  EXPECT_EQ(m.run(0x0000000f0e147247, 0x000fca0007a20009, "VHMNMX.BF16_V2.NAN R20, R14, R15, R9, !PT"), "");
  EXPECT_EQ(m.r(20)[2], 0x40007fffu) << "what is no number wins";
  m.set(6, 0x80000000);
  m.set(7, 0);
  m.set(12, 0x80008000);
  EXPECT_EQ(m.run(0x0000000706097231, 0x000fe2000380800c, "HFMA2.RELU R9, R6, R7, R12"), "");
  EXPECT_EQ(m.r(9)[0], 0u) << "-0 becomes +0";
  m.set(7, 0xffff4101);  // 2.502
  EXPECT_EQ(m.run(0x0000000700107307, 0x000fe20000100800, "FRND.F16 R16, R7"), "");
  EXPECT_EQ(m.r(16)[5], 0x4200u) << "the upper half is zero";
  m.set(30, 0xc2000000);  // -3 above 0
  EXPECT_EQ(m.run(0x1000001e00007305, 0x000e22000010e900, "F2I.S16.F16.TRUNC.NTZ R0, R30.H1"), "");
  EXPECT_EQ(m.r(0)[5], 0xfffffffdu);
}

TEST(RareForms, EightBitNumbers) {
  Machine m;
  m.set(3, 0xffff7e38);  // 448, 1
  EXPECT_EQ(m.run(0x00000003ff0a723e, 0x000fe200020006ff, "F2FP.F16.E4M3.UNPACK_B R10, R3"), "");
  EXPECT_EQ(m.r(10)[0], 0x5f003c00u);
  m.set(16, 0x00007c80);  // infinity, -0
  EXPECT_EQ(m.run(0x00000010ff03723e, 0x020fe200020004ff, "F2FP.F16.E5M2.UNPACK_B R3, R16"), "");
  EXPECT_EQ(m.r(3)[0], 0x7c008000u);
  m.set(2, std::bit_cast<uint32_t>(1000.0f));
  m.set(4, std::bit_cast<uint32_t>(-0.4375f));
  m.set(5, 0xabcd1234);
  EXPECT_EQ(m.run(0x000000040200723e, 0x000fc60004807005, "F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C R0, R2, R4, R5"), "");
  EXPECT_EQ(m.r(0)[0], 0x12347eaeu) << "1000 is beyond 448";
  m.set(7, 0xfc003c00);  // -infinity, 1
  EXPECT_EQ(m.run(0x00000007ff09723e, 0x000fc800048022ff, "F2FP.SATFINITE.E5M2.F16.UNPACK_B_MERGE_C R9, R7, RZ"), "");
  EXPECT_EQ(m.r(9)[0], 0x0000fb3cu);
}

TEST(RareForms, Conversions) {
  Machine m;
  m.set(16, 0x477fe000);
  m.set(17, 0xfff83c00);
  EXPECT_EQ(m.run(0x0000001000087310, 0x000e220000300800, "F2F.F16.F64 R8, R16"), "");
  EXPECT_EQ(m.r(8)[0], 0xfe0fu) << "sign and what fits of the payload stay";
  m.set(7, std::bit_cast<uint32_t>(-1.0001f));
  EXPECT_EQ(m.run(0x0000000700077304, 0x000e220000204800, "F2F.F16.F32.RM R7, R7"), "");
  EXPECT_EQ(m.r(7)[0], 0xbc01u);
  m.set(26, std::bit_cast<uint32_t>(-1.0001f));
  EXPECT_EQ(m.run(0x0000001a000b7304, 0x010e220000208800, "F2F.F16.F32.RP R11, R26"), "");
  EXPECT_EQ(m.r(11)[0], 0xbc00u);
  m.set(26, std::bit_cast<uint32_t>(-70000.0f));
  EXPECT_EQ(m.run(0x0000001a000b7304, 0x010e220000208800), "");
  EXPECT_EQ(m.r(11)[0], 0xfbffu) << "up from below the least number";
  m.set(28, 0xffffffff);
  m.set(29, 0xff7fffff);  // -(2^55 + 1)
  EXPECT_EQ(m.run(0x0000001c00187312, 0x001064000030dc00, "I2F.F64.S64.RZ R24, R28"), "");
  EXPECT_EQ(uint64_t{m.r(25)[0]} << 32 | m.r(24)[0], std::bit_cast<uint64_t>(-0x1p55));
  EXPECT_EQ(m.run(0x0000001c00187312, 0x0010640000305c00, "I2F.F64.S64.RM R24, R28"), "");
  EXPECT_EQ(uint64_t{m.r(25)[0]} << 32 | m.r(24)[0], std::bit_cast<uint64_t>(-0x1p55 - 8));
}

TEST(RareForms, BrainFloatToSingle) {
  Machine m;
  m.set(18, 0x3fc0c040);
  EXPECT_EQ(m.run(0x0000001200127304, 0x000fe20000401000, "F2F.F32.BF16 R18, R18"), "");
  EXPECT_EQ(m.r(18)[7], 0xc0400000u) << "the lower half";
  m.set(18, 0x3fc07fc0);
  EXPECT_NE(m.run(0x0000001200127304, 0x000fe20000401000), "") << "not a number";
}

TEST(RareForms, SinglePrecision) {
  Machine m;
  m.set(6, std::bit_cast<uint32_t>(-2.0f));
  m.set(17, std::bit_cast<uint32_t>(1.0f));
  EXPECT_EQ(m.run(0x4000001106117209, 0x002fe20003840200, "FMNMX.XORSIGN R17, |R6|, |R17|, PT"), "");
  EXPECT_EQ(m.r(17)[0], std::bit_cast<uint32_t>(-1.0f));
  m.set(17, std::bit_cast<uint32_t>(-1.0f));
  EXPECT_EQ(m.run(0x0000001106117209, 0x002fe20003840000, "FMNMX.XORSIGN R17, R6, R17, PT"), "");
  EXPECT_EQ(m.r(17)[0], std::bit_cast<uint32_t>(2.0f)) << "the sign of what wins does not count";
  // a * a - a, just above -2^-126: rounded to 24 bits it is the least normal number, and is not flushed.
  m.set(0, 0x00800000);
  EXPECT_EQ(m.run(0x0000000000067223, 0x000fca0000010800, "FFMA.FTZ R6, R0, R0, -R0"), "");
  EXPECT_EQ(m.r(6)[0], 0x80800000u);
  // 2^-126 less 2^-150: 24 bits hold it, the subnormal numbers do not.
  m.set(0, 0x3f7fffff);
  m.set(1, 0x00800000);
  EXPECT_EQ(m.run(0x0000000100067220, 0x000fe20000410000, "FMUL.FTZ R6, R0, R1"), "");
  EXPECT_EQ(m.r(6)[0], 0u);
}

TEST(RareForms, ValueOfAWarp) {
  Machine m;
  m.set_each(10, [](unsigned l) { return l == 4 || l == 9 ? 7u : 5u; });
  EXPECT_EQ(m.run(0x000000000a3f72ca, 0x000fda0000020000, "R2UR P1, URZ, R10"), "");
  EXPECT_EQ(m.p(1), 0x210u) << "lanes that have another value";
}

TEST(RareForms, SharedCounters) {
  Machine m;
  m.set_each(21, [](unsigned l) { return l % 4 == 0 ? 8u : 4u; });
  m.p(2) = 0x0000ffff;
  EXPECT_EQ(m.run(0x0000000015ff2f8c, 0x0001e6000d80003f, "@P2 ATOMS.POPC.INC.32 RZ, [R21+URZ]"), "");
  EXPECT_EQ(*read_at<uint32_t>(m.cta.shared, 8, "word"), 4u);
  EXPECT_EQ(*read_at<uint32_t>(m.cta.shared, 4, "word"), 12u);
}

TEST(RareForms, IndexedUniformConstants) {
  Machine m;
  m.program.banks.bytes[3].resize(0x400);
  write_at(std::span(m.program.banks.bytes[3]), 8, uint32_t{77});
  m.set_ur(4, 8);
  EXPECT_EQ(m.run(0x00c0000004047abb, 0x000fe40008000800, "ULDC UR4, c[0x3][UR4]"), "");
  EXPECT_EQ(m.ur(4)[0], 77u);
}

}  // namespace
}  // namespace xtrace::interp_test
