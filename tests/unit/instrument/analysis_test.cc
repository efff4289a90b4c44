// Blocks and liveness on code assembled here, so that the expected sets are known.
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>

#include "instrument/blocks.h"
#include "instrument/clocks.h"
#include "instrument/collective.h"
#include "instrument/implied.h"
#include "instrument/liveness.h"
#include "instrument/sass/assemble.h"
#include "instrument/sass/encode.h"
#include "instrument/scratch.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

namespace enc = sass::enc;
using enc::Gpr, enc::Pred;

// Code of straight-line words, successors by effects alone; no cubin around it.
Code assemble(const std::vector<sass::RawInst>& words) {
  Code code;
  code.arch = *sass::find_arch(90);
  code.kernel = "assembled";
  for (const sass::RawInst& w : words)
    code.insts.push_back({w, sass::effects(*code.arch, w, code.bytes())});
  code.functions = {{"assembled", 0, {}, {}}};
  code.reachable.assign(words.size(), true);
  return code;
}

sass::RawInst with(sass::RawInst w, uint8_t read_barrier, uint8_t wait = 0) {
  sass::Control c = sass::get_control(w);
  c.read_barrier = read_barrier;
  c.wait_mask = wait;
  sass::set_control(w, c);
  return w;
}

// 0 MOV R2,1   1 ISETP P0   2 @P0 BRA 5   3 MOV R3,R2   4 BRA 0   5 STG [R4], R2   6 EXIT
Code loop() {
  return assemble({enc::mov_imm(Gpr{2}, 1), enc::isetp_imm(Pred{0}, enc::Compare::lt, false, Gpr{5}, 7),
                   enc::with_guard(enc::bra(0x20, 0x50), Pred{0}), enc::mov(Gpr{3}, Gpr{2}), enc::bra(0x40, 0),
                   enc::stg(enc::VectorAddress{Gpr{4}}, Gpr{2}, enc::Size::b32), enc::exit()});
}

TEST(Blocks, EndAtBranchesAndStartAtTargets) {
  const Code code = loop();
  const Blocks b = find_blocks(code);
  ASSERT_EQ(b.blocks.size(), 3u);
  EXPECT_EQ(b.blocks[0].first, 0u);
  EXPECT_EQ(b.blocks[0].count, 3u);
  EXPECT_EQ(b.blocks[1].first, 3u);
  EXPECT_EQ(b.blocks[2].first, 5u);
  EXPECT_EQ(b.successors[0], (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(b.successors[1], (std::vector<uint32_t>{0}));
  EXPECT_TRUE(b.successors[2].empty());
  EXPECT_TRUE(b.cyclic);
  EXPECT_GT(b.loop_weight[0], b.loop_weight[2]);
}

TEST(Blocks, LongRunsAreCut) {
  std::vector<sass::RawInst> words(600, enc::nop());
  words.push_back(enc::exit());
  const Blocks b = find_blocks(assemble(words));
  ASSERT_EQ(b.blocks.size(), 3u);
  EXPECT_EQ(b.blocks[0].count, max_block_instructions);
  EXPECT_FALSE(b.cyclic);
}

TEST(Liveness, AcrossALoop) {
  const Code code = loop();
  const Liveness live(code);
  EXPECT_TRUE(live.before(0).gpr.test(4));
  EXPECT_TRUE(live.before(0).gpr.test(5));
  EXPECT_FALSE(live.before(0).gpr.test(2));   // defined before use on every path
  EXPECT_TRUE(live.before(3).gpr.test(2));
  EXPECT_FALSE(live.before(4).gpr.test(2));
  EXPECT_TRUE(live.before(2).pred & 1);
  EXPECT_FALSE(live.before(3).pred & 1);
}

TEST(Liveness, PredicatedDefinitionsDoNotKill) {
  const Code code = assemble({enc::with_guard(enc::mov_imm(Gpr{2}, 1), Pred{0}),
                              enc::stg(enc::VectorAddress{Gpr{4}}, Gpr{2}, enc::Size::b32), enc::exit()});
  EXPECT_TRUE(Liveness(code).before(0).gpr.test(2));
}

TEST(Liveness, DeadResultsAreNotBorrowed) {
  const Code code = assemble({enc::mov_imm(Gpr{8}, 1), enc::nop(), enc::exit()});   // R8 is never read
  const Liveness live(code);
  EXPECT_FALSE(live.before(1).gpr.test(8));
  EXPECT_FALSE(live.writable_before(1, 64).test(8));   // in flight for some cycles
  EXPECT_TRUE(live.writable_before(1, 64).test(9));
  EXPECT_FALSE(live.writable_before(1, 9).test(9));   // above the limit
}

TEST(Liveness, LateReadersHoldTheirSources) {
  // The store's own scoreboard releases R2; a store without one never does.
  const sass::RawInst store = enc::stg(enc::VectorAddress{Gpr{4}}, Gpr{2}, enc::Size::b32);
  const Code held = assemble({with(store, 3), enc::nop(), with(enc::nop(), 7, 1 << 3), enc::nop(), enc::exit()});
  const Liveness live(held);
  EXPECT_FALSE(live.writable_before(1, 64).test(2));
  EXPECT_FALSE(live.writable_before(2, 64).test(2));   // the wait happens in this instruction
  EXPECT_TRUE(live.writable_before(3, 64).test(2));
  EXPECT_EQ(live.outstanding_before(1), 1u << 3);
  EXPECT_EQ(live.outstanding_before(3), 0u);
  const Code alone = assemble({with(store, 7), with(enc::nop(), 7, 0x3f), enc::exit()});
  EXPECT_FALSE(Liveness(alone).writable_before(2, 64).test(2));
  // ... unless a later one of the same queue has one, and that was waited for.
  const sass::RawInst other = enc::stg(enc::VectorAddress{Gpr{6}}, Gpr{8}, enc::Size::b32);
  const Code covered = assemble({with(store, 7), with(other, 1), with(enc::nop(), 7, 1 << 1), enc::nop(), enc::exit()});
  EXPECT_FALSE(Liveness(covered).writable_before(2, 64).test(2));
  EXPECT_TRUE(Liveness(covered).writable_before(3, 64).test(2));
}

TEST(Liveness, FreeOnceAScoreboardHasBeenWaitedFor) {
  const sass::RawInst store = enc::stg(enc::VectorAddress{Gpr{4}}, Gpr{2}, enc::Size::b32);
  const Code held = assemble({with(store, 3), enc::nop(), enc::nop(), with(enc::nop(), 7, 1 << 3), enc::exit()});
  const Liveness live(held);
  EXPECT_FALSE(live.writable_before(2, 64).test(2));
  EXPECT_TRUE(live.writable_after_wait(2, 64, 1 << 3).test(2));
  EXPECT_TRUE(live.writable_after_wait(2, 64, 1 << 3 | 1).test(2));
  EXPECT_FALSE(live.writable_after_wait(2, 64, 1 << 2).test(2));
  EXPECT_EQ(live.writable_after_wait(2, 64, 0), live.writable_before(2, 64));
  // A store without a scoreboard is waited for by nobody, and what is read later is not free.
  EXPECT_FALSE(Liveness(assemble({with(store, 7), enc::nop(), enc::nop(), enc::exit()})).writable_after_wait(2, 64, 0x3f).test(2));
  const Code read = assemble({with(store, 3), enc::nop(), enc::nop(), enc::mov(Gpr{8}, Gpr{2}), enc::exit()});
  EXPECT_FALSE(Liveness(read).writable_after_wait(2, 64, 0x3f).test(2));
}

// Lanes that meet at WARPSYNC.COLLECTIVE execute what stands behind any of them, and then go their own ways.
TEST(Collectives, LeadToWhatStandsBehindAll) {
  size_t several = 0;
  for (const Kernel& k : fixture_kernels("sm_90")) {
    const auto image = cubin::Image::parse(k.cubin);
    const auto code = read_code(*image, *cubin::kernel_info(*image, k.name));
    const auto splicer = Splicer::create(k.cubin, k.name, small_shape());
    if (!code || !splicer) continue;
    const std::vector<Collective> collectives = find_collectives(*code);
    if (collectives.size() < 2) continue;
    ++several;
    const Blocks blocks = find_blocks(*code);
    const Liveness live(*code);
    const auto leads = [&](InstIndex from, InstIndex to) {
      const std::vector<uint32_t>& next = splicer->blocks()[blocks.block_of[from]].successors;
      return std::find(next.begin(), next.end(), blocks.block_of[to]) != next.end();
    };
    for (const Collective& one : collectives)
      for (const Collective& other : collectives) {
        EXPECT_TRUE(leads(one.at, other.at + 1)) << k.name;
        EXPECT_EQ(code->insts[other.target - 1].fx.mnemonic, "ENDCOLLECTIVE");
        EXPECT_TRUE(leads(other.target - 1, one.target)) << k.name;
        EXPECT_TRUE((live.before(one.target).gpr & ~live.before(other.at + 1).gpr).none()) << k.name;
      }
  }
  EXPECT_GT(several, 0u);
}

TEST(Scratch, ARegisterAfterAWait) {
  const Kernel kernel = fixture_kernel("spmv");
  const auto image = cubin::Image::parse(kernel.cubin);
  const auto info = cubin::kernel_info(*image, kernel.name);
  const auto code = read_code(*image, *info);
  ASSERT_TRUE(code);
  const Blocks blocks = find_blocks(*code);
  const Liveness live(*code);
  const auto scratch = Scratch::plan(*code, *info, blocks, live, small_shape());
  ASSERT_TRUE(scratch) << scratch.error().to_string();
  const uint32_t own = info->register_count - reserved_registers;
  size_t waited = 0;
  for (InstIndex i = 0; i < code->insts.size(); ++i) {
    if (!code->reachable[i]) continue;
    const auto h = scratch->after_wait(i, Holder::Shape::single, std::nullopt);
    if (!h) continue;
    EXPECT_TRUE(live.writable_after_wait(i, own, h->wait_mask).test(h->reg[0])) << where(*code, i);
    EXPECT_EQ(std::popcount(h->wait_mask), 1);
    // A wait in the next cycle does not see the scoreboard.
    if (i == 0) continue;
    const sass::Control before = sass::get_control(code->insts[i - 1].raw);
    for (const uint8_t sb : {before.write_barrier, before.read_barrier})
      EXPECT_FALSE(sb < 6 && before.stall < 2 && (h->wait_mask >> sb & 1)) << where(*code, i);
    waited += !live.writable_before(i, own).test(h->reg[0]);
  }
  EXPECT_GE(waited, 1u);
}

// A convergence barrier moved to a register and back sends no lane elsewhere; BSYNC, which waits for it, does.
TEST(Blocks, GoOnBehindBmov) {
  const sass::RawInst save{0x0000000009037355, 0x000fe20000100000}, restore{0x0000000308007356, 0x000fe20000000000},   // BMOV.32.CLEAR R3, B9; BMOV.32 B8, R3
      bsync{0x0000000000007941, 0x000fea0003800000};
  const Code code = assemble({save, enc::mov(Gpr{8}, Gpr{4}), restore, bsync, enc::exit()});
  ASSERT_EQ(code.insts[0].fx.mnemonic, "BMOV");
  ASSERT_EQ(code.insts[2].fx.mnemonic, "BMOV");
  ASSERT_EQ(code.insts[3].fx.mnemonic, "BSYNC");
  const Blocks b = find_blocks(code);
  ASSERT_EQ(b.blocks.size(), 2u);
  EXPECT_EQ(b.blocks[0].count, 4u);
}

TEST(Liveness, DeadResultsBecomeFreeWithTime) {
  sass::RawInst slow = enc::nop();
  sass::Control c = sass::get_control(slow);
  c.stall = 15;
  c.keep_issuing = false;
  sass::set_control(slow, c);
  const Code code = assemble({enc::mov_imm(Gpr{8}, 1), slow, slow, enc::nop(), enc::exit()});
  const Liveness live(code);
  EXPECT_FALSE(live.writable_before(2, 64).test(8));
  EXPECT_TRUE(live.writable_before(3, 64).test(8));
}

std::vector<bool> implied(const Code& code, const std::vector<uint64_t>& executions = {}, unsigned queued = 0) {
  const Blocks blocks = find_blocks(code);
  return implied_blocks(code, blocks, std::vector<bool>(blocks.blocks.size(), false), executions, {}, std::vector<unsigned>(blocks.blocks.size(), queued));
}
std::vector<bool> implied(const std::vector<sass::RawInst>& words, const std::vector<uint64_t>& executions = {}, unsigned queued = 0) {
  return implied(assemble(words), executions, queued);
}

// Instructions with a clock, as a string of 0 and 1.
std::string clocks(const std::vector<sass::RawInst>& words, unsigned most_cycles) {
  const Code code = assemble(words);
  std::string out;
  for (const bool has : clock_places(code, {0, static_cast<uint32_t>(words.size())}, most_cycles)) out += has ? '1' : '0';
  return out;
}
sass::RawInst stalled(sass::RawInst w, uint8_t stall) {
  sass::Control c = sass::get_control(w);
  c.stall = stall;
  sass::set_control(w, c);
  return w;
}

TEST(ClockPlaces, TheFirstAndBehindEachWait) {
  const sass::RawInst mov = stalled(enc::mov(Gpr{8}, Gpr{4}), 1), waits = with(mov, 7, 1);
  EXPECT_EQ(clocks({mov, mov, waits, mov, mov}, 100), "10010");
  EXPECT_EQ(clocks({waits, waits, mov, mov}, 100), "1110");
  EXPECT_EQ(clocks({mov, mov, mov, waits}, 100), "1000");   // behind it the next block begins
  EXPECT_EQ(clocks({mov, mov, waits, mov, mov}, 0), "11111");
}
TEST(ClockPlaces, OneInSoManyStallCycles) {
  const sass::RawInst mov = stalled(enc::mov(Gpr{8}, Gpr{4}), 4);
  EXPECT_EQ(clocks({mov, mov, mov, mov, mov, mov, mov, mov}, 16), "10001000");
  EXPECT_EQ(clocks({mov, mov, mov, mov, mov, mov, mov, mov}, 15), "10010010");
  EXPECT_EQ(clocks({mov, mov, mov}, 1), "111");   // each takes longer
}
TEST(ClockPlaces, OneInFourOfAQueue) {
  const sass::RawInst mov = stalled(enc::mov(Gpr{8}, Gpr{4}), 1),
                      store = stalled(enc::stg(enc::VectorAddress{Gpr{4}}, Gpr{2}, enc::Size::b32), 1);
  EXPECT_EQ(clocks({store, mov, store, store, store, mov, store, mov}, 100), "10000100");
}
TEST(ClockPlaces, PaceOfRealCode) {
  const auto image = cubin::Image::parse(fixture_kernel("sgemm").cubin);
  ASSERT_TRUE(image);
  const auto code = read_code(*image, *cubin::kernel_info(*image, fixture_kernel("sgemm").name));
  ASSERT_TRUE(code);
  std::map<std::string_view, std::set<Pace>> paces;
  for (CodeInst i : code->insts) {
    EXPECT_TRUE(sass::get_control(i.raw).wait_mask == 0 || pace_of(i) == Pace::waits);
    i.raw = with(i.raw, sass::get_control(i.raw).read_barrier);   // without its waits
    paces[i.fx.mnemonic].insert(pace_of(i));
  }
  using Set = std::set<Pace>;
  EXPECT_EQ(paces["FFMA"], Set{Pace::fixed});
  EXPECT_EQ(paces["LDG"], Set{Pace::queued});
  EXPECT_EQ(paces["STS"], Set{Pace::queued});
  EXPECT_EQ(paces["BAR"], Set{Pace::waits});
}

TEST(Implied, NotWhatLanesMayPassBy) {
  // B0 leads to B1 and, past it, to B2: one of the two has a record.
  EXPECT_EQ(implied({enc::with_guard(enc::bra(0, 0x20), Pred{0}), enc::mov(Gpr{8}, Gpr{4}), enc::mov(Gpr{9}, Gpr{4}),
                     enc::mov(Gpr{10}, Gpr{4}), enc::mov(Gpr{11}, Gpr{4}), enc::exit()}),
            (std::vector<bool>{false, false, true}));
}

TEST(Implied, OneOfTwoWaysToTheSamePlace) {
  // B0 leads to B1 and to B2, which both lead to B3.
  const std::vector<sass::RawInst> words{enc::with_guard(enc::bra(0, 0x30), Pred{0}), enc::mov(Gpr{8}, Gpr{4}), enc::bra(0x20, 0x40),
                                         enc::mov(Gpr{9}, Gpr{4}), enc::mov(Gpr{10}, Gpr{4}), enc::mov(Gpr{11}, Gpr{4}),
                                         enc::exit()};
  EXPECT_EQ(implied(words), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(implied(words, {9, 1, 8, 9}), (std::vector<bool>{false, false, true, true}));   // the one more often executed
}

TEST(Implied, BlocksInARow) {
  // B0 goes on to B1 or to B3, B1 to B2 or to B4, and all leave at the end: only B2 and B3 meet again, in B5.
  const std::vector<sass::RawInst> words{
      enc::with_guard(enc::bra(0, 0x50), Pred{0}),                                  // B0
      enc::mov(Gpr{8}, Gpr{4}), enc::with_guard(enc::bra(0x20, 0x70), Pred{1}),     // B1
      enc::mov(Gpr{9}, Gpr{4}), enc::bra(0x40, 0x90),                               // B2
      enc::mov(Gpr{9}, Gpr{5}), enc::bra(0x60, 0x90),                               // B3
      enc::mov(Gpr{9}, Gpr{6}), enc::exit(),                                        // B4
      enc::mov(Gpr{10}, Gpr{9}), enc::exit()};                                      // B5
  // The end of B4 and that of B5 are told apart by B5's record.
  EXPECT_EQ(implied(words), (std::vector<bool>{false, true, true, false, true, false}));
  EXPECT_EQ(implied(words, {9, 1, 1, 9, 1, 1}), (std::vector<bool>{false, true, false, true, true, false}));
  EXPECT_EQ(implied(words, {9, 1, 1, 1, 1, 9}), (std::vector<bool>{false, true, true, false, false, true}));   // else two ends
}

TEST(Implied, NothingThatTakesLong) {
  // B0 leads to B1 or B2, which both end the warp. B2 stores.
  const auto first = [](std::vector<sass::RawInst> body, unsigned queued = 0) {
    std::vector<sass::RawInst> words{enc::with_guard(enc::bra(0, static_cast<uint32_t>(16 * (body.size() + 2))), Pred{0})};
    words.insert(words.end(), body.begin(), body.end());
    words.insert(words.end(), {enc::exit(), with(enc::stg(enc::VectorAddress{Gpr{6}}, Gpr{8}, enc::Size::b32), 7, 1), enc::exit()});
    const std::vector<bool> result = implied(words, {}, queued);
    EXPECT_FALSE(result.at(2));
    return bool{result.at(1)};
  };
  const sass::RawInst mov = enc::mov(Gpr{8}, Gpr{4});
  sass::RawInst slow = mov;
  sass::Control c = sass::get_control(slow);
  c.stall = 15;
  c.keep_issuing = false;
  sass::set_control(slow, c);
  EXPECT_TRUE(first({mov, mov, mov, mov}));
  EXPECT_FALSE(first({mov, with(mov, 7, 1)}));
  EXPECT_FALSE(first({mov, enc::s2r(Gpr{8}, enc::sr_laneid)}));
  EXPECT_TRUE(first({slow, slow, slow, slow, slow, slow}));
  EXPECT_FALSE(first({slow, slow, slow, slow, slow, slow, slow}));
  // What goes through a queue issues in time, while that is not full.
  const sass::RawInst store = enc::stg(enc::VectorAddress{Gpr{6}}, Gpr{8}, enc::Size::b32);
  EXPECT_TRUE(first({mov, store, store, store, store}));
  EXPECT_FALSE(first({mov, store, store, store, store, store}));
  EXPECT_TRUE(first({mov, store}, 3));   // so many behind the last clock in front of it
  EXPECT_FALSE(first({mov, store}, 4));
  EXPECT_TRUE(first({mov, with(enc::s2r(Gpr{8}, enc::sr_laneid), 0, 0)}));
}

// A function that starts at the first RET's block, of these words; `calls` lead there.
Code calling(const std::vector<sass::RawInst>& words, std::vector<InstIndex> calls, InstIndex entry, InstIndex ret) {
  Code code = assemble(words);
  code.functions.push_back({"callee", entry, {ret}, std::move(calls)});
  return code;
}
sass::RawInst text(const char* line, int64_t pc) {
  const auto word = sass::assemble(**sass::find_arch(90), line, pc);
  EXPECT_TRUE(word) << line;
  return word.value_or(enc::nop());
}

// B0 leads to B1 and B3, which call B6; that returns to B2 and to B4, which both lead to B5.
TEST(Implied, CallsTellWhereAFunctionReturnsTo) {
  const sass::RawInst mov = enc::mov(Gpr{8}, Gpr{4}), waits = with(mov, 7, 1);
  const auto of = [&](const char* call) {
    return implied(calling({enc::with_guard(enc::bra(0, 0x50), Pred{1}), mov, text(call, 0x20),        // B0, B1
                            mov, enc::bra(0x40, 0x80),                                                  // B2
                            mov, text("CALL.REL.NOINC 0xa0", 0x60), mov,                                // B3, B4
                            waits, enc::exit(), waits, text("RET.REL.NODEC R20 0x0", 0xb0)},            // B5, B6
                           {2, 6}, 10, 11));
  };
  EXPECT_EQ(of("CALL.REL.NOINC 0xa0"), (std::vector<bool>{false, true, true, false, true, false, false}));
  EXPECT_EQ(of("@P2 CALL.REL.NOINC 0xa0"), (std::vector<bool>{false, true, true, false, false, false, false}));   // some lanes do not call
}
// B0 calls B4, which returns to B1; from there two ways lead to B3, one of them through B2.
TEST(Implied, OneWayFromWhereAFunctionReturnsTo) {
  const sass::RawInst mov = enc::mov(Gpr{8}, Gpr{4}), waits = with(mov, 7, 1);
  Code code = calling({mov, text("CALL.REL.NOINC 0x70", 0x10), enc::with_guard(enc::bra(0x20, 0x40), Pred{0}), mov, waits, enc::exit(),
                       enc::nop(), waits, text("RET.REL.NODEC R20 0x0", 0x80)},
                      {1}, 7, 8);
  code.reachable[6] = false;
  EXPECT_EQ(implied(code), (std::vector<bool>{false, true, false, false, false}));
}

// B0 leads past B1, which waits, to B2; lanes come together at its end.
TEST(Implied, UpToAWarpsync) {
  const auto to = [](const char* sync) {
    const sass::RawInst mov = enc::mov(Gpr{8}, Gpr{4});
    return implied({enc::with_guard(enc::bra(0, 0x30), Pred{0}), with(mov, 7, 1), mov, mov, text(sync, 0x40), mov, enc::exit()});
  };
  EXPECT_EQ(to("WARPSYNC.ALL"), (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(to("WARPSYNC R4"), (std::vector<bool>{false, false, false, false}));   // for whom is known at run time
  EXPECT_EQ(to("@P1 WARPSYNC.ALL"), (std::vector<bool>{false, false, false, false}));
  EXPECT_EQ(to("BAR.SYNC 0x0"), (std::vector<bool>{false, false, false, false}));
}

TEST(Liveness, SourcesAreReadAfterIssue) {
  // R4 dies in the first instruction, which has a stall of one: not free in the very next cycle.
  const Code code = assemble({enc::mov(Gpr{8}, Gpr{4}), enc::nop(), enc::stg(enc::VectorAddress{Gpr{6}}, Gpr{8}, enc::Size::b32),
                              enc::exit()});
  const Liveness live(code);
  EXPECT_FALSE(live.writable_before(1, 64).test(4));
  EXPECT_TRUE(live.writable_before(2, 64).test(4));
}

sass::RawInst loads(sass::RawInst w, uint8_t write_barrier) {
  sass::Control c = sass::get_control(w);
  c.write_barrier = write_barrier;
  sass::set_control(w, c);
  return w;
}

// What a loop loads for its next round is on its way behind the loop, where nobody reads it.
TEST(Liveness, ResultsArriveOnPathsThatDoNotReadThem) {
  const sass::RawInst load = loads(enc::ldg(Gpr{8}, enc::VectorAddress{Gpr{4}}, enc::Size::b64), 2);
  // 0 LDG R8   1 @P0 BRA 4   2 MOV R10, R8 (waits)   3 EXIT   4 NOP   5 NOP (waits)   6 NOP   7 EXIT
  const Code code = assemble({load, enc::with_guard(enc::bra(0x10, 0x40), Pred{0}), with(enc::mov(Gpr{10}, Gpr{8}), 7, 1 << 2), enc::exit(),
                              enc::nop(), with(enc::nop(), 7, 1 << 2), enc::nop(), enc::exit()});
  const Liveness live(code);
  for (const unsigned r : {8u, 9u}) {
    EXPECT_FALSE(live.before(4).gpr.test(r));
    EXPECT_FALSE(live.writable_before(4, 64).test(r));
    EXPECT_FALSE(live.writable_before(5, 64).test(r));
    EXPECT_FALSE(live.writable_after_wait(4, 64, 1 << 3).test(r));
    EXPECT_TRUE(live.writable_after_wait(4, 64, 1 << 2).test(r));
    EXPECT_TRUE(live.writable_before(6, 64).test(r));
  }
  // The kernel itself reads it: it has waited, if only by counting groups.
  const Code read = assemble({load, enc::mov(Gpr{10}, Gpr{8}), enc::nop(), enc::nop(), enc::exit()});
  EXPECT_TRUE(Liveness(read).writable_before(3, 64).test(8));
  EXPECT_FALSE(Liveness(read).writable_before(3, 64).test(9));   // the other half
}

TEST(Liveness, FixedLatenciesAndPredicatesLikewise) {
  // 0 MOV R8   1 ISETP P1   2 @P0 BRA 6   3 @P1 MOV R10, R8   4 NOP   5 EXIT   6 NOP   7 EXIT
  const Code code = assemble({enc::mov_imm(Gpr{8}, 1), enc::isetp_imm(Pred{1}, enc::Compare::lt, false, Gpr{5}, 7),
                              enc::with_guard(enc::bra(0x20, 0x60), Pred{0}), enc::with_guard(enc::mov(Gpr{10}, Gpr{8}), Pred{1}), enc::nop(),
                              enc::exit(), enc::nop(), enc::exit()});
  const Liveness live(code);
  EXPECT_FALSE(live.before(6).gpr.test(8));
  EXPECT_FALSE(live.writable_before(6, 64).test(8));
  EXPECT_EQ(live.before(6).pred & 2, 0);
  EXPECT_EQ(live.writable_predicates_before(6) & 2, 0);
  EXPECT_TRUE(live.writable_before(5, 64).test(8));   // read: it had arrived
  EXPECT_EQ(live.writable_predicates_before(5) & 2, 2);
}

TEST(Liveness, APredicateThatNobodyReadsIsFreeOnceItIsWritten) {
  const auto passes = [](sass::RawInst w) {
    sass::Control c = sass::get_control(w);
    c.stall = 15;
    c.keep_issuing = false;
    sass::set_control(w, c);
    return w;
  };
  const sass::RawInst compare = enc::isetp_imm(Pred{1}, enc::Compare::lt, false, Gpr{5}, 7);
  const Liveness live(assemble({compare, passes(enc::nop()), passes(enc::nop()), enc::exit()}));
  EXPECT_EQ(live.writable_predicates_before(0) & 2, 2);
  EXPECT_EQ(live.writable_predicates_before(1) & 2, 0);
  EXPECT_EQ(live.writable_predicates_before(2) & 2, 0);
  EXPECT_EQ(live.writable_predicates_before(3) & 2, 2);
}

// Vendor code reads the result of the first LDS once it has waited for the second; others would come at any time.
TEST(Liveness, ResultsWithoutAScoreboard) {
  const auto lds = [](uint8_t r, uint8_t barrier) {
    sass::RawInst w{0x0000000010007984 | uint64_t{r} << 16, 0x000fe80000000800};   // LDS Rr, [R16]
    return loads(w, barrier);
  };
  const Code code = assemble({lds(8, 7), lds(10, 1), enc::nop(), with(enc::nop(), 7, 1 << 1), enc::nop(), enc::exit()});
  const Liveness live(code);
  EXPECT_FALSE(live.writable_before(3, 64).test(8));
  EXPECT_TRUE(live.writable_before(4, 64).test(8));
  const Code alone = assemble({lds(8, 7), with(enc::nop(), 7, 0x3f), enc::nop(), enc::exit()});
  EXPECT_FALSE(Liveness(alone).writable_after_wait(2, 64, 0x3f).test(8));
  const Code other = assemble({enc::ldg(Gpr{8}, enc::VectorAddress{Gpr{4}}, enc::Size::b32), lds(10, 1), with(enc::nop(), 7, 0x3f), enc::nop(),
                               enc::exit()});
  EXPECT_FALSE(Liveness(other).writable_before(3, 64).test(8));
}

TEST(Liveness, UntouchedUniformRegisters) {
  const Code code = assemble({enc::stg(enc::UniformAddress{enc::Ureg{6}}, Gpr{2}, enc::Size::b32), enc::exit()});
  const sass::RegSet free = Liveness(code).untouched_uniform();
  EXPECT_FALSE(free.test(6));
  EXPECT_FALSE(free.test(7));
  EXPECT_TRUE(free.test(8));
}

}  // namespace
}  // namespace xtrace::instrument::test
