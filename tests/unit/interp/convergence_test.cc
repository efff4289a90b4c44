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

// Lanes below 8 call a function that saves B6, at which the others meet them afterwards, and uses it again; inside of it they
// execute `inside`. Where all have met they execute `behind` and then `change`, and every lane stores UR4.
struct Meeting {
  const char *inside, *behind, *change;
};
class MeetingBehindACall : public EngineTest, public testing::WithParamInterface<Meeting> {
 protected:
  Result<EngineResult> run_meeting(const Meeting& m) {
    std::vector<sass::RawInst> k;
    for (const char* line :
         {"S2R R0, SR_TID.X", "ISETP.GE.U32.AND P0, PT, R0, 0x8, PT", "UMOV UR4, 0x400", "BSSY B6, 0xb0", "@P0 BRA 0xa0",
          "BMOV.32.CLEAR R2, B6", "BSSY B6, 0x90", m.inside, "BSYNC B6", "BMOV.32 B6, R2", "BSYNC B6", m.behind, m.change,
          "MOV R6, UR4"}) {
      const auto w = sass::assemble(**sass::find_arch(90), line, static_cast<int64_t>(k.size() * sass::inst_bytes));
      if (!w) return tl::make_unexpected(w.error());
      k.push_back(*w);
    }
    store_cell(k, {6}, {0}, {4});
    k.push_back(enc::exit());
    return run(k);
  }
};

TEST_F(MeetingBehindACall, IsRefusedWhereAUniformRegisterWouldChangeTwice) {
  const auto r = run_meeting({"YIELD", "NOP", "UIADD3 UR4, UR4, 0x200, URZ"});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::unsupported);
  for (const char* part : {"at 0x00c0: UIADD3", "UR4 changes once for each group", "the BSYNC at 0x00a0", "convergence barrier B6"})
    EXPECT_NE(r.error().message.find(part), std::string::npos) << part << ": " << r.error().to_string();
  EXPECT_NE(r.error().hint.find("__syncwarp()"), std::string::npos) << r.error().to_string();
}
TEST_F(MeetingBehindACall, SpoilsUniformPredicatesToo) {
  const auto r = run_meeting({"YIELD", "@UP0 UIADD3 UR4, UR4, 0x200, URZ", "UISETP.EQ.U32.AND UP0, UPT, UR4, 0x400, UPT"});
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message.find("UP0 changes once"), std::string::npos) << r.error().to_string();
}
TEST_P(MeetingBehindACall, IsOneWhereNothingDependsOnIt) {
  const auto r = run_meeting(GetParam());
  ASSERT_TRUE(r) << r.error().to_string();
  for (unsigned lane : {0, 7, 8, 31}) EXPECT_EQ(cell(lane), 0x600u) << lane;
}
INSTANTIATE_TEST_SUITE_P(Kernels, MeetingBehindACall,
                         testing::Values(Meeting{"NOP", "NOP", "UIADD3 UR4, UR4, 0x200, URZ"},            // nobody comes in between
                                         Meeting{"YIELD", "WARPSYNC.ALL", "UIADD3 UR4, UR4, 0x200, URZ"},  // all wait here
                                         Meeting{"YIELD", "NOP", "UMOV UR4, 0x600"},
                                         Meeting{"YIELD", "UMOV UR4, 0x500", "UIADD3 UR4, UR4, 0x100, URZ"}));

}  // namespace
}  // namespace xtrace::interp_test
