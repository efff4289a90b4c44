// Convergence barriers that functions save and use again, and warps that part by the masks of their lanes.
#include "instrument/sass/assemble.h"
#include "tests/unit/interp/engine_fixture.h"

namespace xtrace::interp_test {
namespace {

TEST_F(EngineTest, AFunctionMayWaitAtTheBarrierOfItsCaller) {
  // Lanes below 8 wait at B7; the others save it, meet in two groups at the same B7, and restore it.
  std::vector<sass::RawInst> k;
  const Gpr tid{0}, mask{2};
  k.push_back(enc::s2r(tid, enc::sr_tid_x));
  k.push_back(enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 8));
  k.push_back(enc::isetp_imm(Pred{1}, enc::Compare::lt, false, tid, 20));
  k.push_back(bssy(7, 0x30, 0xd0));
  k.push_back(enc::with_guard(enc::bra(0x40, 0x60), Pred{0}, true));
  k.push_back(enc::bra(0x50, 0xc0));
  k.push_back(word(0x0000000007067355, 0x001e2a0000100000));  // 0x60 BMOV.32.CLEAR R6, B7
  k.push_back(bssy(7, 0x70, 0xb0));
  k.push_back(enc::with_guard(enc::bra(0x80, 0xa0), Pred{1}));
  k.push_back(enc::nop());
  k.push_back(bsync(7));                                      // 0xa0
  k.push_back(word(0x0000000607007356, 0x0001ea0000000000));  // BMOV.32 B7, R6
  k.push_back(bsync(7));                                      // 0xc0
  k.push_back(enc::vote_any_active(mask));
  store_cell(k, mask, tid, {4});
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  for (unsigned lane : {0, 7, 8, 19, 20, 31}) EXPECT_EQ(cell(lane), ~0u) << lane;
}

TEST_F(EngineTest, BreakInAFunctionLeavesTheBarrierOfItsCallerAlone) {
  // Lanes from 8 on wait at B6; the others save it, and those below 4 leave the B6 that they make of it.
  std::vector<sass::RawInst> k;
  const Gpr tid{0}, mask{2};
  k.push_back(enc::s2r(tid, enc::sr_tid_x));
  k.push_back(enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 8));
  k.push_back(enc::isetp_imm(Pred{1}, enc::Compare::lt, false, tid, 4));
  k.push_back(bssy(6, 0x30, 0xe0));
  k.push_back(enc::with_guard(enc::bra(0x40, 0x60), Pred{0}));
  k.push_back(enc::bra(0x50, 0xd0));
  k.push_back(word(0x0000000006067355, 0x001e2a0000100000));  // 0x60 BMOV.32.CLEAR R6, B6
  k.push_back(bssy(6, 0x70, 0xc0));
  k.push_back(enc::with_guard(break_barrier(6), Pred{1}));
  k.push_back(enc::with_guard(enc::bra(0x90, 0xc0), Pred{1}));
  k.push_back(enc::nop());
  k.push_back(bsync(6));                                      // 0xb0
  k.push_back(word(0x0000000606007356, 0x0001ea0000000000));  // 0xc0 BMOV.32 B6, R6
  k.push_back(bsync(6));                                      // 0xd0
  k.push_back(enc::vote_any_active(mask));
  store_cell(k, mask, tid, {4});
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  for (unsigned lane : {0, 4, 8, 31}) EXPECT_EQ(cell(lane), ~0u) << lane;
}

TEST_F(EngineTest, LanesOfOneMaskGoOnWithoutTheOthers) {
  std::vector<sass::RawInst> k;
  const Gpr tid{0}, mask{2}, mine{3};
  k.push_back(enc::s2r(tid, enc::sr_tid_x));
  k.push_back(enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 8));
  k.push_back(enc::mov_imm(mine, 0xffffff00));
  k.push_back(enc::with_guard(enc::mov_imm(mine, 0x000000ff), Pred{0}));
  k.push_back(word(0x0000000003007348, 0x000fea0003a00000));  // WARPSYNC.EXCLUSIVE R3
  k.push_back(enc::vote_any_active(mask));
  store_cell(k, mask, tid, {4});
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_EQ(cell(3), 0x000000ffu);
  EXPECT_EQ(cell(8), 0xffffff00u);
}

TEST_F(EngineTest, LanesThatWaitAtAWarpsyncAreNotWaitedForWhereLanesMeet) {
  // Lanes below 8 leave B0 without BREAK; later they come to a BSYNC of it, at which nobody waits for the others.
  std::vector<sass::RawInst> k;
  const Gpr tid{0}, mask{2};
  k.push_back(enc::s2r(tid, enc::sr_tid_x));
  k.push_back(enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 8));
  k.push_back(bssy(0, 0x20, 0x50));
  k.push_back(enc::with_guard(enc::bra(0x30, 0x50), Pred{0}));
  k.push_back(bsync(0));
  k.push_back(warpsync_all());  // 0x50
  k.push_back(enc::vote_any_active(mask));
  store_cell(k, mask, tid, {4});
  k.push_back(enc::with_guard(bsync(0), Pred{0}));
  k.push_back(bar_sync(0));
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  for (unsigned lane : {0, 7, 8, 31}) EXPECT_EQ(cell(lane), ~0u) << lane;
}

TEST_F(EngineTest, AGuardOfACtaBarrierDoesNotDivideTheWarp) {
  std::vector<sass::RawInst> k;
  const Gpr tid{0}, mask{2};
  k.push_back(enc::s2r(tid, enc::sr_tid_x));
  k.push_back(enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 8));
  k.push_back(enc::with_guard(bar_sync(0), Pred{0}));
  k.push_back(enc::vote_any_active(mask));
  store_cell(k, mask, tid, {4});
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  for (unsigned lane : {0, 7, 8, 31}) EXPECT_EQ(cell(lane), ~0u) << lane;
}

TEST_F(EngineTest, LanesThatDoNotNameThemselvesAreAnIllegalInstruction) {
  std::vector<sass::RawInst> k;
  k.push_back(enc::mov_imm({3}, 0x0000ffff));
  k.push_back(word(0x0000000003087348, 0x000fea0003c00000));  // WARPSYNC.COLLECTIVE R3, 0x40
  k.push_back(enc::nop());
  k.push_back(word(0x000000000000791b, 0x000fea0003800000));  // ENDCOLLECTIVE
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::device);
  EXPECT_NE(r.error().message.find("an illegal instruction"), std::string::npos) << r.error().to_string();
}

// Kernels in which lanes meet here that an H200 lets come one after the other. `cell` i gets R6 of lane i.
class MeetingOfLanesApart : public EngineTest {
 protected:
  Result<EngineResult> run_lines(std::initializer_list<const char*> lines) {
    std::vector<sass::RawInst> k;
    for (const char* line : lines) {
      const auto w = sass::assemble(**sass::find_arch(90), line, static_cast<int64_t>(k.size() * sass::inst_bytes));
      if (!w) return tl::make_unexpected(w.error());
      k.push_back(*w);
    }
    store_cell(k, {6}, {0}, {4});
    k.push_back(enc::exit());
    return run(k);
  }
  // Lanes below 8 call a function that saves B6, at which the others meet them afterwards, and uses it again; inside of it they
  // execute `inside`. Where all have met they execute the rest, and R6 is UR4. [measured H200 2026-11-30: with YIELD and UIADD3
  // it is 0x600 for the others, and 0x800 for them; with NOP or WARPSYNC.ALL 0x600 for all]
  Result<EngineResult> run_call(const char* inside, const char* behind, const char* change) {
    return run_lines({"S2R R0, SR_TID.X", "ISETP.GE.U32.AND P0, PT, R0, 0x8, PT", "UMOV UR4, 0x400", "BSSY B6, 0xb0", "@P0 BRA 0xa0",
                      "BMOV.32.CLEAR R2, B6", "BSSY B6, 0x90", inside, "BSYNC B6", "BMOV.32 B6, R2", "BSYNC B6", behind, change,
                      "MOV R6, UR4"});
  }
  // Lanes below 8 yield, and then read UR4, while the others wait for them; then all write it.
  Result<EngineResult> run_yield(const char* first, const char* second) {
    return run_lines({"S2R R0, SR_TID.X", "ISETP.GE.U32.AND P0, PT, R0, 0x8, PT", "UMOV UR4, 0x400", "BSSY B0, 0x80", "@P0 BRA 0x70",
                      first, second, "BSYNC B0", "UMOV UR4, 0x600"});
  }
  void expect_refused(const Result<EngineResult>& r, std::initializer_list<const char*> parts) {
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().kind, ErrorKind::unsupported);
    for (const char* part : parts) EXPECT_NE(r.error().message.find(part), std::string::npos) << part << ": " << r.error().to_string();
    EXPECT_NE(r.error().hint.find("__syncwarp()"), std::string::npos) << r.error().to_string();
  }
};

TEST_F(MeetingOfLanesApart, IsRefusedWhereAUniformRegisterWouldChangeTwice) {
  expect_refused(run_call("YIELD", "NOP", "UIADD3 UR4, UR4, 0x200, URZ"),
                 {"at 0x00c0: UIADD3", "UR4 changes here for one group", "the BSYNC at 0x00a0", "convergence barrier B6"});
}
TEST_F(MeetingOfLanesApart, IsRefusedWhereAUniformPredicateWouldChangeTwice) {
  expect_refused(run_call("YIELD", "@UP0 UIADD3 UR4, UR4, 0x200, URZ", "UISETP.EQ.U32.AND UP0, UPT, UR4, 0x400, UPT"),
                 {"at 0x00c0: UISETP", "UP0 changes here"});
}
TEST_F(MeetingOfLanesApart, IsRefusedWhereLanesThatYieldedReadWhatOthersMayHaveChanged) {
  expect_refused(run_yield("YIELD", "MOV R6, UR4"), {"at 0x0080: UMOV UR4", "the BSYNC at 0x0070 the hardware waits for no lanes that yield"});
}
TEST_F(MeetingOfLanesApart, IsOneWhereNothingDependsOnIt) {
  struct {
    const char *inside, *behind, *change;
    uint32_t left;
  } const calls[] = {{"NOP", "NOP", "UIADD3 UR4, UR4, 0x200, URZ", 0x600},             // nobody comes in between
                     {"YIELD", "WARPSYNC.ALL", "UIADD3 UR4, UR4, 0x200, URZ", 0x600},  // all wait here
                     {"YIELD", "NOP", "UMOV UR4, 0x600", 0x600},
                     {"YIELD", "UMOV UR4, 0x500", "UIADD3 UR4, UR4, 0x100, URZ", 0x600},
                     {"YIELD", "UIADD3 UR4, UR4, 0x200, URZ", "UIADD3 UR4, UR4, -0x200, URZ", 0x400}};  // as it was
  for (const auto& c : calls) {
    const auto r = run_call(c.inside, c.behind, c.change);
    ASSERT_TRUE(r) << r.error().to_string();
    for (unsigned lane : {0, 7, 8, 31}) EXPECT_EQ(cell(lane), c.left) << lane << ' ' << c.inside << ' ' << c.behind;
  }
  const auto r = run_yield("MOV R6, UR4", "YIELD");
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_EQ(cell(7), 0x400u);
}

}  // namespace
}  // namespace xtrace::interp_test
