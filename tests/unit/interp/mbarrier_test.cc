// Barriers in shared memory and what completes on them: single words, and warps that wait for each other.
#include "replay/interp/value/mbarrier.h"

#include "tests/unit/interp/engine_fixture.h"
#include "tests/unit/interp/machine.h"

namespace xtrace::interp_test {
namespace {

using interp::value::change, interp::value::MbarrierChange, interp::value::parity;

// What mbarrier.init of n writes, as ptxas 13 computes it.
uint64_t initial(uint64_t n) { return (0x100000 - n) << 1 | (0x100000 - n) << 43; }

TEST(Mbarrier, PhasesEndWhenArrivalsAndBytesAreThere) {
  uint64_t s = initial(2);
  ASSERT_TRUE(change(s, {1, 64}));
  EXPECT_FALSE(parity(s));
  ASSERT_TRUE(change(s, {1}));
  EXPECT_FALSE(parity(s)) << "64 bytes are missing";
  ASSERT_TRUE(change(s, {0, -60}));
  EXPECT_FALSE(parity(s));
  ASSERT_TRUE(change(s, {0, -4}));
  EXPECT_EQ(s, initial(2) | 1ull << 63) << "as at first, in the other phase";
  ASSERT_TRUE(change(s, {2}));
  EXPECT_EQ(s, initial(2));
  // Bytes that come before they are announced.
  ASSERT_TRUE(change(s, {0, -16}));
  ASSERT_TRUE(change(s, {1, 16}));
  ASSERT_TRUE(change(s, {1}));
  EXPECT_TRUE(parity(s));
  // One of two leaves for good: the phase lacks one arrival, later ones expect one.
  s = initial(2);
  ASSERT_TRUE(change(s, {1, 0, 1}));
  EXPECT_FALSE(parity(s));
  ASSERT_TRUE(change(s, {1}));
  EXPECT_EQ(s, initial(1) | 1ull << 63);
}

TEST(Mbarrier, CountsStayInTheirRange) {
  uint64_t s = initial(1);
  EXPECT_FALSE(change(s, {2}));
  EXPECT_FALSE(change(s, {0, 1 << 20}));
  EXPECT_FALSE(change(s, {0, -(1 << 20)}));
  EXPECT_EQ(s, initial(1));
  s = 0;  // never initialised
  EXPECT_FALSE(change(s, {1}));
}

// R5: the barrier's address; R6: a count.
class MbarrierWords : public testing::Test {
 protected:
  MbarrierWords() {
    m.set(5, 64);
    m.warp.paths[0].mask = 1;
    put(initial(3));
  }
  void put(uint64_t state) { write_at(std::span(m.cta.shared), 64, state); }
  uint64_t state() const { return *read_at<uint64_t>(m.cta.shared, 64, "barrier"); }
  uint64_t after(uint64_t lo, uint64_t hi, const char* text, uint32_t count) {
    put(initial(3));
    m.set(6, count);
    EXPECT_EQ(m.run(lo, hi, text), "");
    return state();
  }
  static uint64_t changed(const MbarrierChange& by) {
    uint64_t s = initial(3);
    EXPECT_TRUE(change(s, by));
    return s;
  }
  Machine m;
};

TEST_F(MbarrierWords, ArriveInEveryForm) {
  EXPECT_EQ(after(0x000000ff050879a7, 0x0810003f, "SYNCS.ARRIVE.TRANS64.A1T0 R8, [R5+URZ], RZ", 7),
            changed({1}));
  EXPECT_EQ(m.r(8)[0], 0u) << "not written [measured H200]";
  EXPECT_EQ(m.r(9)[0], static_cast<uint32_t>(initial(3) >> 32)) << "the state before";
  EXPECT_EQ(after(0x0000000605ff79a7, 0x0800003f, "SYNCS.ARRIVE.TRANS64 RZ, [R5+URZ], R6", 48),
            changed({1, 48}));
  EXPECT_EQ(after(0x0000000605ff79a7, 0x0850003f, "SYNCS.ARRIVE.TRANS64.A1T0.ART0 RZ, [R5+URZ], R6", 2),
            changed({2}));
  EXPECT_EQ(after(0x0000000605ff79a7, 0x0830043f, "SYNCS.ARRIVE.TRANS64.RED.A1T0.A0TR RZ, [R5+URZ], R6", 48),
            changed({0, 48}));
  EXPECT_EQ(after(0x0000000605ff79a7, 0x0840043f, "SYNCS.ARRIVE.TRANS64.RED.ART0 RZ, [R5+URZ], R6", 48),
            changed({0, -48}));
  EXPECT_EQ(after(0x000000ff05ff79a7, 0x0820043f, "SYNCS.ARRIVE.TRANS64.RED.A0TR RZ, [R5+URZ], RZ", 0),
            changed({-1}));
  EXPECT_EQ(
      after(0x0000000605ff79a7, 0x0850083f, "SYNCS.ARRIVE.TRANS64.OPTOUT.A1T0.ART0 RZ, [R5+URZ], R6", 2),
      changed({2, 0, 2}));
  EXPECT_EQ(after(0x00000000050079b0, 0x08000abf, nullptr, 0), changed({1})) << "ARRIVES.LDGSTSBAR";
  // Every lane arrives.
  put(initial(32));
  m.warp.paths[0].mask = ~0u;
  EXPECT_EQ(m.run(0x000000ff05ff79a7, 0x0810003f), "");
  EXPECT_EQ(state(), initial(32) | 1ull << 63);
  EXPECT_NE(m.run(0x0000000605ff79a7, 0x0850023f).find(".TMASK"), std::string::npos);
}

TEST_F(MbarrierWords, PhaseIsOver) {
  for (const bool odd : {false, true})
    for (const bool asked : {false, true}) {
      put(initial(3) | uint64_t{odd} << 63);
      m.set(6, asked ? 0x80000000 : 0);
      m.p(1) = 0;
      EXPECT_EQ(m.run(0x00000006050075a7, 0x0802007f, "SYNCS.PHASECHK.TRANS64 P1, [R5+URZ], R6"), "");
      EXPECT_EQ(m.p(1) & 1, odd != asked ? 1u : 0u);
    }
  m.set_ur(6, 60);
  m.set_ur(4, 0x11);
  m.set_ur(5, 0x22);
  EXPECT_EQ(m.run(0x00000404063f75b2, 0x08000100, "SYNCS.EXCH.64 URZ, [UR6+0x4], UR4"), "");
  EXPECT_EQ(state(), 0x2200000011u);
}

TEST_F(MbarrierWords, BulkCopies) {
  constexpr uint64_t base = 0x700000000000;
  Bytes bytes(256);
  for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = std::byte(k * 5 + 1);
  ASSERT_TRUE(m.memory.add(base, bytes, "the bytes"));
  const auto set64 = [&](unsigned ur, uint64_t v) {
    m.set_ur(ur, static_cast<uint32_t>(v));
    m.set_ur(ur + 1, static_cast<uint32_t>(v >> 32));
  };
  put(initial(1));
  set64(6, base + 32);
  m.set_ur(8, 256);
  m.set_ur(9, 64);
  m.set_ur(10, 3);
  EXPECT_EQ(m.run(0x00000008060073ba, 0x0800020a, "UBLKCP.S.G [UR8], [UR6], UR10"), "");
  for (unsigned k = 0; k < 48; ++k) EXPECT_EQ(m.cta.shared[256 + k], bytes[32 + k]);
  EXPECT_EQ(m.cta.shared[256 + 48], std::byte{0});
  uint64_t want = initial(1);
  ASSERT_TRUE(change(want, {0, -48}));
  EXPECT_EQ(state(), want);
  // And back, elsewhere.
  set64(6, base + 128);
  m.set_ur(5, 1);
  EXPECT_EQ(m.run(0x00000006080073ba, 0x08000405, "UBLKCP.G.S [UR6], [UR8], UR5"), "");
  for (unsigned k = 0; k < 16; ++k) EXPECT_EQ(bytes[128 + k], bytes[32 + k]);
  EXPECT_EQ(state(), want) << "a copy to global memory completes on no barrier";
  m.set_ur(5, 9);
  EXPECT_NE(m.run(0x00000006080073ba, 0x08000405).find("outside recorded memory"), std::string::npos);
  set64(6, base + 8);
  EXPECT_NE(m.run(0x00000006080073ba, 0x08000405).find("misaligned"), std::string::npos);
}

sass::RawInst exchange(unsigned address, unsigned value) {
  return word(uint64_t{value} << 32 | address << 24 | 0x3f75b2, 0x08000100);
}
sass::RawInst arrive(Gpr address) {
  return word(0x000000ff00ff79a7 | uint64_t{address.index} << 24, 0x0810003f);
}
// .TRYWAIT of the phase with the parity of R<p>, on [R<a>].
sass::RawInst try_wait(Pred to, Gpr a, Gpr p) {
  return word(uint64_t{p.index} << 32 | uint64_t{a.index} << 24 | 0x75a7,
              0x0800017f | uint64_t{to.index} << 17);
}

// Warp 0 waits for the arrival of warp 1 and then reads what it wrote; the wait is executed once.
TEST_F(EngineTest, WarpsWaitForPhases) {
  launch.record.block = {64, 1, 1};
  const Gpr tid{0}, zero{1}, result{3};
  const uint64_t one = initial(32);
  std::vector<sass::RawInst> k{
      enc::s2r(tid, enc::sr_tid_x),
      enc::mov_imm(zero, 0),
      enc::umov_imm({4}, static_cast<uint32_t>(one)),
      enc::umov_imm({5}, static_cast<uint32_t>(one >> 32)),
      enc::umov_imm({6}, 0),
      enc::isetp_imm(Pred{0}, enc::Compare::ge, false, tid, 32),
      exchange(6, 4),  // by both warps, in front of the barrier
      bar_sync(0),
      enc::mov_imm(result, 5),
      enc::with_guard(enc::bra(0x90, 0xc0), Pred{0}),
      try_wait(Pred{1}, zero, zero),
      enc::bra(0xb0, 0xe0),
      sts(zero, 64, tid),  // 0xc0
      arrive(zero),
      enc::with_guard(lds(result, zero, 64), Pred{1}),  // 0xe0
  };
  store_cell(k, result, tid, {4});
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_EQ(cell(0), 63u);
  EXPECT_EQ(r->warp_instructions, 2 * 10u + 2 + 2 + 2 * 6) << "the wait is executed once";
}

// Nobody arrives: the wait ends, and says so.
TEST_F(EngineTest, AWaitForAPhaseThatNeverEndsIsGivenUp) {
  const Gpr tid{0}, zero{1}, result{3};
  const uint64_t one = initial(1);
  std::vector<sass::RawInst> k{enc::s2r(tid, enc::sr_tid_x),
                               enc::mov_imm(zero, 0),
                               enc::mov_imm(result, 5),
                               enc::umov_imm({4}, static_cast<uint32_t>(one)),
                               enc::umov_imm({5}, static_cast<uint32_t>(one >> 32)),
                               enc::umov_imm({6}, 0),
                               exchange(6, 4),
                               enc::isetp_imm(Pred{1}, enc::Compare::ge, false, tid, 0),
                               try_wait(Pred{1}, zero, zero),
                               enc::with_guard(enc::mov_imm(result, 9), Pred{1})};
  store_cell(k, result, tid, {4});
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_EQ(cell(7), 5u);
}

}  // namespace
}  // namespace xtrace::interp_test
