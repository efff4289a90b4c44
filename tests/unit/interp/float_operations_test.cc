// Single operations of floating point: words as ptxas emits them, values in, values out.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/unit/interp/row.h"

namespace xtrace::interp_test {
namespace {

TEST(Operations, SinglePrecision) {
  const uint32_t big = f(3e38f), tiny = 0x00000001;
  const Row rows[] = {
      {"FADD R0, R0, R2",
       0x0000000200007221,
       0x000fca0000000000,
       {{0, f(1.5f)}, {2, f(2.25f)}},
       {{0, f(3.75f)}}},
      {"FADD R0, R0, R2",
       0x0000000200007221,
       0x000fca0000000000,
       {{0, inf}, {2, inf | 0x80000000}},
       {{0, qnan}}},
      {"FADD R0, R0, R2", 0x0000000200007221, 0x000fca0000000000, {{0, tiny}, {2, tiny}}, {{0, 2}}},
      {"FADD R0, -R0, R2", 0x0000000200007221, 0x000fca0000000100, {{0, f(1)}, {2, f(1)}}, {{0, 0}}},
      {"FADD.FTZ R3, R0, 3", 0x4040000000037421, 0x000fce0000010000, {{0, tiny}}, {{3, f(3)}}},
      {"FMUL R3, RZ, R0", 0x00000000ff037220, 0x000fe20000400000, {{0, inf}}, {{3, qnan}}},
      {"FMUL.FTZ R3, R0, R5",
       0x0000000500037220,
       0x000fe20000410000,
       {{0, f(1e-30f)}, {5, f(-1e-10f)}},
       {{3, 0x80000000}}},
      {"FFMA R0, R0, R2, R3",
       0x0000000200007223,
       0x000fce0000000003,
       {{0, 0x3f800001}, {2, 0x3f800001}, {3, 0xbf800002}},
       {{0, 0x28800000}}},
      {"FFMA R0, R0, R2, R3",
       0x0000000200007223,
       0x000fce0000000003,
       {{0, big}, {2, f(2)}, {3, big | 0x80000000}},
       {{0, big}}},
      {"FFMA.RM R11, R11, R7, R6",
       0x000000070b0b7223,
       0x000fe20000004006,
       {{11, f(1)}, {7, f(1)}, {6, 0xb3000000}},
       {{11, 0x3f7fffff}}},
      {"FFMA.RP R0, R11, R7, R6",
       0x000000070b007223,
       0x000fe20000008006,
       {{11, f(1)}, {7, f(1)}, {6, 0x32000000}},
       {{0, 0x3f800001}}},
      {"FMNMX R0, R0, UR15, !PT", 0x0000000f00007c09, 0x000fe2000f800000, {{0, 0x80000000}}, {{0, 0}}},
      {"FMNMX R0, R0, UR15, !PT", 0x0000000f00007c09, 0x000fe2000f800000, {{0, 0x7fc00000}}, {{0, 0}}},
      {"FSEL R0, R3, 1, !P0", 0x3f80000003007808, 0x000fe40004000000, {{3, f(2)}}, {{0, f(2)}}, {{0, 0}}},
      {"MUFU.RCP R6, R4", 0x0000000400067308, 0x000e240000001000, {{4, f(4)}}, {{6, f(0.25f)}}},
      {"I2F.U32.RP R17, R9", 0x0000000900117306, 0x000fe20000209000, {{9, 0x01000001}}, {{17, 0x4b800001}}},
      {"I2F.U32.RP R17, R9", 0x0000000900117306, 0x000fe20000209000, {{9, 0xffffffff}}, {{17, 0x4f800000}}},
      {"I2FP.F32.S32 R0, R9", 0x0000000900007245, 0x000fe40000201400, {{9, 0xfeffffff}}, {{0, 0xcb800000}}},
      {"F2I.FTZ.U32.TRUNC.NTZ R27, R0", 0x00000000001b7305, 0x000fe2000021f000, {{0, f(3.99f)}}, {{27, 3}}},
      {"F2I.FTZ.U32.TRUNC.NTZ R27, R0", 0x00000000001b7305, 0x000fe2000021f000, {{0, f(-3)}}, {{27, 0}}},
      {"F2I.FTZ.U32.TRUNC.NTZ R27, R0", 0x00000000001b7305, 0x000fe2000021f000, {{0, f(5e9f)}}, {{27, ~0u}}},
      {"F2I.NTZ R2, R2", 0x0000000200027305, 0x000e240000203100, {{2, f(-2.5f)}}, {{2, 0xfffffffe}}},
      {"HFMA2 R12, R0, 0.5, 0.5, R10",
       0x38003800000c7831,
       0x000fe2000000000a,
       {{0, 0x44003c00}, {10, 0x00013c00}},
       {{12, 0x40003e00}}},
      {"HADD2 R6, R6, R30",
       0x0000001e06067230,
       0x000fe20000000000,
       {{6, 0x3c004400}, {30, 0x3c00c200}},
       {{6, 0x40003c00}}},
      {"HADD2.F32 R93, -RZ, R7.H0_H0",
       0x20000007ff5d7230,
       0x000fe20000004100,
       {{7, 0x12348001}},
       {{93, 0xb3800000}}},
      {"HADD2 R2, -RZ.H0_H0, -1, -1", 0xbc00bc00ff027430, 0x000fe20000000900, {}, {{2, 0xbc00bc00}}},
      {"HMUL2 R81, R84, R8",
       0x0000000854517232,
       0x000fe20000000000,
       {{84, 0x3e004200}, {8, 0x40004400}},
       {{81, 0x42004a00}}},
      {"F2FP.F16.F32.PACK_AB R3, R11, UR4",
       0x000000040b037c3e,
       0x000fe200080000ff,
       {{11, f(65520)}},
       {{3, 0x7c000000}}},
      {"F2FP.F16.F32.PACK_AB R3, R11, R4",
       0x000000040b03723e,
       0x000fe200000000ff,
       {{11, f(-2.5f)}, {4, f(1e-7f)}},
       {{3, 0xc1000002}}},
      {"F2FP.BF16.F32.PACK_AB R4, RZ, R6",
       0x00000006ff04723e,
       0x000fe200000010ff,
       {{6, 0x3f818000}},
       {{4, 0x00003f82}}},
      {"HFMA2.MMA R22, -RZ, RZ, 0, 0", 0x00000000ff167435, 0x000fe200000001ff, {}, {{22, 0}}},
  };
  for (const Row& row : rows) check(row);
}

void set_double(Machine& m, unsigned r, double v) {
  const auto bits = std::bit_cast<uint64_t>(v);
  m.set(r, static_cast<uint32_t>(bits));
  m.set(r + 1, static_cast<uint32_t>(bits >> 32));
}
double get_double(Machine& m, unsigned r, unsigned lane = 5) {
  return std::bit_cast<double>(uint64_t{m.r(r + 1)[lane]} << 32 | m.r(r)[lane]);
}

TEST(Operations, DoublePrecision) {
  Machine m;
  set_double(m, 16, 3.5);
  EXPECT_EQ(m.run(0xbff0000010107429, 0x000fe40000000000, "DADD R16, R16, -1"), "");
  EXPECT_EQ(get_double(m, 16), 2.5);
  set_double(m, 4, 1.1);
  EXPECT_EQ(m.run(0x0000000404087228, 0x001fcc0000000000, "DMUL R8, R4, R4"), "");
  EXPECT_EQ(get_double(m, 8), 1.1 * 1.1);
  set_double(m, 36, 1.0 / 3);
  set_double(m, 42, 1.0 / 3);
  const double down = get_double(m, 36) * get_double(m, 42);
  EXPECT_EQ(m.run(0x0000002a24247228, 0x000fe20000008000, "DMUL.RP R36, R36, R42"), "");
  EXPECT_GT(get_double(m, 36), down - 1e-17);
  EXPECT_GE(std::fma(1.0 / 3, 1.0 / 3, -get_double(m, 36)), -0x1p-55);
  EXPECT_LT(std::fma(1.0 / 3, 1.0 / 3, -get_double(m, 36)), 0) << "rounded up";
  set_double(m, 14, 1);
  set_double(m, 12, 1);
  set_double(m, 8, -0x1p-60);
  EXPECT_EQ(m.run(0x0000000c0e0c722b, 0x000fe20000004008, "DFMA.RM R12, R14, R12, R8"), "");
  EXPECT_EQ(get_double(m, 12), std::nextafter(1.0, 0.0));
  set_double(m, 6, 2);
  EXPECT_EQ(m.run(0x3ff000000602742b, 0x000fcc0000000006, "DFMA R2, R6, R6, 1"), "");
  EXPECT_EQ(get_double(m, 2), 5.0);
  set_double(m, 22, 0);
  set_double(m, 18, std::nan(""));
  EXPECT_EQ(m.run(0x000000161200722a, 0x000fe20003f8e000, "DSETP.GEU.AND P4, PT, R18, R22, PT"), "");
  EXPECT_EQ(m.p(4), ~0u) << "unordered";
  m.set(3, 0x40100000);  // 4.0
  EXPECT_EQ(m.run(0x0000000300057308, 0x000e240000001c00, "MUFU.RSQ64H R5, R3"), "");
  EXPECT_EQ(m.r(5)[0], 0x3fe00000u);
  EXPECT_EQ(m.run(0x4024000000057908, 0x000fe20000001800, "MUFU.RCP64H R5, 10"), "");
  EXPECT_EQ(m.r(5)[0], 0x3fb99999u);
  set_double(m, 4, 0.1);
  EXPECT_EQ(m.run(0x0000000400047310, 0x000e620000301000, "F2F.F32.F64 R4, R4"), "");
  EXPECT_EQ(m.r(4)[9], f(0.1f));
  m.set(3, f(-0.75f));
  EXPECT_EQ(m.run(0x0000000300127310, 0x000fe20000201800, "F2F.F64.F32 R18, R3"), "");
  EXPECT_EQ(get_double(m, 18), -0.75);
  // What is not a number. [measured H200]
  set_double(m, 4, INFINITY);
  set_double(m, 8, 0);
  EXPECT_EQ(m.run(0x0000000804087228, 0x001fcc0000000000, "DMUL R8, R4, R8"), "");
  EXPECT_EQ(m.r(9)[0], 0xfff80000u);
  EXPECT_EQ(m.r(8)[0], 0u);
  m.set(4, 1), m.set(5, 0x7ff00002);
  m.set(8, 3), m.set(9, 0xfff00004);
  EXPECT_EQ(m.run(0x0000000804087228, 0x001fcc0000000000), "");
  EXPECT_EQ(m.r(9)[0], 0xfff80004u) << "the second operand's";
  EXPECT_EQ(m.r(8)[0], 3u);
}

}  // namespace
}  // namespace xtrace::interp_test
