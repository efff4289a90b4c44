// What inserted code costs, against numbers that follow from the store table of docs/performance.md.
#include "instrument/probe_cost.h"

#include <gtest/gtest.h>

#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

ProbeCost cost(const Case& c, const std::vector<uint64_t>& executions, LaunchWarps warps) {
  const auto found = probe_cost(c.spliced, c.kernel.name, executions, warps);
  EXPECT_TRUE(found) << (found ? "" : found.error().to_string());
  return found.value_or(ProbeCost{});
}

TEST(ProbeCost, FollowsTheExecutions) {
  for (const uint32_t one_in : {1u, 4u}) {   // the untouched copy counts for nothing
    const Case c = splice_case(fixture_kernel("spmv"), plan_of(ProbeKind::block, one_in));
    const size_t blocks = c.spliced.map.blocks.size();
    ASSERT_GT(blocks, 3u);
    const std::vector<uint64_t> none(blocks, 0);
    const ProbeCost prologue = cost(c, none, {1, 1}), decision = cost(c, none, {1, 0});
    EXPECT_EQ(cost(c, none, {10, 10}).issue_slots, 10 * prologue.issue_slots);
    // S2R of one number (the kernel loads the other itself), the seed, two IMAD, ISETP, BRA; all warps decide, and those that are
    // traced have a prologue as well.
    EXPECT_EQ(decision.issue_slots, one_in > 1 ? 6u : 0u);
    EXPECT_EQ(cost(c, none, {10, 3}).issue_slots, 7 * decision.issue_slots + 3 * prologue.issue_slots);
    EXPECT_GE(prologue.issue_slots, 10u);
    EXPECT_LE(prologue.issue_slots, 60u);
    EXPECT_EQ(prologue.kernel_slots, 0u);
    EXPECT_GE(prologue.warp_cycles, prologue.issue_slots) << "no instruction stalls for less than its slot";
    std::vector<uint64_t> two = none;
    two[2] = 7;
    const ProbeCost more = cost(c, two, {1, 1});
    EXPECT_EQ((more.issue_slots - prologue.issue_slots) % 7, 0u);
    EXPECT_GE(more.issue_slots - prologue.issue_slots, 7u * 4) << "head, mask, clock, cursor, store";
    EXPECT_EQ((more.warp_cycles - prologue.warp_cycles) % 7, 0u);
    EXPECT_GE(more.warp_cycles - prologue.warp_cycles, 7u * 5);
    EXPECT_EQ(more.kernel_slots, 7u * c.spliced.map.blocks[2].instructions) << "no clock of 64 bits in this kernel";
    // A chunk in one store of 128 bits, or in smaller ones where fewer registers are free.
    const uint64_t cycles = (more.store_cycles - prologue.store_cycles) / 7;
    EXPECT_TRUE(cycles == 5 || cycles == 6 || cycles == 8) << cycles;
    EXPECT_EQ(more.stored_bytes - prologue.stored_bytes, 7u * wire::chunk_bytes);
  }
}

TEST(ProbeCost, WordsOfLanesAreALine) {
  const Kernel kernel = fixture_kernel("histogram");
  wire::SlotLayout layout = some_layout(small_shape(), false, false);
  layout.lead_bytes = wire::mem_line;
  auto spliced = splice(kernel.cubin, kernel.name, small_shape(), plan_of(ProbeKind::mem), layout);
  ASSERT_TRUE(spliced) << spliced.error().to_string();
  const Case c{kernel, std::move(*spliced), {}};
  size_t columns = 0, words = 0;   // of all blocks
  for (const AddressClaim& claim : c.spliced.claims.addresses) (claim.kind == AddressClaim::Kind::column ? columns : words) += 1;
  ASSERT_GT(columns, 0u);
  const ProbeCost all = cost(c, std::vector<uint64_t>(c.spliced.map.blocks.size(), 1), {});
  size_t heads = 0;
  for (const wire::Block& b : c.spliced.map.blocks) heads += b.record_bytes != 0;
  // The rest of the prologue stands in the entry block: the head of the slot.
  EXPECT_EQ(all.stored_bytes, 128 * columns + 4 * words + 8 * heads + sizeof(wire::SlotHead));
  EXPECT_EQ(all.store_cycles, 4 * columns + 2 * words + 3 * heads + 3);
  EXPECT_EQ(all.partial_stores, words + heads + 1) << "a column is a line";
}

// A wait that the probe adds costs what is left of the way to memory; one that is the kernel's own costs nothing.
TEST(ProbeCost, WaitsForTheKernelsLoads) {
  constexpr uint64_t to_memory = 273, times = 7;   // docs/performance.md "What a wait costs"
  const Case c = splice_case(fixture_kernel("spmv"), plan_of(ProbeKind::block));
  const size_t blocks = c.spliced.map.blocks.size();
  const auto original = [&](uint32_t k) { return c.spliced.map.original_of_new[k]; };
  const auto control = [&](uint32_t k) { return sass::get_control(word_at(c, c.spliced.cubin, k)); };
  const auto load = [&](uint32_t k) {
    return original(k) != wire::AddressMap::inserted && sass::opcode13(word_at(c, c.spliced.cubin, k)) % 0x1000 == 0x981 && control(k).write_barrier < 6;
  };
  size_t tried = 0;
  for (size_t b = 1; b < blocks; ++b) {
    const wire::Block& block = c.spliced.map.blocks[b];
    const auto inside = [&](uint32_t k) { return original(k) != wire::AddressMap::inserted && original(k) >= block.first_pc && original(k) < block.first_pc + 16 * block.instructions; };
    for (uint32_t k = c.spliced.claims.prologue_words; k + 1 < word_count(c); ++k) {
      if (!inside(k) || !inside(k + 1) || !load(k) || control(k + 1).wait_mask != 0) continue;
      std::vector<uint64_t> executions(blocks, 0);
      executions[b] = times;
      const uint64_t before = cost(c, executions, {1, 1}).warp_cycles;
      Case waiting = c;
      sass::RawInst w = word_at(c, c.spliced.cubin, k + 1);
      sass::Control own = sass::get_control(w);
      own.wait_mask = static_cast<uint8_t>(1u << control(k).write_barrier);
      sass::set_control(w, own);
      set_word(waiting, waiting.spliced.cubin, k + 1, w);
      EXPECT_EQ(cost(waiting, executions, {1, 1}).warp_cycles, before) << "the kernel's own";
      waiting.spliced.added_waits[k + 1] = own.wait_mask;
      const uint64_t after = cost(waiting, executions, {1, 1}).warp_cycles;
      EXPECT_GE(after - before, times * (to_memory - control(k).stall));
      EXPECT_LE(after - before, times * to_memory);
      ++tried;
    }
  }
  EXPECT_GT(tried, 5u);
}

// Where 4 * lane is made for each block, the warp waits for the lane's number, and overwrites registers that a store has yet to read.
TEST(ProbeCost, WaitsOfTheProbesOwn) {
  const Kernel kernel = fixture_kernel("spmv");
  wire::SlotLayout layout = some_layout(small_shape(), false, false);
  layout.lead_bytes = wire::mem_line;
  auto spliced = splice(kernel.cubin, kernel.name, small_shape(), plan_of(ProbeKind::mem), layout);
  ASSERT_TRUE(spliced) << spliced.error().to_string();
  const Case c{kernel, std::move(*spliced), {}};
  uint64_t stalls = 0, added = 0;
  for (uint32_t k = c.spliced.claims.prologue_first; k < word_count(c); ++k) {
    if (inserted(c, k)) stalls += sass::get_control(word_at(c, c.spliced.cubin, k)).stall;
    added += c.spliced.added_waits[k] != 0;
  }
  EXPECT_GT(added, 5u);
  const uint64_t all = cost(c, std::vector<uint64_t>(c.spliced.map.blocks.size(), 1), {1, 1}).warp_cycles;
  EXPECT_GT(all, stalls);
  EXPECT_LT(all, stalls + 1000) << "no way to memory among them";
}

// Every store of a full block's record fills its sectors, and what it writes is what records take.
TEST(ProbeCost, WholeSectorsAreNotWrittenInPart) {
  const Kernel kernel = fixture_kernel("saxpy");
  const auto splicer = Splicer::create(kernel.cubin, kernel.name, small_shape());
  ASSERT_TRUE(splicer && splicer->can_fill_sectors(false));
  for (const bool full : {true, false}) {
    wire::SlotLayout layout = some_layout(small_shape(), false, false);
    layout.index_bits = splicer->index_bits();
    layout.whole_sectors = true;
    layout.lead_bytes = wire::sector_bytes;
    Plan plan = plan_of(ProbeKind::inst);
    plan.full_blocks.assign(splicer->blocks().size(), full);
    auto spliced = splicer->splice(plan, layout);
    ASSERT_TRUE(spliced) << spliced.error().to_string();
    const Case c{kernel, std::move(*spliced), {}};
    const ProbeCost all = cost(c, std::vector<uint64_t>(splicer->blocks().size(), 1), {1, 1});
    uint64_t bytes = wire::sector_bytes;   // of the head
    for (const wire::Block& b : c.spliced.map.blocks) bytes += b.record_bytes;
    EXPECT_EQ(all.stored_bytes, bytes);
    EXPECT_EQ(all.partial_stores == 0, full);
  }
}

// The same of `mem`: a head, and stores of one or two sectors.
TEST(ProbeCost, WholeSectorsOfAddressesAreNotWrittenInPart) {
  const Kernel kernel = fixture_kernel("saxpy");
  LaunchShape shape = small_shape();
  shape.low_words_tell = true;
  const auto splicer = Splicer::create(kernel.cubin, kernel.name, shape);
  ASSERT_TRUE(splicer && splicer->can_fill_sectors(false));
  wire::SlotLayout layout = some_layout(shape, false, false);
  layout.whole_sectors = true;
  layout.lead_bytes = wire::sector_bytes;
  const size_t blocks = splicer->blocks().size();
  auto spliced = splicer->counted(std::vector<bool>(blocks, true), std::vector<uint64_t>(blocks, 1)).splice(plan_of(ProbeKind::mem), layout);
  ASSERT_TRUE(spliced) << spliced.error().to_string();
  const Case c{kernel, std::move(*spliced), {}};
  const ProbeCost all = cost(c, std::vector<uint64_t>(blocks, 1), {1, 1});
  uint64_t bytes = wire::sector_bytes;   // of the head
  for (const wire::Block& b : c.spliced.map.blocks) bytes += b.record_bytes;
  EXPECT_EQ(all.stored_bytes, bytes);
  EXPECT_EQ(all.partial_stores, 0u);
}

// Records of full blocks: no column among them, though their stores have an offset for each lane as well.
TEST(ProbeCost, WordsOfLaneGroupsAreNoColumns) {
  const Kernel kernel = fixture_kernel("saxpy");
  LaunchShape shape = small_shape();
  shape.low_words_tell = true;
  wire::SlotLayout layout = some_layout(shape, false, false);
  layout.lead_bytes = wire::chunk_bytes;
  const auto splicer = Splicer::create(kernel.cubin, kernel.name, shape);
  ASSERT_TRUE(splicer) << splicer.error().to_string();
  const size_t blocks = splicer->blocks().size();
  auto spliced = splicer->counted(std::vector<bool>(blocks, true), std::vector<uint64_t>(blocks, 1)).splice(plan_of(ProbeKind::mem), layout);
  ASSERT_TRUE(spliced) << spliced.error().to_string();
  const Case c{kernel, std::move(*spliced), {}};
  for (const wire::Access& a : c.spliced.map.accesses) ASSERT_TRUE(a.low == a.none && a.high == a.none);
  constexpr uint16_t stg_uniform = 0x1986;
  uint64_t bytes = 0, cycles = 0, by_groups = 0;
  for (uint32_t k = c.spliced.claims.prologue_words; k < word_count(c); ++k) {
    const sass::RawInst w = word_at(c, c.spliced.cubin, k);
    if (c.spliced.claims.original_of_new[k] != wire::AddressMap::inserted || sass::opcode13(w) != stg_uniform) continue;
    const uint64_t words = 1u << (get_bits(w, bits(75, 73)) - 4), groups = get_bits(w, bits(31, 24)) == 255 ? 1 : 4;
    bytes += 4 * words * groups;
    cycles += 1 + words;
    by_groups += groups == 4;
  }
  EXPECT_GT(by_groups, 0u);
  const ProbeCost all = cost(c, std::vector<uint64_t>(blocks, 1), {});
  EXPECT_EQ(all.stored_bytes, bytes + sizeof(wire::SlotHead)) << "the head of the slot stands in the entry block";
  EXPECT_EQ(all.store_cycles, cycles + 3);
}

// A vector register of `reg` is a line: 32 words, whichever lanes are there.
TEST(ProbeCost, RegistersOfLanesAreLines) {
  const Kernel kernel = fixture_kernel("saxpy");
  const auto splicer = Splicer::create(kernel.cubin, kernel.name, small_shape());
  ASSERT_TRUE(splicer) << splicer.error().to_string();
  using Kind = wire::Value::Kind;
  const auto cost_of = [&](std::vector<wire::Value> values, size_t& columns) {
    Asked asked;
    asked.reg.push_back({{}, std::move(values), {}, {}});
    auto spliced = splicer->asked(asked).splice(plan_of(ProbeKind::reg), some_layout(small_shape(), false, false));
    EXPECT_TRUE(spliced) << (spliced ? "" : spliced.error().to_string());
    const Case c{kernel, std::move(*spliced), {}};
    for (const wire::Point& p : c.spliced.map.points)
      columns += static_cast<size_t>(std::count_if(p.values.begin(), p.values.end(), [](const wire::Value& v) { return v.is_column() && v.is_recorded(); }));
    return cost(c, std::vector<uint64_t>(c.spliced.map.blocks.size(), 1), {1, 1});
  };
  size_t none = 0, columns = 0;
  const ProbeCost clock = cost_of({{Kind::clock}}, none), both = cost_of({{Kind::clock}, {Kind::vector, 0}, {Kind::vector, 2}}, columns);
  ASSERT_EQ(none, 0u);
  ASSERT_GT(columns, 1u);
  EXPECT_EQ(both.stored_bytes - clock.stored_bytes, 128 * columns);
  EXPECT_EQ(both.store_cycles - clock.store_cycles, 4 * columns);
}

}  // namespace
}  // namespace xtrace::instrument::test
