#include "instrument/sass/effects.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "instrument/sass/print.h"

namespace xtrace::sass {
namespace {

const Arch& arch(unsigned sm) { return **find_arch(sm); }

// An operand whose count is an upper bound never counts as overwritten.
TEST(Effects, UncertainDefinitionsAreAlsoUses) {
  const RawInst tex{0x000004ff0b20ef60, 0x000fe200089e03ff};
  const Effects e = effects(arch(90), tex, 0);
  EXPECT_EQ((e.def.gpr & ~e.use.gpr).count(), 0u);
  EXPECT_EQ(e.def.gpr.count(), 4u);
  EXPECT_FALSE(e.exact);
  const RawInst tld{0x000004ff0b20ef66, 0x000fe200089e03ff};  // 1D, level zero, two components
  EXPECT_TRUE(effects(arch(90), tld, 0).exact);
  const RawInst tld_2d{0x200004ff0b20ef66, 0x000fe200089e03ff};
  EXPECT_FALSE(effects(arch(90), tld_2d, 0).exact);
}

// Chips that lack a unit run these instructions elsewhere: the code then carries a scoreboard.
TEST(Effects, ScoreboardOverridesFixedLatency) {
  RawInst hadd2{0x000000ff0c007230, 0x000fe20000000800};
  EXPECT_TRUE(effects(arch(75), hadd2, 0).fixed_latency);
  EXPECT_EQ(effects(arch(75), hadd2, 0).late_queue, LateQueue::none);
  Control c = get_control(hadd2);
  c.write_barrier = 2;
  set_control(hadd2, c);
  EXPECT_FALSE(effects(arch(75), hadd2, 0).fixed_latency);
  EXPECT_EQ(effects(arch(75), hadd2, 0).late_queue, LateQueue::other);
}

struct Memory {
  const char* text;
  RawInst word;
  MemSpace space;
  MemKind kind;
  unsigned bytes;
};
TEST(Effects, MemoryAccesses) {
  const Memory rows[] = {
      {"LDG.E.64", {0x00001004061e7981, 0x000fe2000c1e1b00}, MemSpace::global, MemKind::load, 8},
      {"LDG.E.U8", {0x0000200802082981, 0x000fe2000c1e9100}, MemSpace::global, MemKind::load, 1},
      {"STG.E.128", {0x000000101a004386, 0x000fe20000100d00}, MemSpace::global, MemKind::store, 16},
      {"STG.E.U16", {0x000004ec7e00d986, 0x000fe2000c101508}, MemSpace::global, MemKind::store, 2},
      {"LD.E.128", {0x0020000a0a144980, 0x000fe2000c115d00}, MemSpace::generic, MemKind::load, 16},
      {"LDS.64", {0x000058004b4e7984, 0x000fe20000000a00}, MemSpace::shared, MemKind::load, 8},
      {"STS.128", {0x0000001428007388, 0x000fe20000000c00}, MemSpace::shared, MemKind::store, 16},
      {"LDL.64", {0x0000500001102983, 0x000fe20000100a00}, MemSpace::local, MemKind::load, 8},
      {"ULDC.64", {0x00012a0000167ab9, 0x000fe20000000a00}, MemSpace::constant, MemKind::load, 8},
      {"ATOMG.ADD.64", {0x0000000c080879a8, 0x000fe200081ee5c6}, MemSpace::global, MemKind::atomic, 8},
      {"ATOMS.ADD", {0x000000343131738c, 0x000fe20000000000}, MemSpace::shared, MemKind::atomic, 4},
      {"REDG.F64", {0x00000026240079a6, 0x000fe2000c10ff84}, MemSpace::global, MemKind::reduction, 8},
      {"LDGSTS.128", {0x1800000028067fae, 0x000fe2000b901c4a}, MemSpace::global, MemKind::async, 16},
      {"LDSM", {0x00400000d410783b, 0x000fe20000000200}, MemSpace::shared, MemKind::other, 0},
      {"UTMASTG", {0x00000e18260073b5, 0x000fe20008019000}, MemSpace::global, MemKind::async, 0},
      {"FADD", {0x0000000000007221, 0x000fe20000000000}, MemSpace::none, MemKind::none, 0},
  };
  for (const Memory& r : rows) {
    const Effects e = effects(arch(90), r.word, 0);
    EXPECT_EQ(e.space, r.space) << r.text;
    EXPECT_EQ(e.kind, r.kind) << r.text;
    EXPECT_EQ(e.access_bytes, r.bytes) << r.text;
  }
}

struct Scheduling {
  const char* text;
  RawInst word;
  bool fixed;
  LateQueue queue;
  bool switches;
};
TEST(Effects, SchedulingOnSm90) {
  const Scheduling rows[] = {
      {"FADD", {0x0000000000007221, 0x000fe20000000000}, true, LateQueue::none, false},
      {"DADD", {0x0000000018187229, 0x000fca0000000018}, true, LateQueue::none, false},
      {"DMMA", {0x000000120c24723f, 0x000fe20000000024}, false, LateQueue::other, false},
      {"HMMA", {0x0000002e5c7c723c, 0x000fe2000000187c}, true, LateQueue::none, false},
      {"R2UR", {0x00000000080a72ca, 0x001fe200000e0000}, true, LateQueue::none, false},
      {"CS2R", {0x0000000000107805, 0x000fe2000001ff00}, true, LateQueue::none, false},
      {"ULDC", {0x0000820000047ab9, 0x000fe20000000a00}, true, LateQueue::none, false},
      {"S2R", {0x0000000000007919, 0x000e2e0000002100}, false, LateQueue::other, false},
      {"LDG", {0x0000000402007981, 0x0000a4000c1e1900}, false, LateQueue::lsu, false},
      {"LDC", {0x00000a00ff017b82, 0x000fe20000000800}, false, LateQueue::lsu, false},
      {"SHFL", {0x0420000000047989, 0x004e2400000e00ff}, false, LateQueue::lsu, false},
      {"MUFU", {0x0000000300057308, 0x000e240000001c00}, false, LateQueue::xu, false},
      {"F2F", {0x0000000300127310, 0x000fe20000201800}, false, LateQueue::xu, false},
      {"MEMBAR", {0x0000000000007992, 0x000fe2000000b000}, false, LateQueue::other, false},
      {"DEPBAR", {0x000080000000791a, 0x000fe20000000000}, true, LateQueue::none, false},
      {"LEPC", {0x000000001014794e, 0x000fce0000000000}, true, LateQueue::none, false},
      {"BRA", {0x0000000000107947, 0x000ff40003800000}, false, LateQueue::branch, true},
      {"BSSY", {0x000005a000007945, 0x000fe20003800000}, false, LateQueue::branch, false},
      {"BSYNC", {0x0000000000007941, 0x000fea0003800000}, false, LateQueue::branch, true},
      {"WARPSYNC", {0x0000000019007348, 0x000fe20003800000}, false, LateQueue::branch, true},
      {"YIELD", {0x0000000000007946, 0x000fe20003800000}, false, LateQueue::branch, true},
      {"NANOSLEEP", {0x000001c20000795d, 0x000fe20003800000}, false, LateQueue::branch, true},
      {"CALL", {0x0000000000107944, 0x000fea0003c00000}, false, LateQueue::branch, true},
      {"RET", {0xfffffff402a07950, 0x000fea0003c3ffff}, false, LateQueue::branch, true},
      {"EXIT", {0x000000000000794d, 0x000fea0003800000}, false, LateQueue::branch, true},
      {"BREAK", {0x0000000000030942, 0x000fea0003800000}, false, LateQueue::branch, true},
      {"BAR", {0x0000000000007b1d, 0x000fec0000010000}, false, LateQueue::other, true},
      {"SYNCS.PHASECHK", {0x00008802ff0075a7, 0x000fe20008080147}, false, LateQueue::other, true},
      {"SYNCS.ARRIVE", {0x0001380effff79a7, 0x000fe20008000007}, false, LateQueue::other, false},
      {"ENDCOLLECTIVE", {0x000000000000791b, 0x000fe20003800000}, true, LateQueue::none, true},
      {"UCGABAR_WAIT", {0x0000000000007dc7, 0x000fe20008000000}, false, LateQueue::branch, true},
      {"VOTE", {0x00000000000a7806, 0x000fe200018e0100}, true, LateQueue::none, false},
  };
  for (const Scheduling& r : rows) {
    const Effects e = effects(arch(90), r.word, 0);
    ASSERT_TRUE(e.known) << r.text;
    EXPECT_EQ(e.fixed_latency, r.fixed) << r.text;
    EXPECT_EQ(e.late_queue, r.queue) << r.text;
    EXPECT_EQ(e.may_switch_path, r.switches) << r.text;
  }
}

TEST(Effects, DoublePrecisionNeedsAScoreboardElsewhere) {
  const RawInst dadd{0x0000000018187229, 0x000fca0000000018};
  EXPECT_TRUE(effects(arch(90), dadd, 0).fixed_latency);
  EXPECT_TRUE(effects(arch(100), dadd, 0).fixed_latency);
  for (unsigned sm : {75u, 80u, 86u, 89u, 103u, 120u})
    EXPECT_FALSE(effects(arch(sm), dadd, 0).fixed_latency) << sm;
}

TEST(Effects, Guards) {
  const Effects p =
      effects(arch(90), {0x000000ff06101208, 0x000fe40001000000}, 0);  // @P1 FSEL R16, R6, RZ, P2
  EXPECT_TRUE(p.guarded);
  EXPECT_EQ(p.use.pred, 0x6);
  EXPECT_EQ(p.use.upred, 0);
  const Effects up = effects(arch(90), {0x000000000000889c, 0x000fe20003f4f040}, 0);  // @!UP0 UPLOP3
  EXPECT_TRUE(up.guarded);
  EXPECT_EQ(up.use.pred, 0);
  EXPECT_EQ(up.use.upred, 0x11);
  const Effects never = effects(arch(90), {0x000000000000f918, 0x000fc00000000000}, 0);  // @!PT NOP
  EXPECT_TRUE(never.guarded);
  EXPECT_EQ(never.use.pred, 0);
  EXPECT_FALSE(effects(arch(90), {0x0000000000007918, 0x000fc00000000000}, 0).guarded);
  const Effects s2ur = effects(arch(90), {0x00000000000889c3, 0x000fe20000008800}, 0);  // @!UP0 S2UR
  EXPECT_EQ(s2ur.use.pred, 0);
  EXPECT_EQ(s2ur.use.upred, 1);
  // R2UR and VOTEU run on the uniform datapath but are guarded by an ordinary predicate.
  EXPECT_EQ(effects(arch(90), {0x00000000120e32ca, 0x000fe200000e0000}, 0).use.pred, 0x8);
  EXPECT_EQ(effects(arch(90), {0x00000000003f8886, 0x000fe20002080100}, 0).use.pred, 0x11);
}

TEST(Effects, Depbar) {
  const Effects groups =
      effects(arch(90), {0x0000d1400000791a, 0x000fe20000000000}, 0);  // DEPBAR.LE SB5, 0x5
  EXPECT_TRUE(groups.uses_scoreboard_count);
  EXPECT_EQ(groups.depbar_scoreboard, 5);
  const Effects zero = effects(arch(90), {0x000090000000791a, 0x000fe20000000000}, 0);  // DEPBAR.LE SB1, 0x0
  EXPECT_FALSE(zero.uses_scoreboard_count);
  EXPECT_EQ(zero.depbar_scoreboard, 1);
  EXPECT_EQ(effects(arch(90), {0x0000003f0000791a, 0x000fe20000000000}, 0).depbar_scoreboard,
            7);  // DEPBAR {5,..0}
}

TEST(Effects, WarpgroupAndRegisterLimit) {
  const Effects hgmma = effects(arch(90), {0x01e00000145879f0, 0x000fe2000c7008ff}, 0);
  EXPECT_TRUE(hgmma.async_registers);
  EXPECT_FALSE(hgmma.fixed_latency);
  EXPECT_FALSE(effects(arch(90), {0x0000002e5c7c723c, 0x000fe2000000187c}, 0).async_registers);  // HMMA
  EXPECT_TRUE(effects(arch(90), {0x000000e8000079c8, 0x000fe20008000600}, 0).changes_register_limit);
  EXPECT_EQ(effects(arch(90), {0x000000e8000079c8, 0x000fe20008000600}, 0).register_limit, 0xe8u);
  EXPECT_FALSE(hgmma.changes_register_limit);
}

// A straight-line kernel with known registers: nothing is live at entry, and reading the instructions in
// order reproduces what each of them may rely on.
TEST(Effects, NothingIsLiveAtEntryOfACompiledKernel) {
  const RawInst kernel[] = {
      {0x00000a00ff017b82, 0x000fe20000000800},  // LDC R1, c[0x0][0x28]
      {0x0000000000007919, 0x000e2e0000002100},  // S2R R0, SR_TID.X
      {0x00000000000479c3, 0x000e300000002500},  // S2UR UR4, SR_CTAID.X
      {0x00000000ff057b82, 0x000e240000000800},  // LDC R5, c[0x0][RZ]
      {0x0000000405057c24, 0x001fe2000f8e0200},  // IMAD R5, R5, UR4, R0
      {0x0000880000047ab9, 0x000fc80000000800},  // ULDC UR4, c[0x0][0x220]
      {0x0000000405007c0c, 0x000fda000bf06270},  // ISETP.GE.AND P0, PT, R5, UR4, PT
      {0x000000000000094d, 0x000fea0003800000},  // @P0 EXIT
      {0x00008400ff027b82, 0x000e220000000a00},  // LDC.64 R2, c[0x0][0x210]
      {0x0000820000047ab9, 0x000fe20000000a00},  // ULDC.64 UR4, c[0x0][0x208]
      {0x0000000405027825, 0x001fca00078e0202},  // IMAD.WIDE R2, R5, 0x4, R2
      {0x0000000402007981, 0x0000a4000c1e1900},  // LDG.E R0, desc[UR4][R2.64]
      {0x0000000702007986, 0x0001d8000c101904},  // STG.E desc[UR4][R2.64], R7
  };
  RegSet gpr, ur;
  PredSet pred = 0;
  for (size_t i = std::size(kernel); i-- > 0;) {
    const Effects e = effects(arch(90), kernel[i], static_cast<uint32_t>(i * 16));
    if (!e.guarded) {
      gpr &= ~e.def.gpr;
      ur &= ~e.def.ur;
      pred = static_cast<PredSet>(pred & ~e.def.pred);
    }
    gpr |= e.use.gpr;
    ur |= e.use.ur;
    pred = static_cast<PredSet>(pred | e.use.pred);
  }
  RegSet only_r7;  // the last store's datum comes from code left out here
  only_r7.set(7);
  EXPECT_EQ(gpr, only_r7);
  EXPECT_TRUE(ur.none());
  EXPECT_EQ(pred, 0);
}

}  // namespace
}  // namespace xtrace::sass
