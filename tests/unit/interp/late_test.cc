// Results as late as the control bits allow (replay/interp/late.h), on small hand-made kernels: what waits may go on, and who touches a
// register too early stops the launch, by name.
#include "tests/unit/interp/engine_fixture.h"

namespace xtrace::interp_test {
namespace {

struct Late : EngineTest {
  Late() { options.late = true; }

  // A word with its control bits.
  static sass::RawInst at(sass::RawInst w, sass::Control c) {
    sass::set_control(w, c);
    return w;
  }
  static sass::Control stall(uint8_t n) { return {.stall = n}; }
  static sass::Control writes(uint8_t sb, uint8_t n = 2) { return {.stall = n, .write_barrier = sb}; }
  static sass::Control waits(uint8_t mask, uint8_t n = 6) { return {.stall = n, .wait_mask = mask}; }
  static sass::RawInst depbar(unsigned sb, unsigned but) {
    return at(word(0x791a | uint64_t{1} << 47 | uint64_t{sb} << 44 | uint64_t{but} << 38, 0), stall(6));
  }

  // Empty: the launch ended. Else why it stopped.
  std::string why(std::vector<sass::RawInst> k) {
    k.push_back(at(enc::exit(), stall(5)));
    const auto r = run(k);
    return r ? "" : r.error().message;
  }
  static void expect_stop(const std::string& why, const std::string& part) {
    EXPECT_NE(why.find(part), std::string::npos) << (why.empty() ? "it ended" : why);
  }
};

constexpr Gpr r0{0}, r2{2}, r3{3}, r4{4}, r5{5};

TEST_F(Late, AResultIsThereWhenItsScoreboardWasWaitedFor) {
  const auto load = at(lds(r4, enc::RZ, 0), writes(1));
  EXPECT_EQ(why({load, at(enc::mov(r5, r4), waits(1 << 1))}), "");
  expect_stop(why({load, at(enc::mov(r5, r4), stall(6))}),
              "R4 is read here, and what LDS R4, [RZ] at 0x0000 puts there may come later: nobody waited for SB1");
  expect_stop(why({load, at(enc::mov(r5, r4), waits(1 << 2))}), "nobody waited for SB1");
}

TEST_F(Late, OneScoreboardCountsSeveral) {
  const auto first = at(lds(r4, enc::RZ, 0), writes(1)), second = at(lds(r5, enc::RZ, 4), writes(1));
  EXPECT_EQ(why({first, second, at(enc::mov(r2, r4), waits(1 << 1)), at(enc::mov(r3, r5), stall(6))}), "");
  // All but the youngest.
  EXPECT_EQ(why({first, second, depbar(1, 1), at(enc::mov(r2, r4), stall(6))}), "");
  expect_stop(why({first, second, depbar(1, 1), at(enc::mov(r2, r5), stall(6))}), "R5 is read here");
  EXPECT_EQ(why({first, second, depbar(1, 0), at(enc::mov(r2, r5), stall(6))}), "");
}

TEST_F(Late, TheValueComesWithTheWait) {
  struct Values final : replay::interp::WitnessSink {
    void executed(uint32_t, uint32_t, uint32_t, uint32_t) override {}
    bool reads_registers() const override { return true; }
    void before(uint32_t, uint32_t, uint32_t, const replay::interp::RegisterView& r) override { r4.push_back(r.vector(4, 5)); }
    std::vector<uint32_t> r4;
  } values;
  options.witness = &values;
  const auto load = at(lds(r4, enc::RZ, 0), writes(1)), nop = at(enc::nop(), stall(1));
  EXPECT_EQ(why({at(enc::mov_imm(r4, 7), stall(6)), load, nop, at(enc::nop(), waits(1 << 1))}), "");
  // In front of each instruction; the last but one has waited when it is looked at.
  EXPECT_EQ(values.r4, (std::vector<uint32_t>{0, 7, 7, 0, 0}));
}

// What a loop loads for its next round arrives behind the loop: nobody reads it there, and a probe takes the register.
TEST_F(Late, AResultThatNobodyReadsComesOnTop) {
  const auto load = at(lds(r4, enc::RZ, 0), writes(3)), take = at(enc::mov_imm(r4, 1), stall(6));
  expect_stop(why({load, take}), "R4 is written here, and what LDS R4, [RZ] at 0x0000 puts there may come on top: nobody waited for SB3");
  EXPECT_EQ(why({load, at(enc::mov_imm(r4, 1), waits(1 << 3))}), "");
}

// The LDC R1 that kernels without a stack begin with.
TEST_F(Late, WithoutAScoreboardAResultComesSometime) {
  const auto load = at(enc::ldc({1}, 0, 0x28), stall(1)), take = at(enc::mov_imm({1}, 1), stall(6));
  expect_stop(why({load, take}), "may come on top: it has no scoreboard");
  // A later LDC that was waited for says nothing of it.
  expect_stop(why({load, at(enc::ldc(r4, 0, 0x20), writes(0)), at(enc::mov(r5, r4), waits(1)), take}), "it has no scoreboard");
  std::vector<sass::RawInst> k{load};
  for (unsigned n = 0; n < 50; ++n) k.push_back(at(enc::nop(), {.stall = 15, .keep_issuing = false}));
  k.push_back(take);
  EXPECT_EQ(why(k), "");
}

TEST_F(Late, SomeKindsComeInOrder) {
  const auto first = at(lds(r4, enc::RZ, 0), stall(2)), second = at(lds(r5, enc::RZ, 4), writes(1));
  EXPECT_EQ(why({first, second, at(enc::mov(r2, r4), waits(1 << 1))}), "");
  expect_stop(why({second, first, at(enc::mov(r2, r4), waits(1 << 1))}), "R4 is read here");
}

TEST_F(Late, AStoreReadsWhenItsScoreboardSaysSo) {
  const auto store = at(sts(enc::RZ, 0, r4), {.stall = 2, .read_barrier = 2}), take = at(enc::mov_imm(r4, 1), stall(6));
  expect_stop(why({store, take}), "R4 is written here, and STS [RZ], R4 at 0x0000 may not have read it: nobody waited for SB2");
  EXPECT_EQ(why({store, at(enc::mov_imm(r4, 1), waits(1 << 2))}), "");
  // Without one: when that of a later instruction of its queue was waited for, be it one that no lane executes.
  const auto bare = at(sts(enc::RZ, 0, r4), stall(2));
  expect_stop(why({bare, take}), "it has no scoreboard");
  EXPECT_EQ(why({bare, at(lds(r5, enc::RZ, 0), writes(1)), at(enc::mov_imm(r4, 1), waits(1 << 1))}), "");
  const auto nobody = enc::with_guard(sts(enc::RZ, 0, r5), Pred{0});
  EXPECT_EQ(why({bare, at(nobody, {.stall = 2, .read_barrier = 1}), at(enc::mov_imm(r4, 1), waits(1 << 1))}), "");
  expect_stop(why({at(lds(r5, enc::RZ, 0), writes(1)), bare, at(enc::mov_imm(r4, 1), waits(1 << 1))}), "R4 is written here");
  // The queue writes behind what it reads.
  EXPECT_EQ(why({bare, at(lds(r4, enc::RZ, 0), writes(1))}), "");
}

TEST_F(Late, AWaitOneCycleBehindDoesNotSeeTheScoreboard) {
  for (const uint8_t n : {1, 2}) {
    const std::string read = why({at(lds(r4, enc::RZ, 0), writes(1, n)), at(enc::mov(r5, r4), waits(1 << 1))});
    const std::string write = why({at(sts(enc::RZ, 0, r4), {.stall = n, .read_barrier = 2}), at(enc::mov_imm(r4, 1), waits(1 << 2))});
    if (n == 2) {
      EXPECT_EQ(read + write, "");
    } else {
      expect_stop(read, "the wait for SB1 stands too near behind it");
      expect_stop(write, "the wait for SB2 stands too near behind it");
    }
  }
}

TEST_F(Late, LanesApart) {
  // Lanes below 10 load into R4, the others write it: nobody is in the way of anybody.
  std::vector<sass::RawInst> k;
  k.push_back(at(enc::s2r(r0, enc::sr_tid_x), writes(0)));
  k.push_back(at(enc::isetp_imm(Pred{0}, enc::Compare::lt, false, r0, 10), {.stall = 13, .keep_issuing = false, .wait_mask = 1}));
  k.push_back(at(enc::with_guard(lds(r4, enc::RZ, 0), Pred{0}), writes(1)));
  auto other = k;
  other.push_back(at(enc::with_guard(enc::mov_imm(r4, 1), Pred{0}, true), stall(6)));
  EXPECT_EQ(why(other), "");
  k.push_back(at(enc::mov_imm(r4, 1), stall(6)));
  expect_stop(why(k), "R4 is written here");
}

TEST_F(Late, FixedLatencies) {
  const auto sum = [&](uint8_t n) { return at(enc::iadd3_imm(r4, r3, 1, enc::RZ), stall(n)); };
  expect_stop(why({sum(3), at(enc::iadd3_imm(r5, r4, 1, enc::RZ), stall(6))}),
              "R4 is read here 3 cycles behind IADD3 R4, R3, 0x1, RZ at 0x0000, and vendor code leaves 4 at least");
  EXPECT_EQ(why({sum(4), at(enc::iadd3_imm(r5, r4, 1, enc::RZ), stall(6))}), "");
  const auto compare = [&](uint8_t n) {
    return at(enc::isetp_imm(Pred{0}, enc::Compare::lt, false, r4, 10), {.stall = n, .keep_issuing = n < 12});
  };
  expect_stop(why({compare(11), at(enc::with_guard(enc::mov_imm(r5, 1), Pred{0}), stall(6))}), "P0 is read here 11 cycles behind");
  EXPECT_EQ(why({compare(13), at(enc::with_guard(enc::mov_imm(r5, 1), Pred{0}), stall(6))}), "");
}

TEST_F(Late, OffItSeesNothing) {
  options.late = false;
  EXPECT_EQ(why({at(lds(r4, enc::RZ, 0), writes(1)), at(enc::mov(r5, r4), stall(6)), at(enc::mov_imm(r4, 1), stall(1))}), "");
}

}  // namespace
}  // namespace xtrace::interp_test
