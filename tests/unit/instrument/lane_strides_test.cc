// Registers that are base + lane * stride, on code assembled here. An access at the end of each piece asks.
#include "instrument/lane_strides.h"

#include <gtest/gtest.h>

#include <set>

#include "instrument/code.h"
#include "instrument/sass/assemble.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

constexpr Dim3 row{256, 1, 1};

Code code_of(const std::vector<const char*>& lines) {
  Code code;
  code.arch = *sass::find_arch(90);
  code.kernel = "assembled";
  for (const char* line : lines) {
    const auto w = sass::assemble(*code.arch, line, static_cast<int64_t>(code.bytes()));
    EXPECT_TRUE(w) << line << ": " << (w ? "" : w.error().to_string());
    if (w) code.insts.push_back({*w, sass::effects(*code.arch, *w, code.bytes())});
  }
  code.functions = {{"assembled", 0, {}, {}}};
  code.reachable.assign(code.insts.size(), true);
  return code;
}

// What is known of R2 in front of the one instruction that accesses memory by it.
// `partial`: lines that some lanes miss; with it all others are whole.
std::optional<LaneStride> r2(const std::vector<const char*>& lines, Dim3 block = row,
                             std::optional<std::set<InstIndex>> partial = std::nullopt, const Bytes& params = {}) {
  const Code code = code_of(lines);
  std::vector<bool> whole;
  for (InstIndex i = 0; partial && i < code.insts.size(); ++i) whole.push_back(!partial->contains(i));
  const LaneStrides lanes(code, {block, whole, params, 0x210});
  std::optional<LaneStride> found;
  for (InstIndex i = 0; i < code.insts.size(); ++i)
    if (const auto l = lanes.before(i, 2)) {
      EXPECT_FALSE(found) << "two accesses";
      found = l;
    }
  return found;
}
std::optional<uint32_t> stride_of(const std::vector<const char*>& lines, Dim3 block = row) {
  const auto found = r2(lines, block);
  if (found) {
    EXPECT_EQ(found->guard, guard_always);
    EXPECT_EQ(found->step, 0u);
  }
  return found ? std::optional(found->stride) : std::nullopt;
}

TEST(LaneStrides, ThreadNumbersByTheShapeOfTheCta) {
  const std::vector<const char*> x{"S2R R2, SR_TID.X", "LDS R5, [R2]", "EXIT"}, y{"S2R R2, SR_TID.Y", "LDS R5, [R2]", "EXIT"},
      z{"S2R R2, SR_TID.Z", "LDS R5, [R2]", "EXIT"};
  EXPECT_EQ(stride_of(x), 1u);
  EXPECT_EQ(stride_of(x, {80, 1, 1}), 1u);
  EXPECT_EQ(stride_of(x, {32, 8, 1}), 1u);
  EXPECT_EQ(stride_of(x, {48, 2, 1}), std::nullopt);
  EXPECT_EQ(stride_of(y, {32, 8, 1}), 0u);
  EXPECT_EQ(stride_of(y, {80, 1, 1}), 0u);
  EXPECT_EQ(stride_of(y, {48, 2, 1}), std::nullopt);
  EXPECT_EQ(stride_of(z, {16, 16, 2}), 0u);
  EXPECT_EQ(stride_of(z, {16, 1, 2}), std::nullopt);
}

TEST(LaneStrides, RowsOfTheCta) {
  EXPECT_EQ(row_shift({16, 16, 1}), 4);
  EXPECT_EQ(row_shift({2, 64, 1}), 1);
  for (const Dim3 none : {Dim3{1, 32, 1}, Dim3{12, 4, 1}, Dim3{32, 8, 1}, Dim3{64, 1, 1}}) EXPECT_EQ(row_shift(none), 0);
  const std::vector<const char*> x{"S2R R2, SR_TID.X", "LDS R5, [R2]", "EXIT"}, y{"S2R R2, SR_TID.Y", "LDS R5, [R2]", "EXIT"},
      both{"S2R R0, SR_TID.X", "S2R R1, SR_TID.Y", "IMAD R2, R1, 0x40, R0", "LDS R5, [R2]", "EXIT"};
  const uint32_t back = 0u - 16;
  EXPECT_EQ(r2(x, {16, 16, 1}), (LaneStride{1, back, guard_always}));
  EXPECT_EQ(r2(y, {16, 16, 1}), (LaneStride{0, 1, guard_always}));
  EXPECT_EQ(r2(both, {16, 16, 1}), (LaneStride{1, 64 - 16, guard_always}));
  EXPECT_EQ(r2(y, {16, 3, 2}), std::nullopt) << "a warp goes on in the next plane";
  EXPECT_EQ(r2(y, {16, 3, 1}), (LaneStride{0, 1, guard_always}));
  // A row of the tile has 16 words: the thread's number in the CTA, whatever the rows.
  EXPECT_EQ(r2({"S2R R0, SR_TID.X", "S2R R1, SR_TID.Y", "LEA R3, R1, R0, 0x4", "SHF.L.U32 R2, R3, 0x2, RZ", "LDS R5, [R2]", "EXIT"},
               {16, 16, 1}),
            (LaneStride{4, 0, guard_always}));
}

TEST(LaneStrides, SumsProductsAndShifts) {
  const auto of = [](std::vector<const char*> lines) {
    lines.insert(lines.begin(), {"S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", "ULDC UR4, c[0x0][0x210]"});
    lines.insert(lines.end(), {"LDS R5, [R2]", "EXIT"});
    return stride_of(lines);
  };
  EXPECT_EQ(of({"IMAD R2, R1, UR4, R0"}), 1u);
  EXPECT_EQ(of({"IMAD R2, R0, 0x84, R1"}), 0x84u);
  EXPECT_EQ(of({"IMAD R2, R0, -0x4, R1"}), uint32_t(-4));
  EXPECT_EQ(of({"IMAD R2, R0, UR4, R1"}), std::nullopt) << "the stride is not known";
  EXPECT_EQ(of({"IMAD.WIDE R2, R0, 0x4, R8"}), std::nullopt) << "nothing is known of R8";
  EXPECT_EQ(of({"LDC.64 R8, c[0x0][0x218]", "IMAD.WIDE R2, R0, 0x4, R8"}), 4u);
  EXPECT_EQ(of({"LDC.64 R8, c[0x0][0x218]", "IMAD.WIDE R6, R0, 0x4, R8", "MOV R2, R7"}), std::nullopt) << "a high word";
  EXPECT_EQ(of({"LEA R2, R0, R1, 0x5"}), 32u);
  EXPECT_EQ(of({"IADD3 R2, R0, R1, R0"}), 2u);
  EXPECT_EQ(of({"IADD3 R2, R1, -R0, RZ"}), uint32_t(-1));
  EXPECT_EQ(of({"VIADD R2, R0, 0x10"}), 1u);
  EXPECT_EQ(of({"SHF.L.U32 R2, R0, 0x2, RZ"}), 4u);
  EXPECT_EQ(of({"SHF.R.U32.HI R2, RZ, 0x5, R0"}), std::nullopt) << "another row of lanes";
  EXPECT_EQ(of({"SHF.R.U32.HI R2, RZ, 0x5, R1"}), 0u);
  EXPECT_EQ(of({"LOP3.LUT R2, R0, 0x1f, RZ, 0xc0, !PT"}), std::nullopt);
  EXPECT_EQ(of({"LOP3.LUT R2, R1, 0x1f, RZ, 0xc0, !PT"}), 0u);
  EXPECT_EQ(of({"MOV R2, UR4"}), 0u);
}

TEST(LaneStrides, WhatChangesOrComesFromElsewhere) {
  EXPECT_EQ(stride_of({"LDS R2, [RZ]", "LDS R5, [R2]", "EXIT"}), std::nullopt);
  EXPECT_EQ(stride_of({"CS2R.32 R2, SR_CLOCKLO", "LDS R5, [R2]", "EXIT"}), std::nullopt);
  EXPECT_EQ(stride_of({"S2R R0, SR_TID.X", "SHFL.IDX PT, R2, R0, RZ, 0x1f", "LDS R5, [R2]", "EXIT"}), std::nullopt);
  EXPECT_EQ(stride_of({"S2R R0, SR_TID.X", "R2UR UR4, R0", "MOV R2, UR4", "LDS R5, [R2]", "EXIT"}), std::nullopt);
  EXPECT_EQ(stride_of({"LDS R5, [R2]", "EXIT"}), std::nullopt) << "never written";
}

TEST(LaneStrides, OneDefinitionOnEveryPath) {
  // 0x10 and 0x30 write R2, or R3 beside it.
  EXPECT_EQ(stride_of({"S2R R0, SR_TID.X", "MOV R2, R0", "@P0 BRA 0x40", "MOV R2, R0", "LDS R5, [R2]", "EXIT"}), std::nullopt);
  EXPECT_EQ(stride_of({"S2R R0, SR_TID.X", "MOV R2, R0", "@P0 BRA 0x40", "MOV R3, R0", "LDS R5, [R2]", "EXIT"}), 1u);
}

TEST(LaneStrides, Loops) {
  EXPECT_EQ(stride_of({"S2R R2, SR_TID.X", "LDS R5, [R2]", "VIADD R2, R2, 0x20", "@P0 BRA 0x10", "EXIT"}), std::nullopt)
      << "changes from round to round, and lanes may leave in another";
  EXPECT_EQ(stride_of({"S2R R0, SR_TID.X", "VIADD R2, R0, 0x20", "LDS R5, [R2]", "@P0 BRA 0x10", "EXIT"}), 1u)
      << "the same in every round";
  EXPECT_EQ(stride_of({"S2R R0, SR_TID.X", "MOV R3, R0", "VIADD R2, R3, 0x20", "LDS R5, [R2]", "VIADD R3, R3, 0x1", "@P0 BRA 0x20",
                       "EXIT"}),
            std::nullopt)
      << "by a counter";
  EXPECT_EQ(stride_of({"ULDC UR4, c[0x0][0x210]", "MOV R2, UR4", "LDS R5, [R2]", "UIADD3 UR4, UR4, 0x4, URZ", "@P0 BRA 0x10", "EXIT"}),
            std::nullopt)
      << "by a counter of the warp: lanes that come later see another";
}

TEST(LaneStrides, UnderAGuard) {
  const std::vector<const char*> lines{"S2R R0, SR_TID.X", "@!P1 VIADD R2, R0, 0x20", "@!P1 LDS R5, [R2]", "EXIT"};
  EXPECT_EQ(r2(lines), (LaneStride{1, 0, 9}));
  EXPECT_EQ(r2({"S2R R0, SR_TID.X", "@!P1 VIADD R2, R0, 0x20", "LDS R5, [R2]", "EXIT"}), std::nullopt) << "other lanes too";
  EXPECT_EQ(r2({"S2R R0, SR_TID.X", "@!P1 VIADD R2, R0, 0x20", "@P1 LDS R5, [R2]", "EXIT"}), std::nullopt) << "the other lanes";
  EXPECT_EQ(r2({"S2R R0, SR_TID.X", "@!P1 VIADD R2, R0, 0x20", "ISETP.LT.U32.AND P1, PT, R0, 0x8, PT", "@!P1 LDS R5, [R2]", "EXIT"}),
            std::nullopt)
      << "the guard has changed";
  EXPECT_EQ(r2({"S2R R0, SR_TID.X", "@!P1 VIADD R3, R0, 0x20", "@P2 VIADD R2, R3, 0x20", "@P2 LDS R5, [R2]", "EXIT"}), std::nullopt);
  EXPECT_EQ(r2({"S2R R0, SR_TID.X", "VIADD R2, R0, 0x20", "@P2 LDS R5, [R2]", "EXIT"}), (LaneStride{1, 0, guard_always}));
}

// A pointer that a loop moves on: one for the warp plus 4 bytes a lane each time, if all lanes go round together.
TEST(LaneStrides, LoopsInWhichLanesNeverPart) {
  const std::vector<const char*> loop{"S2R R0, SR_TID.X", "SHF.L.U32 R2, R0, 0x2, RZ", "LDS R5, [R2]", "VIADD R2, R2, 0x80",
                                      "@P1 BRA 0x20", "EXIT"};
  EXPECT_EQ(r2(loop), std::nullopt) << "nothing was counted";
  EXPECT_EQ(r2(loop, row, std::set<InstIndex>{}), (LaneStride{4, 0, guard_always}));
  EXPECT_EQ(r2(loop, row, std::set<InstIndex>{2, 3, 4}), std::nullopt) << "lanes leave it one after the other";
  EXPECT_EQ(r2(loop, row, std::set<InstIndex>{5}), (LaneStride{4, 0, guard_always})) << "what comes behind does not matter";
  EXPECT_EQ(r2({"S2R R0, SR_TID.X", "SHF.L.U32 R2, R0, 0x2, RZ", "LDS R5, [R2]", "IADD3 R2, R2, R2, RZ", "@P1 BRA 0x20", "EXIT"}, row,
               std::set<InstIndex>{}),
            std::nullopt)
      << "another stride each time";
  EXPECT_EQ(r2({"S2R R0, SR_TID.X", "SHF.L.U32 R2, R0, 0x2, RZ", "LDS R2, [R2]", "@P1 BRA 0x20", "EXIT"}, row, std::set<InstIndex>{}),
            std::nullopt)
      << "a loaded value";
}
// What is computed of a value that changes from round to round counts where all lanes compute it each time.
TEST(LaneStrides, OfLoopPointersInBranches) {
  // R3 goes round the loop; R2 is made of it by all lanes or by those of the branch, and used behind the branch.
  const std::vector<const char*> loop{"S2R R0, SR_TID.X",           "SHF.L.U32 R3, R0, 0x2, RZ", "MOV R2, R3",
                                      "VIADD R3, R3, 0x80",         "@P0 BRA 0x70",              "VIADD R2, R3, 0x10",
                                      "NOP",                        "LDS R5, [R2]",              "@P1 BRA 0x20",
                                      "EXIT"};
  EXPECT_EQ(r2(loop, row, std::set<InstIndex>{}), (LaneStride{4, 0, guard_always}));
  EXPECT_EQ(r2(loop, row, std::set<InstIndex>{5, 6}), std::nullopt) << "two bases where the branch ends";
  const std::vector<const char*> dominated{"S2R R0, SR_TID.X", "SHF.L.U32 R3, R0, 0x2, RZ", "VIADD R3, R3, 0x80", "VIADD R2, R3, 0x10",
                                           "@P0 BRA 0x70",     "NOP",                       "NOP",                "LDS R5, [R2]",
                                           "@P1 BRA 0x20",     "EXIT"};
  EXPECT_EQ(r2(dominated, row, std::set<InstIndex>{5, 6}), (LaneStride{4, 0, guard_always})) << "made in front of the branch";
  // The branch makes R2 anew in some lanes only; the others have it from the round before.
  const std::vector<const char*> stale{"S2R R0, SR_TID.X", "SHF.L.U32 R3, R0, 0x2, RZ", "VIADD R2, R3, 0x10", "VIADD R3, R3, 0x80",
                                       "@P0 BRA 0x20",     "NOP",                       "LDS R5, [R2]",       "@P1 BRA 0x30",
                                       "EXIT"};
  EXPECT_EQ(r2(stale, row, std::set<InstIndex>{}), (LaneStride{4, 0, guard_always}));
  EXPECT_EQ(r2(stale, row, std::set<InstIndex>{2}), std::nullopt);
}

// A row of a matrix is as long as the launch says.
TEST(LaneStrides, ByParametersOfTheLaunch) {
  Bytes params;
  for (const uint32_t word : {0x300u, 0x10u}) append(params, word);
  const std::vector<const char*> loaded{"S2R R0, SR_TID.X", "LDC R3, c[0x0][0x214]", "IMAD R2, R0, R3, RZ", "LDS R5, [R2]", "EXIT"},
      uniform{"S2R R0, SR_TID.X", "ULDC.64 UR4, c[0x0][0x210]", "IMAD R2, R0, UR4, RZ", "LDS R5, [R2]", "EXIT"},
      operand{"S2R R0, SR_TID.X", "IMAD R2, R0, c[0x0][0x214], RZ", "LDS R5, [R2]", "EXIT"},
      behind{"S2R R0, SR_TID.X", "LDC R3, c[0x0][0x218]", "IMAD R2, R0, R3, RZ", "LDS R5, [R2]", "EXIT"},
      other_bank{"S2R R0, SR_TID.X", "LDC R3, c[0x3][0x214]", "IMAD R2, R0, R3, RZ", "LDS R5, [R2]", "EXIT"};
  const auto with_params = [&](const std::vector<const char*>& lines) { return r2(lines, row, std::nullopt, params); };
  EXPECT_EQ(r2(loaded), std::nullopt) << "not known";
  EXPECT_EQ(with_params(loaded), (LaneStride{0x10, 0, guard_always}));
  EXPECT_EQ(with_params(uniform), (LaneStride{0x300, 0, guard_always}));
  EXPECT_EQ(with_params(operand), (LaneStride{0x10, 0, guard_always}));
  EXPECT_EQ(with_params(behind), std::nullopt);
  EXPECT_EQ(with_params(other_bank), std::nullopt);
  // The same number by two ways is that number; two numbers are none.
  EXPECT_EQ(with_params({"S2R R0, SR_TID.X", "LDC R3, c[0x0][0x214]", "IADD3 R4, R3, 0x10, RZ", "IMAD R2, R0, R4, RZ", "LDS R5, [R2]", "EXIT"}),
            (LaneStride{0x20, 0, guard_always}));
  EXPECT_EQ(r2({"S2R R0, SR_TID.X", "LDC R3, c[0x0][0x214]", "IMAD R2, R0, R3, RZ", "LDS R5, [R2]", "VIADD R3, R3, 0x1", "@P1 BRA 0x20", "EXIT"},
               row, std::set<InstIndex>{}, params),
            std::nullopt)
      << "another stride each time";
}

// What a kernel of the fixtures gains: every access of the transposition, no matter its guard.
TEST(LaneStrides, OfATransposition) {
  const Kernel k = fixture_kernel("transpose_tiled");
  const auto image = cubin::Image::parse(k.cubin);
  ASSERT_TRUE(image);
  const auto info = cubin::kernel_info(*image, k.name);
  ASSERT_TRUE(info);
  const auto code = read_code(*image, *info);
  ASSERT_TRUE(code);
  const LaneStrides lanes(*code, {{32, 8, 1}});
  std::multiset<uint32_t> strides;
  for (InstIndex i = 0; i < code->insts.size(); ++i)
    for (uint8_t r = 0; r < 255; ++r)
      if (const auto l = lanes.before(i, r)) strides.insert(l->stride);
  EXPECT_EQ(strides.count(4), 12u) << "loads, stores, and stores of a row of the tile";
  EXPECT_EQ(strides.count(132), 4u) << "loads of a column of the tile";
  EXPECT_EQ(strides.size(), 16u);
}

}  // namespace
}  // namespace xtrace::instrument::test
