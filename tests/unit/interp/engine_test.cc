// Whole launches of small hand-made kernels: divergence, convergence, barriers, spinning, and how a launch is
// stopped.
#include <bit>

#include "tests/unit/interp/engine_fixture.h"

namespace xtrace::interp_test {
namespace {

TEST_F(EngineTest, PathsMeetAtTheirBarrier) {
  std::vector<sass::RawInst> k;
  const Gpr tid{0}, mask_apart{1}, mask_together{2};
  k.push_back(enc::s2r(tid, enc::sr_tid_x));
  k.push_back(enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 10));
  k.push_back(bssy(0, 0x20, 0x60));
  k.push_back(enc::with_guard(enc::bra(0x30, 0x50), Pred{0}));
  k.push_back(enc::nop());
  k.push_back(enc::vote_any_active(mask_apart));  // 0x50: both sides come by, apart
  k.push_back(bsync(0));                          // 0x60
  k.push_back(enc::vote_any_active(mask_together));
  store_cell(k, mask_apart, tid, {4});
  k.push_back(enc::iadd3_imm(tid, tid, 32, enc::RZ));
  store_cell(k, mask_together, tid, {4});
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  for (unsigned l = 0; l < 32; ++l) {
    EXPECT_EQ(cell(l), l < 10 ? 0x3ffu : ~0x3ffu) << "lane " << l;
    EXPECT_EQ(cell(32 + l), ~0u) << "lane " << l;
  }
}

TEST_F(EngineTest, LanesThatBreakOrExitAreNotWaitedFor) {
  std::vector<sass::RawInst> k;
  const Gpr tid{0}, mask{2};
  k.push_back(enc::s2r(tid, enc::sr_tid_x));
  k.push_back(enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 10));
  k.push_back(enc::isetp_imm(Pred{1}, enc::Compare::ge, false, tid, 20));
  k.push_back(bssy(3, 0x30, 0x80));
  k.push_back(enc::with_guard(enc::exit(), Pred{1}));
  k.push_back(enc::with_guard(break_barrier(3), Pred{0}));
  k.push_back(enc::with_guard(enc::bra(0x60, 0x80), Pred{0}));
  k.push_back(bsync(3));
  k.push_back(enc::vote_any_active(mask));  // 0x80
  store_cell(k, mask, tid, {4});
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_EQ(cell(0), 0x3ffu);
  EXPECT_EQ(cell(15), 0x000ffc00u);
  EXPECT_EQ(cell(25), 0u) << "ended before";
}

TEST_F(EngineTest, LanesThatBrokeMayWaitForThoseThatMeet) {
  // Lanes below 10 leave the barrier and spin until the others have come past it.
  std::vector<sass::RawInst> k;
  const Gpr tid{0}, zero{1}, flag{2}, one{3};
  k.push_back(enc::s2r(tid, enc::sr_tid_x));
  k.push_back(enc::mov_imm(zero, 0));
  k.push_back(enc::mov_imm(one, 1));
  k.push_back(enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 10));
  k.push_back(bssy(3, 0x40, 0x90));
  k.push_back(enc::with_guard(enc::bra(0x50, 0xb0), Pred{0}));
  k.push_back(enc::nop());
  k.push_back(enc::nop());
  k.push_back(bsync(3));           // 0x80
  k.push_back(sts(zero, 0, one));  // 0x90
  k.push_back(enc::exit());
  k.push_back(break_barrier(3));    // 0xb0
  k.push_back(lds(flag, zero, 0));  // 0xc0
  k.push_back(enc::isetp_imm(Pred{1}, enc::Compare::eq, false, flag, 0));
  k.push_back(enc::with_guard(enc::bra(0xe0, 0xc0), Pred{1}));
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
}

TEST_F(EngineTest, AnExitMayCompleteABarrier) {
  launch.record.block = {64, 1, 1};  // warp 0 waits first, then warp 1 ends
  const Gpr tid{0};
  const auto r = run({enc::s2r(tid, enc::sr_tid_x), enc::isetp_imm(Pred{0}, enc::Compare::ge, false, tid, 32),
                      enc::with_guard(enc::exit(), Pred{0}), bar_sync(0), enc::exit()});
  ASSERT_TRUE(r) << r.error().to_string();
}

// A lock that every lane of a warp takes in turn, with the spinning side of the branch as given.
std::vector<sass::RawInst> lock_kernel(bool spinners_fall_through) {
  const Gpr zero{0}, one{2}, old{1}, count{3};
  std::vector<sass::RawInst> k{enc::mov_imm(one, 1), enc::mov_imm(zero, 0)};
  const uint32_t take = 0x20;
  k.push_back(exchange_shared(old, zero, one));                           // 0x20
  k.push_back(enc::isetp_imm(Pred{0}, enc::Compare::ne, false, old, 0));  // 0x30
  if (spinners_fall_through) {
    k.push_back(enc::with_guard(enc::bra(0x40, 0x60), Pred{0}, true));
    k.push_back(enc::bra(0x50, take));
  } else {
    k.push_back(enc::with_guard(enc::bra(0x40, take), Pred{0}));
    k.push_back(enc::nop());
  }
  k.push_back(lds(count, zero, 4));  // 0x60
  k.push_back(enc::iadd3_imm(count, count, 1, enc::RZ));
  k.push_back(sts(zero, 4, count));
  k.push_back(exchange_shared(old, zero, enc::RZ));
  const Gpr tid{6};
  k.push_back(enc::s2r(tid, enc::sr_tid_x));
  store_cell(k, count, tid, {4});
  k.push_back(enc::exit());
  return k;
}
TEST_F(EngineTest, SpinLocksEnd) {
  for (bool fall : {false, true}) {
    launch.record.block = {64, 1, 1};  // lanes of a warp against each other, and two warps
    const auto r = run(lock_kernel(fall));
    ASSERT_TRUE(r) << r.error().to_string();
    std::vector<bool> seen(65);
    for (unsigned t = 0; t < 64; ++t) {
      ASSERT_LE(cell(t), 64u);
      EXPECT_FALSE(seen[cell(t)]) << "two lanes held the lock at the same time";
      seen[cell(t)] = true;
    }
  }
}

TEST_F(EngineTest, CtasThatWaitForLaterOnesEnd) {
  // Every CTA waits until its successor has written its cell; the last one writes without waiting.
  launch.record.grid = {6, 1, 1};
  const Gpr cta{0}, address{2}, value{4};
  std::vector<sass::RawInst> k;
  k.push_back(enc::s2r(cta, enc::sr_ctaid_x));
  k.push_back(enc::mov_imm(address, static_cast<uint32_t>(cells)));
  k.push_back(global_address_high({3}));
  k.push_back(enc::imad_wide_u32_imm(address, cta, 4, address));
  k.push_back(enc::isetp_imm(Pred{0}, enc::Compare::eq, false, cta, 5));
  k.push_back(enc::with_guard(enc::bra(0x50, 0x90), Pred{0}));
  k.push_back(enc::ldg(value, enc::VectorAddress{address, 4}, enc::Size::b32));  // 0x60
  k.push_back(enc::isetp_imm(Pred{1}, enc::Compare::eq, false, value, 0));
  k.push_back(enc::with_guard(enc::bra(0x80, 0x60), Pred{1}));
  k.push_back(enc::iadd3_imm(value, cta, 1, enc::RZ));  // 0x90
  k.push_back(enc::stg(enc::VectorAddress{address}, value, enc::Size::b32));
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  for (unsigned c = 0; c < 6; ++c) EXPECT_EQ(cell(c), c + 1);
}

TEST_F(EngineTest, CtaBarrierWaitsForEveryLivingWarp) {
  // 80 threads: two whole warps and half of one. Warp 1 ends at once. Thread 64 writes, all others read
  // behind the barrier.
  launch.record.block = {80, 1, 1};
  const Gpr tid{0}, v{2}, zero{3};
  std::vector<sass::RawInst> k;
  k.push_back(enc::s2r(tid, enc::sr_tid_x));
  k.push_back(enc::mov_imm(zero, 0));
  k.push_back(enc::shf_r_u32_hi_imm(v, tid, 5));
  k.push_back(enc::isetp_imm(Pred{0}, enc::Compare::eq, false, v, 1));
  k.push_back(enc::with_guard(enc::exit(), Pred{0}));
  k.push_back(enc::isetp_imm(Pred{1}, enc::Compare::eq, false, tid, 64));
  k.push_back(enc::mov_imm(v, 77));
  k.push_back(enc::with_guard(sts(zero, 8, v), Pred{1}));
  k.push_back(bar_sync(0));
  k.push_back(lds(v, zero, 8));
  store_cell(k, v, tid, {4});
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_EQ(cell(0), 77u);
  EXPECT_EQ(cell(31), 77u);
  EXPECT_EQ(cell(40), 0u);
  EXPECT_EQ(cell(79), 77u);
  EXPECT_EQ(cell(80), 0u);
}

// The four warps of a group wait for each other, and not for the next group nor for lanes that have ended.
TEST_F(EngineTest, WarpsOfAGroupMeet) {
  launch.record.block = {160, 1, 1};
  const Gpr tid{0}, v{2}, zero{3};
  std::vector<sass::RawInst> k;
  k.push_back(enc::s2r(tid, enc::sr_tid_x));
  k.push_back(enc::mov_imm(zero, 0));
  k.push_back(enc::shf_r_u32_hi_imm(v, tid, 5));
  k.push_back(enc::isetp_imm(Pred{0}, enc::Compare::eq, false, v, 1));
  k.push_back(enc::with_guard(enc::exit(), Pred{0}));
  k.push_back(enc::isetp_imm(Pred{1}, enc::Compare::eq, false, v, 3));
  k.push_back(enc::with_guard(sts(zero, 8, tid), Pred{1}));
  k.push_back(word(0x00000000000079c5, 0x0000000000000000));  // WARPGROUP.ARRIVE
  k.push_back(lds(v, zero, 8));
  store_cell(k, v, tid, {4});
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_EQ(cell(0), 127u) << "what the fourth warp stored";
  EXPECT_EQ(cell(127), 127u);
  EXPECT_EQ(cell(159), 127u) << "the fifth is alone in its group";
}

TEST_F(EngineTest, StopsWhatDoesNotEnd) {
  options.instruction_limit = 100'000;
  auto r = run({enc::bra(0, 0)});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::device);
  EXPECT_NE(r.error().message.find("watchdog: kernel hand_made did not end"), std::string::npos)
      << r.error().message;
  // A named barrier for two warps where there is one.
  r = run({enc::nop(), bar_sync(1, 64), enc::exit()});
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message.find("deadlock"), std::string::npos) << r.error().message;
  EXPECT_NE(r.error().message.find("0x0010: BAR.SYNC"), std::string::npos) << r.error().message;
  // Half of the lanes wait for the other half, which waits elsewhere.
  const Gpr tid{0};
  r = run({enc::s2r(tid, enc::sr_tid_x), enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 16),
           enc::with_guard(enc::bra(0x20, 0x50), Pred{0}), warpsync_all(), enc::exit(), bar_sync(2), enc::exit()});
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message.find("deadlock"), std::string::npos) << r.error().message;
  r = run({enc::nop()});
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message.find("over the end of the code"), std::string::npos) << r.error().message;
}

TEST_F(EngineTest, FaultsSayWhere) {
  launch.record.grid = {3, 1, 1};
  const Gpr address{2}, cta{0}, lane{1};
  std::vector<sass::RawInst> k;
  k.push_back(enc::s2r(cta, enc::sr_ctaid_x));
  k.push_back(enc::s2r(lane, enc::sr_laneid));
  k.push_back(enc::mov_imm(address, static_cast<uint32_t>(cells)));
  k.push_back(global_address_high({3}));
  k.push_back(enc::imad_wide_u32_imm(address, lane, 4, address));
  k.push_back(enc::imad_wide_u32_imm(address, cta, 4000, address));
  k.push_back(enc::ldg(Gpr{4}, enc::VectorAddress{address}, enc::Size::b32));
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::device);
  for (const char* part : {"kernel hand_made at 0x0060", "LDG.E R4, [R2]", "4 bytes at 0x700000001000",
                           "lane 24", "CTA 1,0,0 warp 0", "0 bytes behind the end of the cells"})
    EXPECT_NE(r.error().message.find(part), std::string::npos) << part << " in: " << r.error().message;
}

TEST_F(EngineTest, WhatIsNotImplementedStopsOnlyWhenReached) {
  const sass::RawInst unknown = word(0x0000000200007308, 0x000e240000001b00);
  EXPECT_TRUE(run({enc::bra(0, 0x20), unknown, enc::exit()}));
  const auto r = run({enc::nop(), unknown, enc::exit()});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::unsupported);
  for (const char* part :
       {"kernel hand_made at 0x0010", "MUFU.RCP64H", "not implemented", "0x0000000200007308"})
    EXPECT_NE(r.error().message.find(part), std::string::npos) << part << " in: " << r.error().message;
}

class Log final : public replay::interp::WitnessSink {
 public:
  void executed(uint32_t warp, uint32_t pc, uint32_t active, uint32_t executed) override {
    lines.push_back({warp, pc, active, executed});
  }
  std::vector<std::array<uint32_t, 4>> lines;
};
TEST_F(EngineTest, TheWitnessSeesEveryInstruction) {
  Log log;
  options.witness = &log;
  launch.record.block = {40, 1, 1};
  const Gpr tid{0};
  const auto r = run({enc::s2r(tid, enc::sr_tid_x), enc::isetp_imm(Pred{0}, enc::Compare::ge, false, tid, 32),
                      enc::with_guard(enc::exit(), Pred{0}), enc::exit()});
  ASSERT_TRUE(r);
  const std::vector<std::array<uint32_t, 4>> want = {
      {0, 0x00, ~0u, ~0u},   {0, 0x10, ~0u, ~0u},   {0, 0x20, ~0u, 0},    {0, 0x30, ~0u, ~0u},
      {1, 0x00, 0xff, 0xff}, {1, 0x10, 0xff, 0xff}, {1, 0x20, 0xff, 0xff}};
  EXPECT_EQ(log.lines, want);
  EXPECT_EQ(r->warp_instructions, 7u);
}

// Time is modelled: stall counts add up, scoreboards make waits, and the same launch takes the same time.
TEST_F(EngineTest, TimeIsDeterministic) {
  const Gpr a{0}, b{1}, tid{2};
  std::vector<sass::RawInst> k{enc::cs2r32(a, enc::sr_clock_lo), enc::cs2r32(b, enc::sr_clock_lo)};
  sass::set_control(k[0], {.stall = 9});
  k.push_back(
      word(uint64_t{a.index} << 32 | 1ull << 63 | uint64_t{b.index} << 24 | uint64_t{b.index} << 16 | 0x7210,
           0x07ffe0ff));  // IADD3 R1, R1, -R0, RZ
  k.push_back(enc::s2r(tid, enc::sr_tid_x));
  store_cell(k, b, tid, {4});
  k.push_back(enc::exit());
  const auto first = run(k);
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_EQ(cell(3), 9u);
  const auto second = run(k);
  ASSERT_TRUE(second);
  // What waits for a scoreboard issues when the result is there.
  sass::set_control(k[0], {.stall = 1, .write_barrier = 2});
  sass::set_control(k[1], {.stall = 1, .wait_mask = 1u << 2});
  ASSERT_TRUE(run(k));
  EXPECT_EQ(cell(3), 6u);
  EXPECT_EQ(first->cycles, second->cycles);
  EXPECT_GT(first->cycles, 9u);
}

// --- lanes that come together, by the words that compilers use

sass::RawInst bra_div(unsigned ur, uint32_t pc, uint32_t target) {
  return branch_word(uint64_t{ur} << 24 | uint64_t{2} << 32 | 0x7947, 0x0b800000, pc, target);
}
sass::RawInst collective_all(uint32_t pc, uint32_t target) {
  return branch_word(0x7948, 0x03c00000, pc, target);
}
sass::RawInst end_collective() { return word(0x791b, 0x03800000); }

// Lanes that are apart take the long way, come together there, vote as one, and go on.
TEST_F(EngineTest, LanesApartComeTogetherForACollective) {
  for (const unsigned apart : {0u, 10u}) {
    memory_bytes.assign(cells_bytes, std::byte{0});
    const Gpr tid{0}, mask{2}, way{3};
    std::vector<sass::RawInst> k{
        enc::s2r(tid, enc::sr_tid_x),
        enc::umov_imm({4}, ~0u),
        enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, apart),
        enc::with_guard(enc::bra(0x30, 0x50), Pred{0}),
        enc::nop(),
        bra_div(4, 0x50, 0x90),
        enc::vote_any_active(mask),  // 0x60
        enc::mov_imm(way, 1),
        enc::bra(0x80, 0xd0),
        enc::mov_imm(way, 7),  // 0x90
        collective_all(0xa0, 0xd0),
        enc::vote_any_active(mask),
        end_collective(),
    };
    store_cell(k, mask, tid, {4});  // 0xd0
    k.push_back(enc::iadd3_imm(tid, tid, 32, enc::RZ));
    store_cell(k, way, tid, {4});
    k.push_back(enc::exit());
    const auto r = run(k);
    ASSERT_TRUE(r) << r.error().to_string();
    for (unsigned l = 0; l < 32; ++l) {
      EXPECT_EQ(cell(l), ~0u) << "lane " << l << ", " << apart << " apart";
      EXPECT_EQ(cell(32 + l), apart == 0 ? 1u : 7u) << "lane " << l << ", " << apart << " apart";
    }
  }
}

TEST_F(EngineTest, CollectivesOfDifferentPlacesAreRefused) {
  const Gpr tid{0};
  const auto r =
      run({enc::s2r(tid, enc::sr_tid_x), enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 10),
           enc::with_guard(enc::bra(0x20, 0x60), Pred{0}), collective_all(0x30, 0x50), end_collective(),
           enc::exit(), collective_all(0x60, 0x80), end_collective(), enc::exit()});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::unsupported);
  EXPECT_NE(r.error().message.find("different instructions"), std::string::npos) << r.error().message;
}

sass::RawInst warpsync(Gpr mask) { return word(uint64_t{mask.index} << 24 | 0x7348, 0x03800000); }

// The halves of a warp synchronise each for itself: neither waits for the other.
TEST_F(EngineTest, GroupsOfLanesSynchroniseForThemselves) {
  const Gpr tid{0}, low{1}, group{2};
  std::vector<sass::RawInst> k{enc::s2r(tid, enc::sr_tid_x), enc::mov_imm(low, 0xffff),
                               enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 16),
                               enc::sel_imm(group, low, 0xffff0000, Pred{0}), warpsync(group)};
  store_cell(k, group, tid, {4});
  k.push_back(enc::exit());
  auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_EQ(cell(3), 0xffffu);
  EXPECT_EQ(cell(20), 0xffff0000u);
  r = run({enc::mov_imm(group, 0xffff), warpsync(group), enc::exit()});
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message.find("does not name itself"), std::string::npos) << r.error().message;
}

// Two of three warps meet at barrier 3, which a register names; the third one is not waited for.
TEST_F(EngineTest, ABarrierNamedByARegister) {
  launch.record.block = {96, 1, 1};
  const Gpr tid{0}, zero{1}, value{2}, barrier{10};
  std::vector<sass::RawInst> k{
      enc::s2r(tid, enc::sr_tid_x),
      enc::mov_imm(zero, 0),
      enc::mov_imm(barrier, 64 << 16 | 3),
      enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 32),
      enc::isetp_imm(Pred{1}, enc::Compare::ge, false, tid, 64),
      enc::with_guard(enc::bra(0x50, 0x50), Pred{1}),  // for ever, but not longer than the limit
      enc::mov_imm(value, 5),
      enc::with_guard(sts(zero, 0, value), Pred{0}, true),
      word(uint64_t{barrier.index} << 32 | 0x731d, 0x00010000),
      lds(value, zero, 0),
  };
  store_cell(k, value, tid, {4});
  k.push_back(enc::exit());
  options.instruction_limit = 200'000;
  const auto r = run(k);
  ASSERT_FALSE(r) << "the third warp spins";
  EXPECT_NE(r.error().message.find("watchdog"), std::string::npos) << r.error().message;
  EXPECT_EQ(cell(0), 5u) << "warp 0 waited for warp 1, and for nobody else";
}

// Lanes call two functions through one register.
TEST_F(EngineTest, CallsThroughARegister) {
  const Gpr tid{0}, first{1}, to{6}, value{3};
  std::vector<sass::RawInst> k{
      enc::s2r(tid, enc::sr_tid_x), enc::isetp_imm(Pred{0}, enc::Compare::lt, false, tid, 10),
      enc::mov_imm(first, 0x60),    enc::sel_imm(to, first, 0x80, Pred{0}),
      enc::mov_imm({7}, 0),         branch_word(uint64_t{to.index} << 24 | 0x7344, 0x03c00000, 0x50, 0),
      enc::mov_imm(value, 11),                                // 0x60
      enc::bra(0x70, 0x90),         enc::mov_imm(value, 22),  // 0x80
  };
  store_cell(k, value, tid, {4});  // 0x90
  k.push_back(enc::exit());
  const auto r = run(k);
  ASSERT_TRUE(r) << r.error().to_string();
  for (unsigned l = 0; l < 32; ++l) EXPECT_EQ(cell(l), l < 10 ? 11u : 22u) << "lane " << l;
}

// --- CTAs that come together

// Every CTA writes 100 + its number into its own shared memory and reads what the other one of its cluster
// wrote.
TEST_F(EngineTest, ClustersShareTheirSharedMemory) {
  launch.record.grid = {6, 1, 1};
  launch.record.cluster = {2, 1, 1};
  const sass::RawInst arrive = word(0x79c7, 0x08000000), wait = word(0x7dc7, 0x08000000);
  const Gpr tid{0}, rank{1}, cta{2}, address{3}, value{8}, at{6};
  const auto kernel = [&](bool arrives) {
    std::vector<sass::RawInst> k{
        enc::s2r(tid, enc::sr_tid_x),
        enc::s2r(rank, 136),
        enc::s2r(cta, 37),
        enc::lea_imm(address, tid, 16, 2),
        enc::shf_l_u32_imm({4}, rank, 24),
        enc::iadd3(address, address, {4}, enc::RZ),
        enc::iadd3_imm(value, cta, 100, enc::RZ),
        sts(address, 0, value),
        arrives ? arrive : enc::nop(),
        wait,
        enc::lop3_imm(rank, rank, 1, enc::RZ, 0x3c),
        enc::shf_l_u32_imm(at, rank, 24),
        enc::lea_imm(address, tid, 16, 2),
        enc::iadd3(at, at, address, enc::RZ),
        enc::mov_imm({7}, static_cast<uint32_t>(replay::interp::shared_window >> 32)),
        word(0x0000000006087980, 0x00100900),  // LD.E R8, [R6]
        arrive,
        wait,
        enc::shf_l_u32_imm(cta, cta, 5),
        enc::iadd3(tid, tid, cta, enc::RZ),
    };
    store_cell(k, value, tid, {4});
    k.push_back(enc::exit());
    return k;
  };
  auto r = run(kernel(true));
  ASSERT_TRUE(r) << r.error().to_string();
  for (unsigned c = 0; c < 6; ++c)
    for (unsigned l = 0; l < 32; ++l)
      EXPECT_EQ(cell(32 * c + l), 100 + (c ^ 1)) << "CTA " << c << " lane " << l;
  r = run(kernel(false));
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message.find("without having arrived"), std::string::npos) << r.error().message;
  launch.record.cluster = {0, 0, 0};
  r = run(kernel(true));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::unsupported);
}

// A cluster whose second CTA never arrives is a deadlock, not an endless run.
TEST_F(EngineTest, AClusterThatNeverMeetsIsADeadlock) {
  launch.record.grid = launch.record.cluster = {2, 1, 1};
  const Gpr rank{1};
  const auto r = run({enc::s2r(rank, 136), enc::isetp_imm(Pred{0}, enc::Compare::ne, false, rank, 0),
                      enc::with_guard(bar_sync(1, 64), Pred{0}), word(0x79c7, 0x08000000),
                      word(0x7dc7, 0x08000000), enc::exit()});
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message.find("deadlock"), std::string::npos) << r.error().message;
}

// The memory through which a grid synchronises is there for cooperative launches, zero at first, and for
// these only.
TEST_F(EngineTest, CooperativeLaunchesHaveABarrierOfTheGrid) {
  const uint64_t at = replay::interp::grid_barrier_address + 4;
  const Gpr tid{0}, value{3};
  std::vector<sass::RawInst> k{enc::s2r(tid, enc::sr_tid_x), enc::mov_imm({6}, static_cast<uint32_t>(at)),
                               enc::mov_imm({7}, static_cast<uint32_t>(at >> 32)),
                               enc::ldg(value, enc::VectorAddress{{6}}, enc::Size::b32),
                               enc::iadd3_imm(value, value, 9, enc::RZ)};
  store_cell(k, value, tid, {4});
  k.push_back(enc::exit());
  EXPECT_FALSE(run(k));
  launch.record.cooperative = true;
  for (int again = 0; again < 2; ++again) {
    const auto r = run(k);
    ASSERT_TRUE(r) << r.error().to_string();
    EXPECT_EQ(cell(5), 9u);
  }
}

}  // namespace
}  // namespace xtrace::interp_test
