// Loops whose rounds are counted: which are, and what the verifier says when the counting is broken.
#include "instrument/rounds.h"

#include <gtest/gtest.h>

#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/encode.h"
#include "tests/unit/instrument/sabotage.h"

namespace xtrace::instrument::test {
namespace {

// collatz under `block` with short records. `executions`: of its loop; of all other blocks 8.
Case counted_case(bool full, uint64_t executions = 64) {
  Case c{fixture_kernel("collatz"), {}, {}};
  const auto splicer = Splicer::create(c.kernel.cubin, c.kernel.name, small_shape());
  EXPECT_TRUE(splicer);
  wire::SlotLayout layout = some_layout(small_shape(), false, false);
  layout.index_bits = splicer->index_bits();
  layout.short_records = true;
  layout.lead_bytes = sizeof(wire::SlotHead);
  Plan plan = plan_of(ProbeKind::block);
  const auto& blocks = splicer->blocks();
  plan.full_blocks.assign(blocks.size(), full);
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    const auto& next = blocks[b].successors;
    plan.executions.push_back(std::find(next.begin(), next.end(), b) != next.end() ? executions : 8);
  }
  auto spliced = splicer->splice(plan, layout);
  EXPECT_TRUE(spliced) << (spliced ? "" : spliced.error().to_string());
  if (spliced) c.spliced = std::move(*spliced);
  c.claims = c.spliced.claims;
  return c;
}

uint32_t loop_of(const Case& c) {
  uint32_t b = 0;
  while (!c.spliced.map.blocks[b].loop) ++b;
  return b;
}
uint32_t behind(const Case& c) {
  uint32_t b = 0;
  while (c.spliced.map.blocks[b].rounds_at == 0) ++b;
  return b;
}

TEST(Rounds, RecordsOfThem) {
  const Case lanes = counted_case(false), together = counted_case(true);
  EXPECT_EQ(lanes.spliced.map.blocks[behind(lanes)].rounds_at, 8u);
  EXPECT_EQ(lanes.spliced.map.blocks[behind(lanes)].record_bytes, 8u + 4 * 32);
  EXPECT_EQ(together.spliced.map.blocks[behind(together)].rounds_at, 4u);
  EXPECT_EQ(together.spliced.map.blocks[behind(together)].record_bytes, 8u);
  for (const Case* c : {&lanes, &together}) {
    EXPECT_TRUE(c->verify().empty());
    EXPECT_TRUE(c->spliced.map.blocks[loop_of(*c)].implied);
    EXPECT_EQ(c->spliced.map.blocks[loop_of(*c)].record_bytes, 0u);
  }
}

// A count costs more than it saves where lanes hardly go round.
TEST(Rounds, NotOfLoopsThatHardlyGoRound) {
  for (const auto& [full, enough] : {std::pair{false, 17u}, {true, 9u}}) {
    EXPECT_TRUE(counted_case(full, enough).claims.rounds) << full;
    EXPECT_FALSE(counted_case(full, enough - 1).claims.rounds) << full;
  }
}

TEST(Rounds, OfFixtures) {
  size_t loops = 0;
  for (const Kernel& k : fixture_kernels("sm_90")) {
    const auto image = cubin::Image::parse(k.cubin);
    const auto info = cubin::kernel_info(*image, k.name);
    const auto code = read_code(*image, *info);
    if (!code) continue;
    const Blocks blocks = find_blocks(*code);
    const size_t n = blocks.blocks.size();
    const auto some = countable_loops(*code, blocks, {}, {}), all = countable_loops(*code, blocks, {}, std::vector<bool>(n, true));
    for (uint32_t b = 0; b < n; ++b) {
      if (!all[b]) {
        EXPECT_FALSE(some[b]) << k.name;
        continue;
      }
      ++loops;
      EXPECT_EQ(some[b], code->insts[blocks.blocks[behind_loop(blocks, b)].first].fx.mnemonic == "BSYNC") << k.name;
      for (InstIndex i = blocks.blocks[b].first; i <= blocks.blocks[b].last(); ++i) {
        EXPECT_EQ(code->insts[i].fx.kind, sass::MemKind::none) << k.name;
        EXPECT_EQ(sass::get_control(code->insts[i].raw).wait_mask, 0) << k.name;
      }
    }
  }
  EXPECT_GE(loops, 1u);
}

class SabotageRounds : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    c = counted_case(GetParam());
    ASSERT_TRUE(c.claims.rounds);
    ASSERT_TRUE(c.verify().empty());
  }
  template <typename F>
  uint32_t word(F test) {
    return find_word(c, [&](uint32_t k, const sass::Effects& fx) { return inserted(c, k) && test(fx); });
  }
  uint32_t zero() {
    return word([&](const sass::Effects& fx) { return fx.mnemonic == "MOV" && fx.def.gpr.test(*c.claims.rounds); });
  }
  uint32_t add() {
    return word([&](const sass::Effects& fx) { return fx.mnemonic == "IADD3" && fx.def.gpr.test(*c.claims.rounds); });
  }
  uint32_t store() {
    return word([&](const sass::Effects& fx) { return fx.kind == sass::MemKind::store && fx.use.gpr.test(*c.claims.rounds); });
  }
  template <typename F>
  bool found(uint32_t k, F change) {
    return broken(c, k, change).contains("rounds-counted");
  }
  static void leave_out(sass::RawInst& w) {
    const sass::Control control = sass::get_control(w);
    w = sass::enc::nop();
    sass::Control kept = control;
    kept.read_barrier = kept.write_barrier = sass::Control::no_barrier;
    sass::set_control(w, kept);
  }
  Case c;
};

TEST_P(SabotageRounds, NotZeroInFront) {
  EXPECT_TRUE(found(zero(), [](sass::RawInst& w) { set_bits(w, bits(63, 32), 1); }));
  EXPECT_TRUE(found(zero(), leave_out));
  EXPECT_TRUE(found(zero(), [](sass::RawInst& w) { set_bits(w, bits(15, 12), 0); }));   // under a guard
}
TEST_P(SabotageRounds, NotOneMoreARound) {
  EXPECT_TRUE(found(add(), [](sass::RawInst& w) { set_bits(w, bits(63, 32), 2); }));
  EXPECT_TRUE(found(add(), leave_out));
  EXPECT_TRUE(found(add(), [](sass::RawInst& w) { set_bits(w, bits(15, 12), 0); }));
  EXPECT_TRUE(found(add(), [](sass::RawInst& w) { set_bits(w, bits(31, 24), 2); }));    // of another register
}
TEST_P(SabotageRounds, CountedElsewhere) {
  sass::RawInst one_more = word_at(c, c.spliced.cubin, add());
  EXPECT_TRUE(found(zero(), [&](sass::RawInst& w) { w = one_more; }));
  EXPECT_TRUE(found(store(), [&](sass::RawInst& w) { w = one_more; }));
}
TEST_P(SabotageRounds, NotInTheRecord) {
  EXPECT_TRUE(found(store(), leave_out));
  EXPECT_TRUE(found(store(), [](sass::RawInst& w) { set_bits(w, bits(63, 40), get_bits(w, bits(63, 40)) + 4); }));
  EXPECT_TRUE(found(store(), [](sass::RawInst& w) { set_bits(w, bits(39, 32), get_bits(w, bits(39, 32)) ^ 1); }));
  EXPECT_TRUE(found(store(), [](sass::RawInst& w) { set_bits(w, bits(31, 24), get_bits(w, bits(31, 24)) ^ 1); }));
  EXPECT_TRUE(found(store(), [](sass::RawInst& w) { set_bits(w, bits(69, 64), get_bits(w, bits(69, 64)) ^ 2); }));
  EXPECT_TRUE(found(store(), [](sass::RawInst& w) { set_bits(w, bits(15, 12), 0); }));
}
TEST_P(SabotageRounds, OtherClaims) {
  const auto broken_by = [&](auto change) {
    Case other = c;
    change(other.claims);
    return rules(other.verify()).contains("rounds-counted");
  };
  const uint32_t loop = loop_of(c), left_for = behind(c);
  EXPECT_TRUE(broken_by([&](SpliceClaims& s) { s.loops[loop] = false; }));
  EXPECT_TRUE(broken_by([&](SpliceClaims& s) { s.loops[left_for] = true; }));
  EXPECT_TRUE(broken_by([&](SpliceClaims& s) { s.rounds_at[left_for] = 0; }));
  EXPECT_TRUE(broken_by([&](SpliceClaims& s) { s.rounds_at[left_for] += 4; }));
  EXPECT_TRUE(broken_by([&](SpliceClaims& s) { s.rounds_at[loop] = 8; }));
  EXPECT_TRUE(broken_by([&](SpliceClaims& s) { s.rounds_alike[left_for] = !s.rounds_alike[left_for]; }));
  EXPECT_TRUE(broken_by([&](SpliceClaims& s) { s.rounds = 0; }));
  EXPECT_TRUE(broken_by([&](SpliceClaims& s) { s.loops.pop_back(); }));
}
INSTANTIATE_TEST_SUITE_P(Lanes, SabotageRounds, testing::Bool(), [](const auto& p) { return p.param ? "together" : "apart"; });

// Of each lane: nobody but the prologue may write the register by which they store.
TEST(Rounds, LanesKeepTheirPlaces) {
  const Case c = counted_case(false);
  ASSERT_TRUE(c.claims.lane_offset);
  const uint32_t store = find_word(c, [&](uint32_t k, const sass::Effects& fx) { return inserted(c, k) && fx.kind == sass::MemKind::store && fx.use.gpr.test(*c.claims.rounds); });
  const uint32_t add = find_word(c, [&](uint32_t k, const sass::Effects& fx) { return inserted(c, k) && fx.mnemonic == "VOTE" && k < store && k + 6 > store; });
  EXPECT_TRUE(broken(c, add, [&](sass::RawInst& w) { set_bits(w, bits(23, 16), *c.claims.lane_offset); }).contains("rounds-counted"));
}

}  // namespace
}  // namespace xtrace::instrument::test
