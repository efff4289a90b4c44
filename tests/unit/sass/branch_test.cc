#include <gtest/gtest.h>

#include "instrument/sass/effects.h"
#include "instrument/sass/print.h"

namespace xtrace::sass {
namespace {

const Arch& arch(unsigned sm) { return **find_arch(sm); }

struct Branch {
  unsigned sm;
  RawInst word;
  uint32_t pc;
  int64_t target;
  bool bssy;
};
// Words of compiled kernels at their places. [nvdisasm 13]
const Branch branches[] = {
    {90, {0xfffffffc00fc7947, 0x000fc0000383ffff}, 0x250, 0x250, false},  // BRA .
    {90, {0x0000000000f81947, 0x000ff40003800000}, 0x100, 0x4f0, false},  // @P1 BRA
    {90, {0x000005a000007945, 0x000fe20003800000}, 0x120, 0x6d0, true},   // BSSY B0
    {90, {0x0000000000107944, 0x000fea0003c00000}, 0x710, 0x760, false},  // CALL.REL.NOINC
    {90, {0x000000001014794e, 0x000fce0000000000}, 0x40, 0x60, false},    // LEPC R20
    {90, {0x0000003a06d47947, 0x000fe2000b800000}, 0x30, 0x3e90 - 0x50 + 0x80 - 0x30, false},  // BRA.DIV UR6
    {75, {0xfffffff000007947, 0x000fc0000383ffff}, 0x250, 0x250, false},
    {75, {0x0000004000007944, 0x002fea0003c00000}, 0x700, 0x750, false},
    {75, {0x0000049000007945, 0x000fe20003800000}, 0xe0, 0x580, true},
    {80, {0xfffffff000007947, 0x000fc0000383ffff}, 0x10, 0x10, false},
    {100, {0xfffffffc00fc7947, 0x000fc0000383ffff}, 0x30, 0x30, false},
    {100, {0xfffffffd00cc7547, 0x000fec000b83ffff}, 0x500, 0x500 + 16 - 0x334 + 0, false},  // BRA.U UP0
};

TEST(Branch, SetTargetInvertsEffects) {
  for (const Branch& b : branches) {
    const Arch& a = arch(b.sm);
    const Effects e = effects(a, b.word, b.pc);
    ASSERT_TRUE(e.known);
    ASSERT_TRUE(e.target.has_value()) << print(a, b.word, b.pc);
    EXPECT_EQ(e.is_bssy_target, b.bssy);
    for (int64_t target : {int64_t{0}, int64_t{0x10}, int64_t{0x7ffff0}, int64_t{b.pc}, *e.target}) {
      RawInst w = b.word;
      const uint32_t pc = b.pc + 0x1230;
      ASSERT_TRUE(set_target(a, w, pc, target).has_value());
      const Effects moved = effects(a, w, pc);
      EXPECT_EQ(moved.target, target) << print(a, w, pc);
      EXPECT_EQ(opcode13(w), opcode13(b.word));
      EXPECT_EQ(get_control(w), get_control(b.word));
      // Everything but the target field is untouched: writing the old distance gives the old word back.
      ASSERT_TRUE(set_target(a, w, b.pc, *e.target).has_value());
      EXPECT_EQ(w, b.word);
    }
  }
}

TEST(Branch, TargetsOfCompiledCode) {
  for (size_t i : {0u, 1u, 2u, 3u, 4u, 6u, 7u, 8u, 9u, 10u}) {
    const Branch& b = branches[i];
    EXPECT_EQ(effects(arch(b.sm), b.word, b.pc).target, b.target) << i;
  }
}

TEST(Branch, WarpsyncCollectiveHasATargetAndPlainWarpsyncHasNone) {
  const RawInst collective{0x0000000043087348, 0x000fe20003c00000},
      plain{0x0000000019007348, 0x000fe20003800000};
  EXPECT_EQ(effects(arch(90), collective, 0x100).target, 0x100 + 16 + 8 * 4);
  EXPECT_FALSE(effects(arch(90), plain, 0x100).target.has_value());
  // Before sm_90 the same bits mean .EXCLUSIVE, and LEPC may take its own address.
  EXPECT_FALSE(effects(arch(80), {0x0000000700007348, 0x000fe20003c00000}, 0x100).target.has_value());
  EXPECT_FALSE(effects(arch(80), {0x000000000010734e, 0x000fe20000000000}, 0x100).target.has_value());
  RawInst w = plain;
  const Status s = set_target(arch(90), w, 0x100, 0x200);
  ASSERT_FALSE(s.has_value());
  EXPECT_EQ(s.error().kind, ErrorKind::internal);
}

TEST(Branch, RefusesWhatDoesNotFit) {
  RawInst bssy{0x000005a000007945, 0x000fe20003800000};
  const RawInst before = bssy;
  const Status far = set_target(arch(90), bssy, 0, (int64_t{1} << 31) + 16);
  ASSERT_FALSE(far.has_value());
  EXPECT_EQ(far.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(bssy, before);
  const Status odd = set_target(arch(90), bssy, 0, 0x12);
  ASSERT_FALSE(odd.has_value());
  EXPECT_EQ(odd.error().kind, ErrorKind::unsupported);
  ASSERT_TRUE(set_target(arch(90), bssy, 0, (int64_t{1} << 31) + 12).has_value());  // the last that fits
}

TEST(Branch, RegisterBase) {
  // RET.REL.NODEC R2 and BRX R2, both relative to the section start.
  const RawInst ret{0xfffffff402a07950, 0x000fea0003c3ffff}, brx{0xfffffffc029c7949, 0x000fea000383ffff};
  EXPECT_EQ(register_branch_base(arch(90), ret, 0x970), 0);
  EXPECT_EQ(register_branch_base(arch(90), brx, 0x180), 0);
  const RawInst ret75{0xfffff7d002007950, 0x000fea0003c3ffff};
  EXPECT_EQ(register_branch_base(arch(75), ret75, 0x820), 0);
  for (RawInst w : {ret, brx}) {
    ASSERT_TRUE(set_register_branch_base(arch(90), w, 0x4560, 0).has_value());
    EXPECT_EQ(register_branch_base(arch(90), w, 0x4560), 0);
    ASSERT_TRUE(set_register_branch_base(arch(90), w, 0x4560, 0x80).has_value());
    EXPECT_EQ(register_branch_base(arch(90), w, 0x4560), 0x80);
  }
  // RET.ABS ([85]) and BRA have no such base.
  RawInst absolute = ret;
  absolute.hi |= 1ull << 21;
  EXPECT_FALSE(register_branch_base(arch(90), absolute, 0).has_value());
  RawInst bra{0xfffffffc00fc7947, 0x000fc0000383ffff};
  EXPECT_FALSE(register_branch_base(arch(90), bra, 0).has_value());
  EXPECT_FALSE(set_register_branch_base(arch(90), bra, 0, 0).has_value());
}

struct Falls {
  const char* what;
  RawInst word;
  Flow flow;
  bool falls_through;
};
TEST(Branch, FallsThrough) {
  const Falls rows[] = {
      {"BRA", {0x0000000000107947, 0x000ff40003800000}, Flow::branch, false},
      {"@P1 BRA", {0x0000000000101947, 0x000ff40003800000}, Flow::branch, true},
      {"BRA P1", {0x0000000000107947, 0x000ff40000800000}, Flow::branch, true},
      {"BRA !PT", {0x0000000000107947, 0x000ff40007800000}, Flow::branch, true},
      {"BRA.DIV UR6", {0x0000003a06d47947, 0x000fe2000b800000}, Flow::branch, true},
      {"BRA.DIV", {0x0000000200107947, 0x000ff40003800000}, Flow::branch, true},
      {"BRA.U", {0x0000000100107947, 0x000ff40003800000}, Flow::branch, false},
      {"EXIT", {0x000000000000794d, 0x000fea0003800000}, Flow::exit, false},
      {"@P0 EXIT", {0x000000000000094d, 0x000fea0003800000}, Flow::exit, true},
      {"EXIT P0", {0x000000000000794d, 0x000fea0000000000}, Flow::exit, true},
      {"RET", {0xfffffff402a07950, 0x000fea0003c3ffff}, Flow::ret, false},
      {"BRX", {0xfffffffc029c7949, 0x000fea000383ffff}, Flow::branch_indirect, false},
      {"CALL.REL", {0x0000000000107944, 0x000fea0003c00000}, Flow::call_relative, true},
      {"CALL.ABS", {0x0000000004007343, 0x000fe20003c00000}, Flow::call_other, true},
      {"BPT.TRAP", {0x000000040000795c, 0x000fe20000300000}, Flow::kill, true},
      {"BSSY", {0x000005a000007945, 0x000fe20003800000}, Flow::next, true},
  };
  for (const Falls& r : rows) {
    const Effects e = effects(arch(90), r.word, 0x100);
    EXPECT_EQ(e.flow, r.flow) << r.what;
    EXPECT_EQ(e.falls_through, r.falls_through) << r.what;
  }
}

}  // namespace
}  // namespace xtrace::sass
