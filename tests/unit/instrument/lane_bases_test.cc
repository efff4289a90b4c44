// Registers that are a base and a number for each lane, on code assembled here. An access at the end of each piece asks.
#include "instrument/lane_bases.h"

#include <gtest/gtest.h>

#include <set>

#include "instrument/blocks.h"
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

// What is known of R2 in front of the one instruction that accesses memory by it: by thread of the CTA.
struct Found {
  bool known = false;
  uint8_t guard = guard_always;
  std::vector<uint32_t> numbers;
  bool operator==(const Found&) const = default;
};
Found found_of(const LaneBases& lanes, const LaneBase& base, const Dim3& block) {
  Found found{base.known, base.guard, {}};
  const std::vector<uint32_t>& table = lanes.tables()[base.numbers];
  for (uint32_t t = 0; t < block.count(); ++t) found.numbers.push_back(table[table.size() == 32 ? t % 32 : t]);
  return found;
}
// `partial`: lines that some lanes miss; with it all others are whole.
std::optional<Found> numbers(const std::vector<const char*>& lines, Dim3 block = row,
                             std::optional<std::set<InstIndex>> partial = std::nullopt, const Bytes& params = {}) {
  const Code code = code_of(lines);
  std::vector<bool> whole;
  for (InstIndex i = 0; partial && i < code.insts.size(); ++i) whole.push_back(!partial->contains(i));
  // A block ends where a branch stands or leads to, and where lanes are missing behind it or before.
  std::vector<uint32_t> blocks(code.insts.size(), 0);
  for (InstIndex i = 1; i < code.insts.size(); ++i) {
    const bool parts = code.insts[i - 1].fx.flow != sass::Flow::next || (partial && partial->contains(i) != partial->contains(i - 1));
    const bool met = std::any_of(code.insts.begin(), code.insts.end(), [&](const auto& o) { return o.fx.target == code.pc(i); });
    blocks[i] = blocks[i - 1] + (parts || met);
  }
  const LaneBases lanes(code, {{7, 5, 3}, block, {0, 0, 0}, whole, blocks, params, 0x210});
  std::optional<Found> found;
  for (InstIndex i = 0; i < code.insts.size(); ++i)
    if (const auto l = lanes.before(i, 2)) {
      EXPECT_FALSE(found) << "two accesses";
      found = found_of(lanes, *l, block);
    }
  return found;
}

// Where lanes differ by lane * stride + row * step, the same in every warp.
struct LaneStride {
  uint32_t stride = 0, step = 0;
  uint8_t guard = guard_always;
  bool operator==(const LaneStride&) const = default;
};
std::optional<LaneStride> stride_in(const Found& found, const Dim3& block) {
  const auto difference = [&](uint32_t t) { return found.numbers[t] - found.numbers[t - t % 32]; };
  LaneStride l{difference(1), 0, found.guard};
  if (block.x < 32 && 32 % block.x == 0 && block.count() > block.x) l.step = difference(block.x) - block.x * l.stride;
  for (uint32_t t = 0; t < found.numbers.size(); ++t)
    if (difference(t) != t % 32 * l.stride + t % 32 / block.x * l.step) return std::nullopt;
  return l;
}
std::optional<LaneStride> r2(const std::vector<const char*>& lines, Dim3 block = row,
                             std::optional<std::set<InstIndex>> partial = std::nullopt, const Bytes& params = {}) {
  const auto found = numbers(lines, block, partial, params);
  return found ? stride_in(*found, block) : std::nullopt;
}
std::optional<uint32_t> stride_of(const std::vector<const char*>& lines, Dim3 block = row) {
  const auto found = r2(lines, block);
  if (found) {
    EXPECT_EQ(found->guard, guard_always);
    EXPECT_EQ(found->step, 0u);
  }
  return found ? std::optional(found->stride) : std::nullopt;
}
// The number of each thread, where it is known altogether.
template <typename F>
void expect_numbers(const std::vector<const char*>& lines, Dim3 block, F f, bool known = true) {
  const auto found = numbers(lines, block);
  ASSERT_TRUE(found) << lines[lines.size() - 3];
  EXPECT_EQ(found->known, known);
  for (uint32_t t = 0; t < block.count(); ++t) ASSERT_EQ(found->numbers[t], f(t)) << lines[lines.size() - 3] << " in thread " << t;
}

TEST(LaneBases, ThreadNumbersByTheShapeOfTheCta) {
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
  EXPECT_EQ(r2(z, {16, 1, 2}), (LaneStride{0, 1, guard_always}));
}

TEST(LaneBases, RowsOfTheCta) {
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

TEST(LaneBases, SumsProductsAndShifts) {
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
  EXPECT_EQ(of({"SHF.R.U32.HI R2, RZ, 0x5, R0"}), 0u);
  EXPECT_EQ(of({"SHF.R.U32.HI R2, RZ, 0x5, R1"}), 0u);
  EXPECT_EQ(of({"LOP3.LUT R2, R0, 0x1f, RZ, 0xc0, !PT"}), 1u);
  EXPECT_EQ(of({"LOP3.LUT R2, R0, R1, RZ, 0x3c, !PT"}), std::nullopt) << "a bit of the base, or its complement";
  EXPECT_EQ(of({"LOP3.LUT R2, R1, 0x1f, RZ, 0xc0, !PT"}), 0u);
  EXPECT_EQ(of({"MOV R2, UR4"}), 0u);
}

TEST(LaneBases, WhatChangesOrComesFromElsewhere) {
  EXPECT_EQ(stride_of({"LDS R2, [RZ]", "LDS R5, [R2]", "EXIT"}), std::nullopt);
  EXPECT_EQ(stride_of({"CS2R.32 R2, SR_CLOCKLO", "LDS R5, [R2]", "EXIT"}), std::nullopt);
  EXPECT_EQ(stride_of({"S2R R0, SR_TID.X", "SHFL.IDX PT, R2, R0, RZ, 0x1f", "LDS R5, [R2]", "EXIT"}), std::nullopt);
  EXPECT_EQ(stride_of({"S2R R0, SR_TID.X", "R2UR UR4, R0", "MOV R2, UR4", "LDS R5, [R2]", "EXIT"}), std::nullopt);
  EXPECT_EQ(stride_of({"LDS R5, [R2]", "EXIT"}), std::nullopt) << "never written";
}

TEST(LaneBases, OneDefinitionOnEveryPath) {
  // 0x10 and 0x30 write R2, or R3 beside it.
  EXPECT_EQ(stride_of({"S2R R0, SR_CTAID.X", "MOV R2, R0", "@P0 BRA 0x40", "MOV R2, R0", "LDS R5, [R2]", "EXIT"}), std::nullopt);
  EXPECT_EQ(stride_of({"S2R R0, SR_CTAID.X", "MOV R2, R0", "@P0 BRA 0x40", "MOV R3, R0", "LDS R5, [R2]", "EXIT"}), 0u);
}

TEST(LaneBases, Loops) {
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

TEST(LaneBases, UnderAGuard) {
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
TEST(LaneBases, LoopsInWhichLanesNeverPart) {
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
TEST(LaneBases, OfLoopPointersInBranches) {
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
TEST(LaneBases, ByParametersOfTheLaunch) {
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

// What code makes of thread numbers alone.
TEST(LaneBases, NumbersByThread) {
  const auto of = [](std::vector<const char*> lines) {
    lines.insert(lines.begin(), {"S2R R0, SR_TID.X", "S2R R1, SR_TID.Y", "S2R R7, SR_TID.Z", "S2R R8, SR_CTAID.X", "S2R R9, SR_LANEID"});
    lines.insert(lines.end(), {"LDS R5, [R2]", "EXIT"});
    return lines;
  };
  const Dim3 box{10, 3, 2}, warps{128, 1, 1};
  const auto x = [&](uint32_t t) { return t % 10; };
  expect_numbers(of({"MOV R2, R0"}), box, x);
  expect_numbers(of({"IMAD R2, R7, 0x100, R1"}), box, [](uint32_t t) { return t / 30 * 256 + t / 10 % 3; });
  expect_numbers(of({"MOV R2, R9"}), box, [](uint32_t t) { return t % 32; });
  expect_numbers(of({"IMAD.HI.U32 R2, R0, 0x55555556, RZ"}), warps, [](uint32_t t) { return t / 3; });
  expect_numbers(of({"SHF.L.U32 R3, R0, 0x2, RZ", "LOP3.LUT R2, R3, 0xc, RZ, 0xc0, !PT"}), warps, [](uint32_t t) { return t % 4 * 4; });
  expect_numbers(of({"SHF.R.U32.HI R3, RZ, 0x3, R0", "LOP3.LUT R2, R3, 0x1ffffffc, RZ, 0xc0, !PT"}), warps,
                 [](uint32_t t) { return t / 32 * 4; });
  expect_numbers(of({"SHF.R.U32.HI R3, RZ, 0x3, R0", "LOP3.LUT R2, R3, 0x7, R0, 0x6a, !PT"}), warps, [](uint32_t t) { return (t / 8 & 7) ^ t; });
  expect_numbers(of({"LEA.HI R2, R0, R0, RZ, 0x1d"}), warps, [](uint32_t t) { return t / 8 + t; });
  expect_numbers(of({"PRMT R2, R0, 0x4440, RZ"}), {512, 1, 1}, [](uint32_t t) { return t % 256; });
  // A CTA's number moves all of it: 128 threads of a CTA leave their seven bits.
  const std::vector<const char*> global{"IMAD R3, R8, 0x80, R0"};
  const auto with = [&](const char* line) { return of({global[0], line}); };
  expect_numbers(with("LOP3.LUT R2, R3, 0x7f, RZ, 0xc0, !PT"), warps, [](uint32_t t) { return t; });
  expect_numbers(with("LOP3.LUT R2, R3, 0x1c, RZ, 0xc0, !PT"), warps, [](uint32_t t) { return t & 0x1c; });
  expect_numbers(with("LOP3.LUT R2, R3, 0xff, RZ, 0xc0, !PT"), warps, [](uint32_t t) { return t % 32; }, false);
  expect_numbers(with("SHF.R.U32.HI R2, RZ, 0x2, R3"), warps, [](uint32_t t) { return t % 32 / 4; }, false);
  expect_numbers(with("SHF.R.S32.HI R2, RZ, 0x2, R3"), warps, [](uint32_t t) { return t % 32 / 4; }, false);
  EXPECT_EQ(numbers(of({"IMAD R3, R8, 0x10, R0", "SHF.R.U32.HI R2, RZ, 0x2, R3"}), warps), std::nullopt) << "a carry of the sum";
  EXPECT_EQ(numbers(of({"IMAD R3, R8, 0x10, R0", "LOP3.LUT R2, R3, 0x10, RZ, 0xc0, !PT"}), warps), std::nullopt);
}
// What is known of the whole warp alone.
TEST(LaneBases, FromAnotherLane) {
  const std::vector<const char*> first{"S2R R0, SR_TID.X", "R2UR UR4, R0", "MOV R2, UR4", "LDS R5, [R2]", "EXIT"},
      second{"S2R R0, SR_TID.X", "SHFL.IDX PT, R2, R0, 0x1, 0x1f", "LDS R5, [R2]", "EXIT"},
      quarter{"S2R R0, SR_TID.X", "SHFL.IDX PT, R2, R0, 0x1, 0x181f", "LDS R5, [R2]", "EXIT"};
  const auto whole = [](const std::vector<const char*>& lines) { return numbers(lines, row, std::set<InstIndex>{}); };
  ASSERT_TRUE(whole(first) && whole(second));
  EXPECT_TRUE(whole(first)->known && whole(second)->known);
  EXPECT_EQ(whole(first)->numbers[100], 96u);
  EXPECT_EQ(whole(second)->numbers[100], 97u);
  EXPECT_EQ(whole(quarter), std::nullopt);
  EXPECT_EQ(numbers(second), std::nullopt) << "the lane may not be there";
  EXPECT_EQ(numbers({"S2UR UR4, SR_TID.X", "MOV R2, UR4", "LDS R5, [R2]", "EXIT"}), std::nullopt) << "of a lane that nobody knows";
}
// A uniform register belongs to the warp: lanes that come alone may find in it what others have written since.
TEST(LaneBases, UniformRegistersOfLanesThatComeAlone) {
  const std::vector<const char*> lines{"S2R R0, SR_TID.X", "UMOV UR4, 0x400", "@P0 BRA 0x40", "UIADD3 UR4, UR4, 0x200, URZ", "IADD3 R2, R0, UR4, RZ",
                                       "LDS R5, [R2]",     "EXIT"};
  EXPECT_FALSE(numbers(lines, row, std::set<InstIndex>{3})) << "those of the branch add to it";
  std::vector<const char*> other = lines;
  other[3] = "UIADD3 UR5, UR5, 0x200, URZ";
  EXPECT_TRUE(numbers(other, row, std::set<InstIndex>{3}));
  other[3] = "UMOV UR4, 0x400";
  EXPECT_FALSE(numbers(other, row, std::set<InstIndex>{3}));
  EXPECT_FALSE(numbers({"S2R R0, SR_CTAID.X", "@P0 VIADD R1, R0, 0x4", "R2UR UR4, R1", "MOV R2, UR4", "@P0 LDS R5, [R2]", "EXIT"}, row,
                       std::set<InstIndex>{}))
      << "the first lane may be one in which P0 does not hold";
}
// Where no lane is elsewhere, none writes it: from one whole block to the next, and from the entry on, until lanes may part.
TEST(LaneBases, UniformRegistersWhileNoLaneIsElsewhere) {
  const std::vector<const char*> lines{"S2R R0, SR_TID.X", "@P0 BRA 0x30", "UMOV UR4, 0x900", "UMOV UR4, 0x400", "@P1 BRA 0x60", "UMOV UR5, 0x1",
                                       "IADD3 R2, R0, UR4, RZ", "LDS R5, [R2]", "EXIT"};
  EXPECT_TRUE(numbers(lines, row, std::set<InstIndex>{2}));
  EXPECT_TRUE(numbers(lines, row, std::set<InstIndex>{2, 5})) << "nobody comes back to 0x900 from where all were together";
  std::vector<const char*> back = lines;
  back[7] = "@P2 BRA 0x10";
  back.insert(back.begin() + 7, "LDS R5, [R2]");
  EXPECT_TRUE(numbers(back, row, std::set<InstIndex>{2})) << "others are at the same place";
  EXPECT_FALSE(numbers(back, row, std::set<InstIndex>{2, 5, 6, 7, 8})) << "lanes that go through B4 may be there when others write 0x900";
  EXPECT_FALSE(numbers(lines, row, std::set<InstIndex>{2, 3, 4})) << "a way through lanes that came alone";
  std::set<InstIndex> all;
  for (InstIndex i = 0; i < 9; ++i) all.insert(i);
  EXPECT_FALSE(numbers(lines, row, all));
  EXPECT_FALSE(numbers({"S2R R0, SR_TID.X", "@P0 BRA 0x70", "UMOV UR4, 0x400", "@P1 BRA 0x70", "IADD3 R2, R0, UR4, RZ", "LDS R5, [R2]", "EXIT",
                        "UMOV UR4, 0x900", "EXIT"},
                       row, std::set<InstIndex>{2, 3, 4, 5, 6, 7, 8}))
      << "between two blocks of lanes that came alone the others may write 0x900";
  const std::vector<const char*> ends{"S2R R0, SR_TID.X", "UMOV UR4, 0x400", "@P0 EXIT", "IADD3 R2, R0, UR4, RZ", "LDS R5, [R2]", "EXIT"};
  EXPECT_TRUE(numbers(ends, row, all)) << "lanes that end do not come back";
  std::vector<const char*> parts = ends;
  parts[2] = "@P0 BRA 0x40";
  EXPECT_FALSE(numbers(parts, row, all));
}
// What a callee leaves alone comes to the return point from the call in front of it, whatever the other calls bring.
TEST(LaneBases, AcrossCalls) {
  // Two calls of the function at 0x60; only in front of the second is R2 known. 0x70 writes R3 and P0.
  const auto of = [](const char* second, const char* asks, const char* in_callee) {
    Code code = code_of({"S2R R0, SR_CTAID.X", "CALL.REL.NOINC 0x60", second, "CALL.REL.NOINC 0x60", asks, "EXIT", in_callee, "RET.REL.NODEC R20 0x0"});
    code.functions.push_back({"callee", 6, {7}, {1, 3}});
    const LaneBases lanes(code, {{7, 5, 3}, row});
    return lanes.before(4, 2);
  };
  EXPECT_TRUE(of("VIADD R2, R0, 0x4", "LDS R5, [R2]", "MOV R3, RZ"));
  EXPECT_FALSE(of("VIADD R2, R0, 0x4", "LDS R5, [R2]", "LDS R2, [RZ]")) << "the callee writes it";
  EXPECT_TRUE(of("@P0 VIADD R2, R0, 0x4", "@P0 LDS R5, [R2]", "MOV R3, RZ"));
  EXPECT_FALSE(of("@P0 VIADD R2, R0, 0x4", "@P0 LDS R5, [R2]", "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT")) << "other lanes behind the call";
  EXPECT_FALSE(of("VIADD R3, R0, 0x4", "LDS R5, [R2]", "MOV R2, R3")) << "R3 is not known at the first call";
}
// A number is a number on whatever way it came; another one is another base where all lanes come together.
TEST(LaneBases, NumbersWhereWaysMeet) {
  const std::vector<const char*> same{"S2R R0, SR_TID.X", "MOV R2, R0", "@P0 BRA 0x40", "IADD3 R2, R0, RZ, RZ", "LDS R5, [R2]", "EXIT"},
      other{"S2R R0, SR_TID.X", "MOV R2, R0", "@P0 BRA 0x40", "VIADD R2, R0, 0x40", "LDS R5, [R2]", "EXIT"};
  ASSERT_TRUE(numbers(same));
  EXPECT_TRUE(numbers(same)->known);
  EXPECT_EQ(numbers(other), std::nullopt);
  const auto joined = numbers(other, row, std::set<InstIndex>{});
  ASSERT_TRUE(joined);
  EXPECT_FALSE(joined->known);
  // Round after round by 64 bytes: the bits below stay known.
  const auto low = numbers({"S2R R0, SR_TID.X", "LOP3.LUT R2, R0, 0x3f, RZ, 0xc0, !PT", "LDS R5, [R2]", "VIADD R0, R0, 0x40", "@P1 BRA 0x10",
                            "EXIT"},
                           row, std::set<InstIndex>{});
  ASSERT_TRUE(low);
  EXPECT_TRUE(low->known);
  EXPECT_EQ(low->numbers[100], 36u);
}

// What a kernel of the fixtures gains: every access of the transposition, no matter its guard.
TEST(LaneBases, OfATransposition) {
  const Kernel k = fixture_kernel("transpose_tiled");
  const auto image = cubin::Image::parse(k.cubin);
  ASSERT_TRUE(image);
  const auto info = cubin::kernel_info(*image, k.name);
  ASSERT_TRUE(info);
  const auto code = read_code(*image, *info);
  ASSERT_TRUE(code);
  const Dim3 block{32, 8, 1};
  const LaneBases lanes(*code, {{4, 4, 1}, block, {0, 0, 0}, std::vector<bool>(code->insts.size(), true), find_blocks(*code).block_of});
  std::multiset<uint32_t> strides;
  for (InstIndex i = 0; i < code->insts.size(); ++i)
    for (uint8_t r = 0; r < 255; ++r)
      if (const auto l = lanes.before(i, r)) {
        const auto stride = stride_in(found_of(lanes, *l, block), block);
        ASSERT_TRUE(stride);
        strides.insert(stride->stride);
      }
  EXPECT_EQ(strides.count(4), 12u) << "loads, stores, and stores of a row of the tile";
  EXPECT_EQ(strides.count(132), 4u) << "loads of a column of the tile";
  EXPECT_EQ(strides.size(), 16u);
}

}  // namespace
}  // namespace xtrace::instrument::test
