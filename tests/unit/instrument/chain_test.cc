// Records that several blocks share: which blocks do, and what the verifier says of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

std::optional<Case> case_of(const Kernel& k, const std::vector<uint64_t>& executions, const LaunchShape& shape = small_shape()) {
  return short_block_case(k, shape, executions);
}

uint32_t last_pc(const wire::Block& b) { return b.first_pc + (b.instructions - 1) * sass::inst_bytes; }

// f(head, block) for every block that lies in the record of another one, or between such blocks, but for the last.
template <typename F>
void each_inside(const Case& c, F f) {
  const auto& blocks = c.spliced.map.blocks;
  for (uint32_t head = 0; head < blocks.size(); ++head)
    for (uint32_t b = head; !blocks[head].chain.empty() && b < blocks[head].chain.back(); ++b) f(head, b);
}

TEST(Chain, LeadsOverBranchesThatNobodyTook) {
  size_t over = 0, caught = 0;
  for (const Kernel& k : fixture_kernels("sm_90")) {
    const auto c = case_of(k, {});
    if (!c) continue;
    EXPECT_TRUE(c->verify().empty()) << k.name;
    const auto& blocks = c->spliced.map.blocks;
    std::set<uint32_t> branches;
    each_inside(*c, [&](uint32_t, uint32_t b) {
      EXPECT_EQ(blocks[b].first_pc + blocks[b].instructions * sass::inst_bytes, blocks[b + 1].first_pc) << k.name << " B" << b;
      for (uint32_t other = 0; other < blocks.size(); ++other) {
        const auto& next = blocks[other].successors;
        EXPECT_EQ(std::find(next.begin(), next.end(), b + 1) != next.end(), other == b) << k.name << " B" << other << " to B" << b + 1;
      }
      if (blocks[b].successors.size() > 1) branches.insert(last_pc(blocks[b]));
    });
    EXPECT_EQ(branches, std::set<uint32_t>(c->claims.not_taken.begin(), c->claims.not_taken.end())) << k.name;
    over += branches.size();
    if (branches.empty()) continue;
    Case unclaimed = *c;
    unclaimed.claims.not_taken.clear();
    caught += rules(unclaimed.verify()).contains("record-clobbered");
  }
  EXPECT_GE(over, 10u);
  EXPECT_GE(caught, 1u);
}

// Words in lane groups need all 32 lanes: not where the last warp of a CTA was launched with fewer.
TEST(Chain, ByLaneGroupsOfWholeWarpsAlone) {
  size_t whole = 0;
  const auto longest = [](const Case& c) {
    size_t most = 0;
    for (const wire::Block& b : c.spliced.map.blocks) most = std::max(most, b.chain.size());
    return most;
  };
  for (const Kernel& k : fixture_kernels("sm_90")) {
    LaunchShape shape = small_shape();
    const auto all = case_of(k, {}, shape);
    shape.block = {static_cast<uint32_t>(shape.block.count()) - 1, 1, 1};
    const auto some = case_of(k, {}, shape);
    if (!all || !some) continue;
    whole += longest(*all) > 1;
    EXPECT_LE(longest(*some), 1u) << k.name;   // two blocks by one store of 64 bits
  }
  EXPECT_GE(whole, 3u);
}

// A block that was executed less often than the one in front of it has a record of its own.
TEST(Chain, EndsWhereSomebodyWentElsewhere) {
  size_t parted = 0;
  for (const Kernel& k : fixture_kernels("sm_90")) {
    const auto all = case_of(k, {});
    if (!all || all->claims.not_taken.empty()) continue;
    const auto& blocks = all->spliced.map.blocks;
    const uint32_t pc = all->claims.not_taken.front();
    const auto b = static_cast<uint32_t>(std::find_if(blocks.begin(), blocks.end(), [&](const wire::Block& x) { return last_pc(x) == pc; }) - blocks.begin());
    std::vector<uint64_t> executions(blocks.size(), 8);
    executions[b + 1] = 7;
    const auto some = case_of(k, executions);
    ASSERT_TRUE(some) << k.name;
    ++parted;
    each_inside(*some, [&](uint32_t, uint32_t inside) { EXPECT_NE(inside, b) << k.name; });
    EXPECT_EQ(std::count(some->claims.not_taken.begin(), some->claims.not_taken.end(), pc), 0) << k.name;
  }
  EXPECT_GE(parted, 3u);
}

TEST(Chain, WhatIsSaidNotToBeTakenIsABranch) {
  const auto c = case_of(fixture_kernel("sgemm"), {});
  ASSERT_TRUE(c);
  Case wrong = *c;
  wrong.claims.not_taken.push_back(0);   // the kernel's first instruction
  EXPECT_TRUE(rules(wrong.verify()).contains("record-clobbered"));
}

}  // namespace
}  // namespace xtrace::instrument::test
