// Records that say who falls through to the next block: which blocks have them, and what the verifier says when they are broken.
#include <gtest/gtest.h>

#include <algorithm>

#include "instrument/sass/encode.h"
#include "tests/unit/instrument/sabotage.h"

namespace xtrace::instrument::test {
namespace {

// Under `block` with short records, all lanes in all blocks, and one execution less of each than of the one in front: nobody always follows.
// Nothing where the kernel is refused.
std::optional<Case> case_of(const Kernel& k) {
  const auto splicer = Splicer::create(k.cubin, k.name, small_shape());
  if (!splicer) return std::nullopt;
  wire::SlotLayout layout = some_layout(small_shape(), false, false);
  layout.index_bits = splicer->index_bits();
  layout.short_records = true;
  layout.lead_bytes = sizeof(wire::SlotHead);
  Plan plan = plan_of(ProbeKind::block);
  const auto blocks = static_cast<uint32_t>(splicer->blocks().size());
  plan.full_blocks.assign(blocks, true);
  for (uint32_t b = 0; b < blocks; ++b) plan.executions.push_back(1000 - std::min(b, 900u));
  auto spliced = splicer->splice(plan, layout);
  if (!spliced) {
    EXPECT_EQ(spliced.error().kind, ErrorKind::unsupported) << k.name << spliced.error().to_string();
    return std::nullopt;
  }
  Case c{k, std::move(*spliced), {}};
  c.claims = c.spliced.claims;
  EXPECT_TRUE(c.verify().empty()) << k.name;
  return c;
}
std::vector<Case> forking(const std::string& arch) {
  std::vector<Case> cases;
  for (const Kernel& k : fixture_kernels(arch))
    if (auto c = case_of(k); c && !c->claims.forks.empty()) cases.push_back(std::move(*c));
  return cases;
}

TEST(Forks, OfFixtures) {
  for (const char* arch : {"sm_75", "sm_80", "sm_90"}) {
    size_t forks = 0;
    for (const Case& c : forking(arch)) {
      const auto& blocks = c.spliced.map.blocks;
      for (const uint32_t b : c.claims.forks) {
        ++forks;
        EXPECT_EQ(blocks[b].record_bytes, 8u);
        EXPECT_EQ(blocks[b + 1].record_bytes, 0u);
        EXPECT_TRUE(blocks[b + 1].placed);
        EXPECT_FALSE(blocks[b + 1].implied);
        EXPECT_GT(blocks[b].fork_cycles, 0u);
        EXPECT_LE(blocks[b].fork_cycles, blocks[b].least_cycles);
        EXPECT_EQ(blocks[b].successors.size(), 2u);
      }
    }
    EXPECT_GE(forks, 1u) << arch;
  }
}

struct Words {
  uint32_t vote, lea, store, add;
};
// Of the record of the first block of the case that forks: its store is the first behind a vote, in front of the branch. By lanes the first word
// is put together between them.
Words words_of(const Case& c) {
  const wire::Block& block = c.spliced.map.blocks[c.claims.forks[0]];
  const uint32_t branch = block.first_pc + (block.instructions - 1) * sass::inst_bytes;
  const uint32_t at = find_word(c, [&](uint32_t k, const sass::Effects&) { return c.claims.original_of_new[k] == branch; });
  Words w{0, 0, 0, 0};
  for (uint32_t k = at; k-- > at - 8;) {
    const sass::Effects fx = effects_at(c, k);
    if (fx.mnemonic == "VOTE") w.vote = k;
    if (fx.mnemonic == "LEA" && fx.guarded) w.lea = k;
    if (fx.kind == sass::MemKind::store) w.store = k;
    if (fx.mnemonic == "UIADD3") w.add = k;
  }
  EXPECT_TRUE(w.vote != 0 && w.store != 0 && w.add != 0);
  return w;
}
void leave_out(sass::RawInst& w) {
  sass::Control kept = sass::get_control(w);
  w = sass::enc::nop();
  kept.read_barrier = kept.write_barrier = sass::Control::no_barrier;
  sass::set_control(w, kept);
}

TEST(Forks, Sabotage) {
  const std::vector<Case> cases = forking("sm_90");
  ASSERT_FALSE(cases.empty());
  size_t by_lanes = 0;
  for (const Case& c : cases) {
    const Words w = words_of(c);
    const auto found = [&](uint32_t k, auto change) { return broken(c, k, change).contains("fork-recorded"); };
    EXPECT_TRUE(found(w.vote, leave_out));
    EXPECT_TRUE(found(w.vote, [](sass::RawInst& v) { set_bits(v, bit(90), get_bits(v, bit(90)) ^ 1); }));            // the others
    EXPECT_TRUE(found(w.vote, [](sass::RawInst& v) { set_bits(v, bits(89, 87), get_bits(v, bits(89, 87)) ^ 1); }));   // by another predicate
    EXPECT_TRUE(found(w.vote, [](sass::RawInst& v) { set_bits(v, bits(15, 12), 0); }));
    EXPECT_TRUE(found(w.vote, [](sass::RawInst& v) { set_bits(v, bits(23, 16), get_bits(v, bits(23, 16)) ^ 2); }));
    EXPECT_TRUE(found(w.store, leave_out));
    EXPECT_TRUE(found(w.store, [](sass::RawInst& s) { set_bits(s, bits(63, 40), 8); }));
    EXPECT_TRUE(found(w.store, [](sass::RawInst& s) { set_bits(s, bits(75, 73), get_bits(s, bits(75, 73)) ^ 1); }));   // 32 bits instead of 64, or the other way
    EXPECT_TRUE(found(w.store, [](sass::RawInst& s) { set_bits(s, bits(15, 12), 0); }));
    EXPECT_TRUE(found(w.store, [](sass::RawInst& s) { set_bits(s, bits(69, 64), get_bits(s, bits(69, 64)) ^ 2); }));
    EXPECT_TRUE(found(w.add, [](sass::RawInst& a) { set_bits(a, bits(63, 32), 16); }));
    EXPECT_TRUE(found(w.add, leave_out));
    EXPECT_EQ(w.lea != 0, c.claims.odd_lanes.has_value());
    if (w.lea == 0) continue;
    ++by_lanes;
    EXPECT_TRUE(found(w.lea, leave_out));
    EXPECT_TRUE(found(w.lea, [](sass::RawInst& l) { set_bits(l, bit(15), 0); }));   // in the lanes that have who falls through
    EXPECT_TRUE(found(w.lea, [](sass::RawInst& l) { set_bits(l, bits(63, 32), get_bits(l, bits(63, 32)) + 1); }));   // another block
    EXPECT_TRUE(found(w.lea, [](sass::RawInst& l) { set_bits(l, bits(23, 16), get_bits(l, bits(23, 16)) ^ 2); }));
    EXPECT_TRUE(found(w.store, [](sass::RawInst& s) { set_bits(s, bits(31, 24), 255); }));   // all lanes to the first word
  }
  EXPECT_GE(by_lanes, 1u);
}

TEST(Forks, OtherClaims) {
  for (Case c : forking("sm_90")) {
    const uint32_t b = c.claims.forks[0];
    for (const uint32_t other : {b + 1, static_cast<uint32_t>(c.spliced.map.blocks.size()) - 1}) {
      c.claims.forks[0] = other;
      EXPECT_TRUE(rules(c.verify()).contains("fork-recorded")) << c.kernel.name << " " << other;
    }
  }
}

}  // namespace
}  // namespace xtrace::instrument::test
