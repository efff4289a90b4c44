// Single operations: words as ptxas emits them, values in, values out.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/unit/interp/row.h"

namespace xtrace::interp_test {
namespace {

TEST(Operations, Integer) {
  const Row rows[] = {
      {"IADD3 R0, -R2, RZ, RZ", 0x000000ff02007210, 0x000fca0007ffe1ff, {{2, 5}}, {{0, 0xfffffffb}}},
      {"IADD3.X R5, R3, UR4, RZ, P1, !PT",
       0x0000000403057c10,
       0x000fe20008ffe4ff,
       {{3, 7}},
       {{5, 8}},
       {{1, ~0u}}},
      {"IMAD.HI R58, R15, 0x78787879, RZ",
       0x787878790f3a7827,
       0x000fe200078e02ff,
       {{15, 0xffffff00}},
       {{58, 0xffffff87}}},
      {"IMAD.HI.U32 R12, R12, 0x13, RZ",
       0x000000130c0c7827,
       0x000fe200078e00ff,
       {{12, 0xffffff00}},
       {{12, 18}}},
      {"IMAD.MOV R6, RZ, RZ, -R0", 0x000000ffff067224, 0x000fc800078e0a00, {{0, 9}}, {{6, 0xfffffff7}}},
      {"IMAD.X R5, R2, 0x1, R3, P0",
       0x0000000102057824,
       0x000fe200000e0603,
       {{2, 3}, {3, 4}},
       {{5, 8}},
       {{0, ~0u}}},
      {"IMAD.WIDE R2, R5, 0x4, R2",
       0x0000000405027825,
       0x001fca00078e0202,
       {{5, 0xffffffff}, {2, 1}, {3, 1}},
       {{2, 0xfffffffd}, {3, 0}}},
      {"IMAD.WIDE.U32 R4, R4, R13, RZ",
       0x0000000d04047225,
       0x004fc600078e00ff,
       {{4, 0xffffffff}, {13, 0xffffffff}},
       {{4, 1}, {5, 0xfffffffe}}},
      {"LEA R13, R2, R13, 0x4", 0x0000000d020d7211, 0x000fe200078e20ff, {{2, 3}, {13, 5}}, {{13, 53}}},
      {"LEA.HI R0, R0, R7, RZ, 0x2",
       0x0000000700007211,
       0x000fca00078f10ff,
       {{0, 0xc0000000}, {7, 10}},
       {{0, 13}}},
      {"LEA.HI.X R3, R4, UR5, R5, 0x3, P0",
       0x0000000504037c11,
       0x000fe200080f1c05,
       {{4, 0xe0000000}, {5, 1}},
       {{3, 16}},
       {{0, ~0u}}},
      {"VIADD R0, R0, UR4", 0x0000000400007c36, 0x000fe20008000000, {{0, 41}}, {{0, 41}}},
      {"VIMNMX.U32 R2, R2, 0x2, PT", 0x0000000202027848, 0x000fca0003fe0000, {{2, 0xffffffff}}, {{2, 2}}},
      {"VIMNMX R38, R7, UR5, !PT", 0x0000000507267c48, 0x000fe2000ffe0100, {{7, 0xffffffff}}, {{38, 0}}},
      {"VIADDMNMX R9, R2, 0x2, R7, PT",
       0x0000000202097846,
       0x000fe20003800107,
       {{2, 0xfffffff0}, {7, 1}},
       {{9, 0xfffffff2}}},
      {"VIADDMNMX.U32 R2, R2, R3, 0x2, PT",
       0x0000000202027446,
       0x000fca0003800003,
       {{2, 0xfffffff0}, {3, 5}},
       {{2, 2}}},
      {"IABS R7, R140", 0x0000008c00077213, 0x000fe20000000000, {{140, 0xfffffffd}}, {{7, 3}}},
      {"IABS R7, R140", 0x0000008c00077213, 0x000fe20000000000, {{140, 0x80000000}}, {{7, 0x80000000}}},
  };
  for (const Row& row : rows) check(row);
}

// Carries: 64-bit sums in two instructions, and one that runs over twice.
TEST(Operations, Carries) {
  Machine m;
  m.set(0, 0xffffffff);
  m.set(2, 1);
  EXPECT_EQ(m.run(0x0000000200047210, 0x000fca0007f1e0ff, "IADD3 R4, P0, R0, R2, RZ"), "");
  EXPECT_EQ(m.p(0), ~0u);
  EXPECT_EQ(m.r(4)[7], 0u);
  m.set(2, 0);
  EXPECT_EQ(m.run(0x0000000200047210, 0x000fca0007f1e0ff), "");
  EXPECT_EQ(m.p(0), 0u);
  // a - 0 carries: there is no borrow.
  EXPECT_EQ(m.run(0x8000000200047210, 0x000fca0007f1e0ff, "IADD3 R4, P0, R0, -R2, RZ"), "");
  EXPECT_EQ(m.p(0), ~0u);
  m.set(2, 0xffffffff);
  m.set(3, 0xffffffff);
  m.set_ur(4, 0xffffffff);
  EXPECT_EQ(m.run(0x0000000402067c10, 0x001fc8000f91e003, "IADD3 R6, P0, P1, R2, UR4, R3"), "");
  EXPECT_EQ(m.r(6)[3], 0xfffffffdu);
  EXPECT_EQ(m.p(0), ~0u);
  EXPECT_EQ(m.p(1), ~0u);
  // The upper half of 0x5'00000000 - 0x2'00000001.
  m.p(0) = 0;  // the lower half borrowed
  m.set(5, 5);
  m.set(4, 2);
  EXPECT_EQ(m.run(0x8000000405087210, 0x000fe200007fe4ff, "IADD3.X R8, R5, ~R4, RZ, P0, !PT"), "");
  EXPECT_EQ(m.r(8)[11], 2u);
  // LEA: the carry of the sum, not of the shift.
  m.set(2, 0x40000000);
  m.set_ur(4, 4);
  EXPECT_EQ(m.run(0x0000000402027c11, 0x000fc8000f8010ff, "LEA R2, P0, R2, UR4, 0x2"), "");
  EXPECT_EQ(m.r(2)[0], 4u);
  EXPECT_EQ(m.p(0), 0u);
}

TEST(Operations, LogicAndShifts) {
  const Row rows[] = {
      {"LOP3.LUT R0, R0, R7, RZ, 0xc0, !PT",
       0x0000000700007212,
       0x000fca00078ec0ff,
       {{0, 0xff00ff00}, {7, 0x0ff00ff0}},
       {{0, 0x0f000f00}}},
      {"LOP3.LUT R0, R0, R7, RZ, 0x3c, !PT",
       0x0000000700007212,
       0x000fca00078e3cff,
       {{0, 0xff00ff00}, {7, 0x0ff00ff0}},
       {{0, 0xf0f0f0f0}}},
      {"PRMT R15, R19, R28, R22",
       0x0000001c130f7216,
       0x000fe20000000016,
       {{19, 0x83020100}, {22, 0x07060504}, {28, 0x0b74}},
       {{15, 0x00ff0704}}},
      {"SHF.L.U32 R5, R4, R5, RZ",
       0x0000000504057219,
       0x000fe400000006ff,
       {{4, 3}, {5, 31}},
       {{5, 0x80000000}}},
      {"SHF.L.U32 R5, R4, R5, RZ", 0x0000000504057219, 0x000fe400000006ff, {{4, 3}, {5, 32}}, {{5, 0}}},
      {"SHF.L.U32.HI R7, R3, 0x2, R2",
       0x0000000203077819,
       0x000fc80000010602,
       {{3, 0xc0000000}, {2, 1}},
       {{7, 7}}},
      {"SHF.L.U64.HI R0, R2, 0x2, R3",
       0x0000000202007819,
       0x000fce0000010203,
       {{2, 0x80000000}, {3, 1}},
       {{0, 6}}},
      {"SHF.R.S32.HI R7, RZ, 0x1f, R0",
       0x0000001fff077819,
       0x000fc80000011400,
       {{0, 0x80000001}},
       {{7, ~0u}}},
      {"SHF.R.U32.HI R7, RZ, R7, R4",
       0x00000007ff077219,
       0x000fe40000011604,
       {{7, 4}, {4, 0xf0}},
       {{7, 0xf}}},
      {"SHF.R.U32.HI R7, RZ, R7, R4", 0x00000007ff077219, 0x000fe40000011604, {{7, 77}, {4, 0xf0}}, {{7, 0}}},
      {"SGXT.U32 R5, R98, 0x6", 0x000000066205781a, 0x000fe20000000000, {{98, 0xffffffff}}, {{5, 0x3f}}},
      {"FLO.U32 R26, R34", 0x00000022001a7300, 0x000fe200000e0000, {{34, 0x00010000}}, {{26, 16}}},
      {"FLO.U32 R26, R34", 0x00000022001a7300, 0x000fe200000e0000, {{34, 0}}, {{26, ~0u}}},
      {"FLO.U32.SH R15, R28", 0x0000001c000f7300, 0x000fe200000e0400, {{28, 0x00010000}}, {{15, 15}}},
      {"BREV R4, R91", 0x0000005b00047301, 0x000fe20000000000, {{91, 0x00000013}}, {{4, 0xc8000000}}},
      {"SEL R7, R7, RZ, P2", 0x000000ff07077207, 0x000fe40001000000, {{7, 5}}, {{7, 5}}, {{2, ~0u}}},
      {"SEL R7, R7, RZ, P2", 0x000000ff07077207, 0x000fe40001000000, {{7, 5}}, {{7, 0}}, {{2, 0}}},
  };
  for (const Row& row : rows) check(row);
  Machine m;  // POPC takes its operand by lanes
  m.set_each(6, [](unsigned l) { return (1u << l) - 1; });
  EXPECT_EQ(m.run(0x0000000600057309, 0x000e680000000000, "POPC R5, R6"), "");
  for (unsigned l = 0; l < 32; ++l) EXPECT_EQ(m.r(5)[l], l);
}

TEST(Operations, Predicates) {
  const Row rows[] = {
      {"ISETP.GE.AND P0, PT, R6, RZ, PT",
       0x000000ff0600720c,
       0x000fda0003f06270,
       {{6, 0xffffffff}},
       {},
       {{0, ~0u}},
       {{0, 0}}},
      {"ISETP.GE.U32.AND P0, PT, R6, RZ, PT",
       0x000000ff0600720c,
       0x000fda0003f06070,
       {{6, 0xffffffff}},
       {},
       {},
       {{0, ~0u}}},
      {"ISETP.LT.OR P0, PT, R7, R2, P0",
       0x000000020700720c,
       0x000fda0000701670,
       {{7, 3}, {2, 2}},
       {},
       {{0, 0x0f}},
       {{0, 0x0f}}},
      {"ISETP.NE.AND P0, PT, R4, RZ, PT",
       0x000000ff0400720c,
       0x000fda0003f05270,
       {{4, 1}},
       {},
       {},
       {{0, ~0u}}},
      // High words equal: what the low words said stands.
      {"ISETP.GE.AND.EX P5, PT, R21, UR9, PT, P5",
       0x0000000915007c0c,
       0x000fe2000bfa6350,
       {{21, 0}},
       {},
       {{5, 0x3}},
       {{5, 0x3}}},
      {"ISETP.GE.AND.EX P5, PT, R21, UR9, PT, P5",
       0x0000000915007c0c,
       0x000fe2000bfa6350,
       {{21, 0xffffffff}},
       {},
       {{5, 0x3}},
       {{5, 0}}},
      {"PLOP3.LUT P0, PT, P1, P0, PT, 0x2a, 0x0",
       0x000000000000781c,
       0x000fc40000f00572,
       {},
       {},
       {{0, 0xcc}, {1, 0xaa}},
       {{0, ~0x88u}}},
      {"FSETP.GT.AND P0, PT, R7, 100, PT",
       0x42c800000700780b,
       0x000fe20003f04000,
       {{7, f(100.5f)}},
       {},
       {},
       {{0, ~0u}}},
      {"FSETP.GEU.AND P0, PT, R2, -126, PT",
       0xc2fc00000200780b,
       0x000fda0003f0e000,
       {{2, 0x7fc00000}},
       {},
       {},
       {{0, ~0u}}},
      {"FSETP.GT.AND P0, PT, R7, 100, PT",
       0x42c800000700780b,
       0x000fe20003f04000,
       {{7, 0x7fc00000}},
       {},
       {{0, ~0u}},
       {{0, 0}}},
      {"P2R R135, PR, RZ, 0xf",
       0x0000000fff877803,
       0x000fe20000000000,
       {},
       {{135, 0xa}},
       {{1, ~0u}, {3, ~0u}, {4, ~0u}}},
      {"R2P PR, R5.B1, 0xf",
       0x0000000f05007804,
       0x000fe20000001000,
       {{5, 0x1500}},
       {},
       {{1, ~0u}, {4, 0x7}},
       {{0, ~0u}, {1, 0}, {2, ~0u}, {3, 0}, {4, 0x7}}},
  };
  for (const Row& row : rows) check(row);
  // Both results of a comparison.
  Machine both;
  both.p(0) = both.p(1) = 0x5;
  both.set_each(7, [](unsigned l) { return f(99.0f + static_cast<float>(l)); });
  EXPECT_EQ(both.run(0x42c800000700780b, 0x000fe20003824000, "FSETP.GT.AND P1, P0, R7, 100, PT"), "");
  EXPECT_EQ(both.p(1), ~3u);
  EXPECT_EQ(both.p(0), 3u);
  // A guarded comparison leaves the other lanes' bits alone.
  Machine m;
  m.set(4, 1);
  m.p(0) = 0xf0;
  m.p(3) = 0x0f;
  EXPECT_EQ(m.run(0x000000ff0400320c, 0x000fda0003f05270, "@P3 ISETP.NE.AND P0, PT, R4, RZ, PT"), "");
  EXPECT_EQ(m.p(0), 0xffu);
}

TEST(Operations, Uniform) {
  Machine m;
  m.set_ur(14, 0x10);
  m.set_ur(15, 3);
  EXPECT_EQ(m.run(0x0000000e0f0e7291, 0x000fe2000f8ec03f, "ULEA UR14, UR15, UR14, 0x18"), "");
  EXPECT_EQ(m.ur(14)[0], 0x03000010u);
  EXPECT_EQ(m.ur(14)[31], 0x03000010u) << "one value for all lanes";
  m.set_ur(11, 5);
  m.set_ur(22, 7);
  EXPECT_EQ(m.run(0x800000160b0b7290, 0x000fe2000fffe03f, "UIADD3 UR11, UR11, -UR22, URZ"), "");
  EXPECT_EQ(m.ur(11)[4], 0xfffffffeu);
  EXPECT_EQ(m.run(0x000000030b00788c, 0x000fe2000bf26270, "UISETP.GE.AND UP1, UPT, UR11, 0x3, UPT"), "");
  EXPECT_EQ(m.up(1), 0u);
  m.up(0) = ~0u;
  m.set_ur(9, 1);
  EXPECT_EQ(m.run(0x000000093f097290, 0x000fe200087fe43f, "UIADD3.X UR9, URZ, UR9, URZ, UP0, !UPT"), "");
  EXPECT_EQ(m.ur(9)[0], 2u);
  // A uniform instruction runs once for the warp, whatever lanes are active.
  m.warp.paths[0].mask = 0x100;
  m.set_ur(7, 6);
  EXPECT_EQ(m.run(0x0000000407077899, 0x000fc8000800063f, "USHF.L.U32 UR7, UR7, 0x4, URZ"), "");
  EXPECT_EQ(m.ur(7)[0], 96u);
  EXPECT_EQ(m.ur(7)[31], 96u);
}

TEST(Operations, AcrossTheWarp) {
  Machine m;
  m.set_each(0, [](unsigned l) { return 100 + l; });
  EXPECT_EQ(m.run(0x0420000000047989, 0x004e2400000e00ff, "SHFL.UP PT, R4, R0, 0x1, RZ"), "");
  EXPECT_EQ(m.r(4)[0], 100u) << "nothing below: its own";
  EXPECT_EQ(m.r(4)[31], 130u);
  m.set(5, 0x1f);
  m.set_each(20, [](unsigned l) { return l; });
  EXPECT_EQ(m.run(0x0840000014117989, 0x000fe20000020005, "SHFL.DOWN P1, R17, R20, 0x2, R5"), "");
  EXPECT_EQ(m.r(17)[0], 2u);
  EXPECT_EQ(m.r(17)[30], 30u);
  EXPECT_EQ(m.p(1), 0x3fffffffu);
  // Segments of eight lanes.
  m.set(22, 0x181f);
  m.set_each(18, [](unsigned l) { return l; });
  m.set(19, 3);
  EXPECT_EQ(m.run(0x0c00001312127389, 0x000fe20000040016, "SHFL.BFLY P2, R18, R18, R19, R22"), "");
  EXPECT_EQ(m.r(18)[8], 11u);
  m.p(1) = 0xff00;
  m.p(3) = 0xf0f0f0f0;
  EXPECT_EQ(m.run(0x00000000000a7806, 0x000fe200018e0100, "VOTE.ANY R10, PT, P3"), "");
  EXPECT_EQ(m.r(10)[2], 0xf0f0f0f0u);
  EXPECT_EQ(m.run(0x0000000000ff7806, 0x000fe20000820000, "VOTE.ALL P1, P1"), "");
  EXPECT_EQ(m.p(1), 0u);
  m.set_each(29, [](unsigned l) { return l % 3; });
  EXPECT_EQ(m.run(0x000000001d0673a1, 0x000fe200000e8000, "MATCH.ANY R6, R29"), "");
  EXPECT_EQ(m.r(6)[4], 0x92492492u);
  m.set_each(14, [](unsigned l) { return l; });
  EXPECT_EQ(m.run(0x000000000e0473c4, 0x000fe2000000c200, "REDUX.SUM.S32 UR4, R14"), "");
  EXPECT_EQ(m.ur(4)[0], 496u);
  m.warp.paths[0].mask = 0x0ff0;
  EXPECT_EQ(m.run(0x00000000080a72ca, 0x001fe200000e0000, "R2UR UR10, R8"), "");
  m.set_each(8, [](unsigned l) { return l; });
  EXPECT_EQ(m.run(0x00000000080a72ca, 0x001fe200000e0000), "");
  EXPECT_EQ(m.ur(10)[0], 4u) << "the first active lane's";
  m.p(2) = ~0u;
  EXPECT_EQ(m.run(0x00000000003f7886, 0x000fe20001040000, "VOTEU.ALL UP2, P2"), "");
  EXPECT_EQ(m.up(2), ~0u);
  EXPECT_EQ(m.run(0x00000000003f782f, 0x000fe20003840000, "ELECT P2, URZ, PT"), "");
  EXPECT_EQ(std::popcount(m.p(2) & 0x0ff0), 1) << "one of the active lanes";
  // A lane that does not take part has nothing to give.
  EXPECT_NE(m.run(0x0420000000047989, 0x004e2400000e00ff, "SHFL.UP PT, R4, R0, 0x1, RZ"), "");
}

TEST(Operations, ConvergenceBarriersMove) {
  Machine m;
  m.warp.barriers[9].fill(0xf0f0);
  EXPECT_EQ(m.run(0x0000000009037355, 0x000fe20000100000, "BMOV.32.CLEAR R3, B9"), "");
  EXPECT_EQ(m.r(3)[8], 0xf0f0u);
  EXPECT_EQ(m.warp.barriers[9][8], 0u);
  EXPECT_EQ(m.run(0x0000000308007356, 0x000fe20000000000, "BMOV.32 B8, R3"), "");
  EXPECT_EQ(m.warp.barriers[8][8], 0xf0f0u);
  EXPECT_EQ(m.run(0x0000000008037355, 0x000fe20000000000, "BMOV.32 R3, B8"), "");
  EXPECT_EQ(m.warp.barriers[8][8], 0xf0f0u) << "not cleared";
  m.set_each(3, [](unsigned l) { return 0x100 + l; });
  EXPECT_EQ(m.run(0x0000000308007356, 0x000fe20000000000, "BMOV.32 B8, R3"), "");
  EXPECT_EQ(m.warp.barriers[8][31], 0x100u) << "the lowest lane's";
}

TEST(Operations, MatrixTranspose) {
  Machine m;
  // Element (row, column) of the matrix is 16 * row + column.
  m.set_each(22, [](unsigned l) {
    const unsigned row = l / 4, column = 2 * (l % 4);
    return (16 * row + column) | (16 * row + column + 1) << 16;
  });
  EXPECT_EQ(m.run(0x000000001616723a, 0x000fe20000000000, "MOVM.16.MT88 R22, R22"), "");
  for (unsigned l = 0; l < 32; ++l) {
    const unsigned row = l / 4, column = 2 * (l % 4);
    EXPECT_EQ(m.r(22)[l], (16 * column + row) | (16 * (column + 1) + row) << 16) << "lane " << l;
  }
}

TEST(Operations, Memory) {
  Machine m;
  Bytes global(256);
  for (size_t k = 0; k < global.size(); ++k) global[k] = std::byte(k);
  ASSERT_TRUE(m.memory.add(0x700000001000, global, "device region 0"));
  m.set_each(2, [](unsigned l) { return 0x1000 + 4 * l; });
  m.set(3, 0x7000);
  EXPECT_EQ(m.run(0x00000000020c7381, 0x000fe200001e0900, "LDG.E R12, [R2]"), "");
  EXPECT_EQ(m.r(12)[1], 0x07060504u);
  // The descriptor has no part in the address.
  m.set_ur(4, 0x12345);
  m.set_each(6, [](unsigned l) { return 0x1000 + 8 * l; });
  m.set(7, 0x7000);
  EXPECT_EQ(m.run(0x0000000406067981, 0x000ea2000c1e1b00, "LDG.E.64 R6, desc[UR4][R6.64]"), "");
  EXPECT_EQ(m.r(7)[2], 0x17161514u);
  // Reductions of lanes on one word.
  m.set(26, 0x1000);
  m.set(27, 0x7000);
  m.set(9, f(0.5f));
  std::memset(global.data(), 0, 4);
  m.set(2, 0x1000);
  m.set(5, 3);
  EXPECT_EQ(m.run(0x000000050200798e, 0x002fe2000c10e184, "REDG.E.ADD.STRONG.GPU desc[UR4][R2.64], R5"), "");
  EXPECT_EQ(*read_at<uint32_t>(global, 0, "word"), 96u);
  // Outside: where, and what is nearest.
  m.set(2, 0x1100);
  const std::string out = m.run(0x00000000020c7381, 0x000fe200001e0900);
  EXPECT_NE(out.find("0x700000001100"), std::string::npos) << out;
  EXPECT_NE(out.find("0 bytes behind the end of device region 0"), std::string::npos) << out;
  m.set(2, 0x1001);
  EXPECT_NE(m.run(0x00000000020c7381, 0x000fe200001e0900).find("misaligned"), std::string::npos);
  // Shared memory, per CTA; local memory, per lane.
  m.set(49, 16);
  m.set(52, 1);
  EXPECT_EQ(m.run(0x000000343131738c, 0x000fe20000000000, "ATOMS.ADD R49, [R49], R52"), "");
  EXPECT_EQ(m.r(49)[31], 31u) << "the value before its own addition";
  EXPECT_EQ(*read_at<uint32_t>(m.cta.shared, 16, "word"), 32u);
  // Lanes swap 2 l for 2 l + 1 where they find it: lane 16 finds its 32, then lane 17 finds 33.
  m.set(19, 16);
  m.set_each(9, [](unsigned l) { return 2 * l; });
  m.set_each(8, [](unsigned l) { return 2 * l + 1; });
  EXPECT_EQ(m.run(0x000000091315738d, 0x000fe20000000008, "ATOMS.CAS R21, [R19], R9, R8"), "");
  EXPECT_EQ(*read_at<uint32_t>(m.cta.shared, 16, "word"), 33u);
  EXPECT_EQ(m.r(21)[15], 32u);
  EXPECT_EQ(m.r(21)[17], 33u);
  // 64-bit, global.
  std::memset(global.data(), 0, 8);
  m.set(16, 0x1000);
  m.set(17, 0x7000);
  m.set(8, 0);
  m.set(9, 0);
  m.set(10, 5);
  m.set(11, 6);
  EXPECT_EQ(
      m.run(0x00000008100a73a9, 0x000fe200001ee50a, "ATOMG.E.CAS.64.STRONG.GPU PT, R10, [R16], R8, R10"), "");
  EXPECT_EQ(*read_at<uint64_t>(global, 0, "word"), 0x600000005u);
  EXPECT_EQ(m.r(10)[0], 0u);
  EXPECT_EQ(m.r(11)[1], 6u) << "the second lane finds what the first one wrote";
  m.set(0, 1024);
  EXPECT_NE(m.run(0x0000000000127984, 0x000e280000000800, "LDS R18, [R0]")
                .find("shared memory, which has 0x400 bytes"),
            std::string::npos);
  // Bytes, with and without their sign.
  m.cta.shared[20] = std::byte{0x85};
  m.set(0, 20);
  EXPECT_EQ(m.run(0x0000000000127984, 0x000e280000000000, "LDS.U8 R18, [R0]"), "");
  EXPECT_EQ(m.r(18)[3], 0x85u);
  EXPECT_EQ(m.run(0x0000000000127984, 0x000e280000000200, "LDS.S8 R18, [R0]"), "");
  EXPECT_EQ(m.r(18)[3], 0xffffff85u);
  m.set(11, 8);
  for (unsigned l = 0; l < 32; ++l) std::memcpy(m.warp.local.data() + l * m.program.local_bytes + 8, &l, 4);
  EXPECT_EQ(m.run(0x000000000b027983, 0x000ea80000100800, "LDL R2, [R11]"), "");
  EXPECT_EQ(m.r(2)[17], 17u);
}

// Whatever is not modelled is refused: never executed as something else.
TEST(Operations, RefusesWhatItDoesNotModel) {
  struct Case {
    const char* text;
    uint64_t lo, hi;
    const char* why;
  };
  const Case cases[] = {
      {"VHMNMX.XORSIGN R15, R14, R15, R9, !PT", 0x0000000f0e0f7247, 0x000fca0007840009, "not modelled"},
      {"HFMA2 R23, R6.H1_H1, R7.H0_NH1, R12", 0x0000000706177231, 0x002fc60000400c0c, ".H0_NH1"},
      {"FSEL.FTZ R23, R6, R7, P0", 0x0000000706177208, 0x000fc40000010000, ".FTZ of FSEL"},
      {"MUFU.EX2.BF16 R0, 0", 0x0000000000007908, 0x000e240000000a00, "no register"},
      {"R2P PR, R8, R24", 0x0000001808007204, 0x0000000000000000, "not literal"},
      // A bit that no modifier has.
      {"IABS R7, R140", 0x0000008c00077213, 0x000fe20000010000, "not modelled"},
      {"VIADD R0, R0, UR4", 0x0000000400007c36, 0x000fe20008001000, "not modelled"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    Machine m;
    const std::string found = m.run(c.lo, c.hi, c.text);
    EXPECT_NE(found.find("not implemented"), std::string::npos) << found;
    EXPECT_NE(found.find(c.why), std::string::npos) << found;
  }
  Machine m;
  m.program.layout.gprs = 8;
  EXPECT_NE(m.run(0x0000008c00077213, 0x000fe20000000000).find("beyond the 8 registers"), std::string::npos);
}

}  // namespace
}  // namespace xtrace::interp_test
